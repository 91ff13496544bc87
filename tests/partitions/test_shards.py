"""Pathological shards: FedFomo's sizes, and that nothing is lost or given twice."""

import pytest
import torch

from pfl_lib import partitions
from pfl_lib.partitions import Shards
from tests.common import refused


@pytest.mark.parametrize(
    ("clients", "train", "test"), [(15, (3332, 3334), (666, 668)), (100, (500, 500), (100, 100))]
)
def test_sizes_on_cifar10_are_those_of_the_authors_code(cifar10, clients, train, test):
    """15 clients: 30 shards, 3 of each class, of 1667, 1667 and 1666 images; two make 3,333, give
    or take one.  100 clients: 200 shards of 250.
    """
    made = partitions.make(Shards(), cifar10, clients, seed=1)
    sizes, to_test = made.sizes.tolist(), [len(rows) for rows in made.test]
    assert (min(sizes), max(sizes)) == train and (min(to_test), max(to_test)) == test
    assert sum(sizes) == 50_000 and sum(to_test) == 10_000


def test_what_is_left_over_goes_to_the_first_shards_one_each(labelled):
    """Class 0's 7 examples make shards of 4 and 3, class 1's 8 two of 4."""
    two = labelled([7, 8], [2, 2], classes=2)
    made = partitions.make(Shards(per_client=1), two, 4)
    by_class = {0: [], 1: []}
    for rows in made.train:
        by_class[int(two.train_y[rows[0]])].append(rows)
    assert [len(rows) for rows in by_class[0]] == [4, 3]
    assert [len(rows) for rows in by_class[1]] == [4, 4]
    zeros = torch.nonzero(two.train_y == 0).flatten()
    assert by_class[0][0].tolist() == [*zeros[:3].tolist(), int(zeros[6])]


def test_each_class_has_as_many_shards_and_a_client_may_draw_one_class_twice(cifar10):
    once = 0
    for seed in range(10):
        matrix = partitions.make(Shards(), cifar10, 15, seed).label_matrix(cifar10)
        shards = (matrix / 1666.5).round()
        assert shards.sum(0).tolist() == [3] * 10 and shards.sum(1).tolist() == [2] * 15
        once += int((shards == 2).sum())
    assert once > 0


def test_what_cannot_be_shared_out_is_refused(cifar10):
    told = "clients 7 with 2 shards each make 14 shards, which 10 classes cannot share"
    refused(told, partitions.make, Shards(), cifar10, 7)
    told = "class 0 of made has 1000 test examples for 2000 shards"
    refused(told, partitions.make, Shards(), cifar10, 10_000)


@pytest.mark.parametrize("per_client", [0, -1, 1.5, True, 1001])
def test_shards_are_counted_in_whole_numbers(per_client):
    refused("give a whole number(, 1 or more| of 1,000 at most)$", Shards, per_client)
