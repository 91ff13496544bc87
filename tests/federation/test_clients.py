"""The clients' data: nothing copied, every client's own labels."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib.data.source import Dataset
from pfl_lib.federation import clients
from pfl_lib.federation.clients import from_arrays
from pfl_lib.partitions.base import Partition
from tests.common import refused

X = torch.arange(6 * 4, dtype=torch.uint8).view(6, 1, 2, 2)
Y = torch.tensor([0, 1, 2, 0, 1, 2])
DATASET = Dataset("made up", X, Y, X[:3], Y[:3], 3, (0.5,), (0.25,), "none")
TRAIN = (torch.tensor([5, 0]), torch.tensor([1, 2, 3]))
TEST = (torch.tensor([0, 1]), torch.tensor([2]))


def test_clients_of_a_partition_share_the_data_sets_examples():
    held = clients.from_partition(DATASET, Partition("made up", TRAIN, TEST))
    assert len(held) == 2 and held.classes == 3 and held.input_shape == (1, 2, 2)
    assert held.splits.keys() == {"train", "test"}
    assert held.splits["train"].pool.x.data_ptr() == X.data_ptr()
    assert [index.tolist() for index in held.splits["train"].index] == [[5, 0], [1, 2, 3]]
    assert [labels.tolist() for labels in held.splits["train"].labels] == [[2, 0], [1, 2, 0]]
    assert [labels.tolist() for labels in held.splits["test"].labels] == [[0, 1], [2]]


def test_every_split_of_a_client_carries_its_own_labels():
    """Client 1 calls class 0 two, class 1 zero and class 2 one."""
    relabel = torch.tensor([[0, 1, 2], [2, 0, 1]])
    parts = Partition("made up", TRAIN, TEST, (torch.tensor([4]),) * 2, relabel)
    held = clients.from_partition(DATASET, parts)
    assert [labels.tolist() for labels in held.splits["train"].labels] == [[2, 0], [0, 1, 2]]
    assert [labels.tolist() for labels in held.splits["test"].labels] == [[0, 1], [1]]
    assert [labels.tolist() for labels in held.splits["validation"].labels] == [[1], [0]]
    assert held.splits["validation"].pool.x.data_ptr() == X.data_ptr()


def test_tables_are_standardised_by_feature():
    x = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    y = torch.tensor([0, 1])
    table = Dataset("table", x, y, x, y, 2, (1.0, 10.0), (2.0, 20.0), "none")
    held = clients.from_partition(table, Partition("all", (y,), (y,)))
    pool = held.splits["train"].pool
    assert pool.inputs(torch.tensor([1, 0])).tolist() == [[1, 1], [0, 0]]


def test_pictures_of_one_channel_are_read_as_they_lie_in_memory():
    turned = dataclasses.replace(DATASET, train_x=X.transpose(2, 3))
    pool, plain = (
        clients.from_partition(of, Partition("all", TRAIN, TEST)).splits["train"].pool
        for of in (turned, dataclasses.replace(DATASET, train_x=X.transpose(2, 3).contiguous()))
    )
    assert torch.equal(pool.inputs(torch.arange(5)), plain.inputs(torch.arange(5)))


def test_a_federation_of_arrays_does_not_follow_them_when_they_change():
    x, y = np.zeros((4, 1), np.float32), np.array([0, 1, 0, 1])
    held = from_arrays([(x, y)], [(x, y)])
    x += 1
    y[:] = 0
    assert held.splits["train"].labels[0].tolist() == [0, 1, 0, 1]
    assert not held.splits["train"].pool.x.any()


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_unsigned_numbers_are_taken(kind):
    pair = (np.array([[60_000], [1]], kind), np.array([0, 1], kind))
    split = from_arrays([pair], [pair]).splits["train"].to(torch.device("cpu"), torch.float32)
    assert split.pool.inputs(torch.arange(2)).tolist() == [[60_000.0], [1.0]]


def test_clients_of_different_types_are_taken_in_double_precision():
    half, whole = np.array([[0.5]], np.float16), np.array([[70_000]])
    x = from_arrays([(half, [0]), (whole, [1])], [(half, [0])] * 2).splits["train"].pool.x
    assert x.tolist() == [[0.5], [70_000.0]]
    told = "^inputs hold 16777217: whole numbers above .*: number them from 0, or give all clients"
    refused(told, from_arrays, [(half, [0]), (whole * 0 + 2**24 + 1, [1])], [(half, [0])] * 2)


def test_pairs_that_are_no_examples_are_refused_in_one_line():
    for x, y, message in (
        ([[0.0]] * 2, [0.5, 1.5], "client 1's test split has labels that are no whole numb"),
        ([[0.0]] * 2, [[0], [1]], r"client 1's test split has labels of shape \[2, 1\]: give a "),
        ([[0.0]] * 2, np.array(["no", "yes"]), "client 1's test split has texts as labels: num"),
        ([[0.0]] * 2, [object(), 1], "client 1's test split is no pair of numbers"),
        (
            np.array([[0], [2**63]], np.uint64),
            [0, 1],
            "client 1's test split has whole numbers of 2",
        ),
        ([["a"]], 3, "client 1's test split is no pair of numbers"),
        ([[0.0], [np.nan]], [0, 1], "client 1's test split has inputs that are infinite or"),
    ):
        fine = (torch.zeros(2, 1), torch.tensor([0.0, 1.0]))  # whole numbers, whatever their type
        refused("^" + message, from_arrays, [fine, fine], [fine, (x, y)])
    one, other = (pd.DataFrame({name: [1.0] for name in names}) for names in ("ab", "ba"))
    told = "inputs have columns a, b and b, a: give all frames the same, in one order"
    refused(told, from_arrays, [(one, [0])], [(other, [0])])
    for names in ("ab", ["a"], ["a", "a"], [0, 1]):
        told = r"^names .*: give each of 2 clients a text of its own"
        refused(told, from_arrays, [fine] * 2, [fine] * 2, names=names)
