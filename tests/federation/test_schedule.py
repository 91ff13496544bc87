"""Schedules: the learning rate, and what is refused in which words."""

import math

import pytest

from pfl_lib import Schedule
from tests.common import refusal

COUNT, ABOVE_0 = ": give a whole number, 1 or more", ": give a number above 0"
SHARE, INTERVALS = f"{ABOVE_0} and at most 1", ": give a tuple of (client, first round, last round)"
WRONG = {
    "rounds": ([0, 2.0, True], COUNT),
    "local_epochs": ([0], COUNT),
    "local_batches": ([0], COUNT),
    "batch_size": ([-1], COUNT),
    "lr": ([0, math.nan, math.inf, 10**400, "0.1", None], ABOVE_0),
    "lr_decay": ([1.5], SHARE),
    "momentum": ([1.0, -0.1], ": give a number from 0 to below 1"),
    "weight_decay": ([-1e-4], ": give a number 0 or more"),
    "participation": ([0, 1.1, True], SHARE),
    "availability": ([3, [(0, 1, 2)]], INTERVALS),
    "order": (["flip"], " is not one of shuffled, fixed"),
    "augment": (["flip"], " is not one of none, crop_flip"),
}
CASES = [(name, value, told) for name, (values, told) in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value", "told"), CASES, ids=lambda of: str(of)[:20])
def test_a_value_that_makes_no_sense_is_refused(name, value, told):
    assert refusal(Schedule, **{"rounds": 5, name: value}) == f"{name} {value!r}{told}"


@pytest.mark.parametrize(
    "entry", [(0, 1), (-1, 1, 2), (0, 0, 2), (0, 3, 2), 3, (0, 1, "2"), (0, 1.0, 2)], ids=str
)
def test_an_availability_that_makes_no_sense_is_refused(entry):
    told = "give (client, first round, last round) with 1 <= first <= last"
    assert refusal(Schedule, 5, availability=(entry,)).endswith(told)


def test_epochs_beside_batches_are_refused_since_batches_alone_would_count():
    told = "local_epochs 5 beside local_batches 2: give one of them"
    assert refusal(Schedule, 5, local_epochs=5, local_batches=2) == told
    assert Schedule(5, local_batches=2).local_epochs == 1
