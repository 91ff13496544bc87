"""pFedLA's partitions: a few classes each, dominant classes, and clients whose classes overlap."""

import dataclasses
from collections import Counter

import pytest
import torch

from pfl_lib import partitions
from pfl_lib.data.source import Dataset
from pfl_lib.federation.clients import from_partition
from pfl_lib.partitions import Classes, Dominant, Neighbours, Partition, Relatives
from pfl_lib.partitions.dealing import apportion
from tests.common import refusal, refused


def counts(made: Partition, dataset: Dataset) -> torch.Tensor:
    """Examples of each label, to train and to test on: [clients, classes]."""
    labels, parts = dataset.pooled.train_y, zip(made.train, made.test, strict=True)
    each = [torch.bincount(labels[torch.cat(of)], minlength=dataset.classes) for of in parts]
    return torch.stack(each)


def test_a_hundred_clients_use_up_cifar10_and_40_of_them_hold_each_class(cifar10):
    made = partitions.make(Classes(), cifar10, 100, seed=1)
    assert (made.label_matrix(cifar10) > 0).sum(0).tolist() == [40] * 10
    assert sorted(torch.cat([*made.train, *made.test]).tolist()) == list(range(60_000))


def test_classes_are_drawn_independently_where_there_are_enough_images(labelled):
    """A class has 0 to 10 holders of ten, four in the mean, not always four."""
    many, recipe = labelled([500] * 10, [100] * 10), Classes(examples=60)
    made = (partitions.make(recipe, many, 10, seed).label_matrix(many) for seed in range(30))
    holders = torch.cat([(held > 0).sum(0) for held in made]).double()
    # Binomial(10, 0.4) has variance 2.4; that of a mean of 300 is below 0.01.
    assert holders.mean() == 4 and 1.8 < holders.var() < 3.0


def test_two_dominant_classes_have_half_of_the_examples(cifar10):
    """150 of each dominant class, and 37.5 of each other: 37 or 38."""
    made = partitions.make(Dominant(), cifar10, 10, seed=1)
    held = counts(made, cifar10)
    for row in held.tolist():
        assert sorted(Counter(row).items()) == [(37, 4), (38, 4), (150, 2)]


def test_a_hundred_clients_with_dominant_classes_use_up_cifar10(cifar10):
    """6,000 = 100 x 37.5 + 20 x 112.5: every class dominates at exactly 20 clients."""
    made = partitions.make(Dominant(), cifar10, 100, seed=1)
    held = counts(made, cifar10)
    assert (held >= 150).sum(0).tolist() == [20] * 10 and (held >= 150).sum(1).tolist() == [2] * 100
    assert held.sum(0).tolist() == [6000] * 10 and held.sum(1).tolist() == [600] * 100
    assert held[held < 150].min() >= 37 and held[held < 150].max() <= 39


def test_six_dominant_classes_on_cifar100(cifar100):
    """50 of each dominant class, 300 / 94 = 3.2 of each other."""
    for clients in (10, 100):
        made = partitions.make(Dominant(classes=6), cifar100, clients, seed=1)
        held = counts(made, cifar100)
        assert ((held >= 50).sum(1) == 6).all() and held.sum(1).tolist() == [600] * clients
        assert held.min() >= 3 and held[held < 50].max() <= 6


