"""Validation examples: a fixed share of each client's training examples."""

import torch

from pfl_lib import data, partitions
from pfl_lib.partitions import Partition
from pfl_lib.partitions.validation import hold_out_validation
from tests.common import refusal, refused


def test_what_is_held_out_depends_on_the_seed_and_the_client_alone(digits):
    one, same, other = (
        partitions.make("A", digits, clients, seed, validation=0.5)
        for clients, seed in ((10, 1), (3, 1), (10, 2))
    )
    assert all(torch.equal(a, b) for a, b in zip(one.validation, same.validation, strict=False))
    assert not torch.equal(one.validation[0], other.validation[0])


def test_a_table_whose_pools_are_one_keeps_all_three_apart():
    cancer = data.load("breast_cancer")
    made = partitions.make("radius_strict", cancer, alice=2, validation=0.1)
    rows = torch.cat([*made.train, *made.validation, *made.test])
    assert sorted(rows.tolist()) == list(range(569))


def test_a_share_that_leaves_a_client_without_data_is_refused(digits):
    for share, words in (
        (0.001, "leaves client 0 with its 100 training examples without validation data"),
        (0.999, "leaves client 0 with its 100 training examples without training data"),
        (1.0, "validation 1.0: give a share from 0 up to below 1"),
        (-0.1, "validation -0.1: give a share"),
    ):
        assert words in refusal(partitions.make, "A", digits, validation=share)


def test_validation_examples_are_not_held_out_twice():
    made = Partition("mine", *[(torch.arange(10),)] * 3)
    refused("holds out validation examples itself", hold_out_validation, made, 0.3, seed=1)


def test_clients_of_the_same_size_hold_out_by_draws_of_their_own():
    rows = tuple(torch.arange(20 * k, 20 * k + 20) for k in range(3))
    made = hold_out_validation(Partition("mine", rows, rows), 0.3, seed=1)
    places = [tuple((held - 20 * k).tolist()) for k, held in enumerate(made.validation)]
    assert len(set(places)) == 3
