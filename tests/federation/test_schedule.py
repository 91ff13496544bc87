"""Schedules: the learning rate, and what is refused in which words."""

import math

import pytest

from pfl_lib import BadInput, Schedule
from tests.common import refusal


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"rounds": 0}, "rounds 0: give a whole number, 1 or more"),
        ({"rounds": 2.0}, "rounds 2.0: give a whole number, 1 or more"),
        ({"rounds": True}, "rounds True: give a whole number, 1 or more"),
        ({"local_epochs": 0}, "local_epochs 0: give a whole number, 1 or more"),
        ({"local_batches": 0}, "local_batches 0: give a whole number, 1 or more"),
        ({"batch_size": -1}, "batch_size -1: give a whole number, 1 or more"),
        ({"order": "random"}, "order 'random' is not one of shuffled, fixed"),
        ({"augment": "flip"}, "augment 'flip' is not one of none, crop_flip"),
        ({"lr": 0}, "lr 0: give a number above 0"),
        ({"lr": math.nan}, "lr nan: give a number above 0"),
        ({"lr": math.inf}, "lr inf: give a number above 0"),
        pytest.param({"lr": 10**400}, f"lr {10**400}: give a number above 0", id="huge"),
        ({"lr": "0.1"}, "lr '0.1': give a number above 0"),
        ({"lr": None}, "lr None: give a number above 0"),
        ({"lr_decay": 1.5}, "lr_decay 1.5: give a number above 0 and at most 1"),
        ({"momentum": 1.0}, "momentum 1.0: give a number from 0 to below 1"),
        ({"momentum": -0.1}, "momentum -0.1: give a number from 0 to below 1"),
        ({"weight_decay": -1e-4}, "weight_decay -0.0001: give a number 0 or more"),
        ({"participation": 0}, "participation 0: give a number above 0 and at most 1"),
        ({"participation": 1.1}, "participation 1.1: give a number above 0 and at most 1"),
        ({"participation": True}, "participation True: give a number above 0 and at most 1"),
        ({"availability": 3}, "availability 3: give a tuple of (client, first round, last round)"),
        (
            {"availability": [(0, 1, 2)]},
            "availability [(0, 1, 2)]: give a tuple of (client, first round, last round)",
        ),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(wrong, sentence):
    assert refusal(Schedule, **{"rounds": 5, **wrong}) == sentence


@pytest.mark.parametrize(
    "entry", [(0, 1), (-1, 1, 2), (0, 0, 2), (0, 3, 2), 3, (0, 1, "2"), (0, 1.0, 2)], ids=str
)
def test_an_availability_that_makes_no_sense_is_refused(entry):
    with pytest.raises(
        BadInput, match=r"give \(client, first round, last round\) with 1 <= first <= last$"
    ):
        Schedule(5, availability=(entry,))