def test_neighbours_share_three_of_four_classes_round_the_ring(cifar10):
    made = partitions.make(Neighbours(), cifar10)
    held = made.label_matrix(cifar10) > 0
    ring = [*range(10), 0]
    assert [set(row.nonzero().flatten().tolist()) for row in held] == [
        set(ring[client : client + 4]) for client in range(8)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_client_1_has_the_targets_classes_and_client_2_all_but_one_of_them(cifar10, seed):
    made = partitions.make(Relatives(), cifar10, seed=seed)
    held = made.label_matrix(cifar10) > 0
    assert made.clients == 8 and (held.sum(1) == 4).all()
    assert torch.equal(held[0], held[1]) and (held[0] & held[2]).sum() == 3


def test_the_other_clients_classes_are_independent_of_the_targets(labelled):
    """4 of 10 against 4 of 10: 1.6 shared in the mean."""
    few, shared = labelled([100] * 10, [10] * 10), []
    for seed in range(40):
        held = partitions.make(Relatives(examples=40), few, seed=seed).label_matrix(few) > 0
        shared.append((held[0] & held[3:]).sum(1).double())
    assert torch.cat(shared).mean().item() == pytest.approx(1.6, abs=0.25)


def test_whole_numbers_in_proportion():
    assert apportion(420, [150, 150, 150, 150]) == [105] * 4
    assert apportion(10, [1, 1, 1]) == [4, 3, 3]
    assert apportion(7, [5, 0, 2]) == [5, 0, 2]
    assert apportion(2, [3, 3, 1]) == [1, 1, 0]


def test_the_clients_read_the_pooled_examples(cifar10, labelled):
    """Inputs carry their own position."""
    few, x = labelled([50] * 4, [10] * 4, classes=4), torch.arange(240.0)[:, None]
    of = {"train_x": x[:200], "test_x": x[200:], "mean": (0.0,), "std": (1.0,)}
    numbered = dataclasses.replace(few, **of)
    made = partitions.make(Classes(2, examples=20), numbered, 4, seed=1)
    held = from_partition(numbered, made)
    labels = torch.cat([few.train_y, few.test_y])
    for split, positions in (("train", made.train), ("test", made.test)):
        of = held.splits[split]
        for index, own, mine in zip(of.index, of.labels, positions, strict=True):
            assert of.pool.x[index].flatten().tolist() == mine.tolist()
            assert torch.equal(own, labels[mine])


@pytest.mark.parametrize(
    ("recipe", "clients", "words"),
    [
        (Classes(per_client=12), 10, "12 classes per client: there are 10; give 10 or fewer"),
        (Classes(), 101, "clients 101 with 4 classes each: 10 classes with examples for 40"),
        (Classes(1, examples=7000), 2, "10 classes with examples for 0 clients each serve 0"),
        (Classes(leave_out=(10,)), 10, "class 10 to leave out: made has the classes 0 to 9"),
        (Classes(leave_out=tuple(range(10))), 10, "no class is left"),
        (Classes(leave_out=tuple(range(7))), 10, "4 classes per client: there are 3"),
        (Dominant(), 101, "clients 101 with 600 examples each are more than made has, 6000"),
        (Dominant(classes=10), 10, "classes 10: made has 10, and one at least is not dominant"),
        (Dominant(classes=5), 10, "share 0.5: 5 of 10 classes are dominant above 0.5"),
        (Neighbours(per_client=11, examples=660), 8, "11 classes per client: made has 10"),
        (Neighbours(), 101, "wants 6150 examples of class 0, of which made has 6000"),
        (Relatives(per_client=10), 8, "10 classes per client: made has 10; give 9 or fewer"),
        (Relatives(), 2, "clients 2: give a whole number, 3 or more"),
    ],
)
def test_what_the_data_set_cannot_serve_is_refused(cifar10, recipe, clients, words):
    assert words in refusal(partitions.make, recipe, cifar10, clients)


def test_settings_that_make_no_client_are_refused():
    for settings, words in (
        ({"per_client": 0}, "per_client 0: give a whole number, 1 or more"),
        ({"examples": 602}, "examples 602: 4 classes do not share them evenly"),
        ({"examples": 0}, "examples 0: give a whole number, 2 or more"),
        ({"train_share": 1.0}, "train_share 1.0: give a share between 0 and 1"),
        ({"examples": 4, "train_share": 0.1}, "leaves none to train on"),
        ({"examples": 4, "train_share": 0.9}, "leaves none to test on"),
    ):
        for family in (Classes, Neighbours, Relatives):
            assert words in refusal(family, **settings)


@pytest.mark.parametrize("share", [0, 1, 1.2, True, "half"])
def test_a_share_of_dominant_classes_lies_between_0_and_1(share):
    refused("give a share between 0 and 1", Dominant, share=share)


def test_a_class_that_is_left_out_is_held_by_nobody_and_leaves_other_draws_alone(digits):
    made = Classes(4, examples=40, leave_out=(9,)).split(digits, 6, 1, None)
    held = made.label_matrix(digits)
    assert held[:, 9].sum() == 0 and ((held > 0).sum(1) == 4).all()
    assert made.of(digits).train_y[torch.cat(made.test)].max() < 9
    whole = Classes(4, examples=40).split(digits, 6, 1, None)
    same = Classes(4, examples=40, leave_out=()).split(digits, 6, 1, None)
    assert whole.checksum() == same.checksum() != made.checksum()


def test_what_nobody_holds_limits_nobody_and_a_client_trains_on_its_share(labelled):
    """Nine labels of 100 examples, one of a single example; a quarter is trained on."""
    rare = labelled([90] * 9 + [1], [10] * 9 + [0])
    made = Classes(4, examples=40, train_share=0.25, leave_out=(9,)).split(rare, 6, 1, None)
    assert made.sizes.tolist() == [10] * 6 and [len(own) for own in made.test] == [30] * 6
