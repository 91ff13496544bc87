"""Recipes by name and by class, and those of one's own."""

import dataclasses
import json
from typing import ClassVar

import numpy as np
import pytest
import torch

from pfl_lib import data, run
from pfl_lib import partitions as p
from pfl_lib.experiments.spec import described
from tests.common import refusal, refused


def test_short_names_mean_recipes():
    assert p.find("C") == p.LabelSkew("C")
    assert p.find("age_strict") == p.ByColumn("age", (20, 35), unknown=True)
    for name, recipe in p.PARTITIONS.items():
        assert p.called(recipe) == name and recipe.default_clients >= 1 and recipe.version == 1
    assert p.called(p.ByColumn("age", (18,))).startswith("ByColumn(column='age', bins=(18.")
    assert all(family.name == name for name, family in p.FAMILIES.items())


SMALL = (
    *(p.Shards(), p.Latent(3), p.Dirichlet(1.0), p.SizedSkew("B", (2, 1))),
    *(family(examples=40) for family in (p.Classes, p.Dominant, p.Neighbours, p.Relatives)),
    p.Classes(examples=40, leave_out=(9,)),
)


def test_every_family_without_a_short_name_is_tried_below():
    named = {p.LabelSkew, p.ByColumn}
    assert {type(recipe) for recipe in SMALL} | named == {*p.FAMILIES.values()}


@pytest.mark.parametrize("recipe", SMALL, ids=repr)
def test_a_recipe_runs_with_its_papers_clients_and_is_stored_with_its_settings(
    recipe, results_dir, digits
):
    settings = {"partition": recipe, "rounds": 1, "validation": 0.2, "alice": None}
    settings["model"] = "linear"
    result = run("fedavg", results_dir=results_dir, **settings)
    stored = result.config["partition"]
    assert json.dumps(stored) == json.dumps(described(recipe))
    assert len(result.metrics) == recipe.default_clients and recipe.title
    (folder,) = (results_dir / "cells").iterdir()
    assert folder.name.startswith(f"fedavg-digits-{recipe.name}-seed1-")
    made = p.make(recipe, digits, seed=1, validation=0.2)
    parts = (*made.train, *made.validation)
    assert len(torch.cat(parts).unique()) == sum(map(len, parts))


# Of digits, by their default clients but for Dirichlet's 5, with seed 1.
GOLDEN = {
    p.LabelSkew("A"): "a7366eec2b13b572",
    p.LabelSkew("B"): "f507dd45f23b6669",
    p.LabelSkew("C"): "d2eea85d747ccb9c",
    p.LabelSkew("A*"): "3a43de32d5d356c4",
    p.LabelSkew("B*"): "6d9ca08a740a7dd7",
    p.Shards(): "815fd0793381795e",
    p.SizedSkew("A", (3, 2)): "24d3dd03bb15dd10",
    p.SizedSkew("B", (3, 2)): "417db92ed939d756",
    p.SizedSkew("C", (3, 2)): "5cccf98463081632",
    p.Dirichlet(1.0): "7aab0776674d0c02",
    p.Latent(3): "19792ec18d91aec0",
    p.Classes(examples=80): "d21fa7459e5a90c0",
    p.Dominant(examples=80): "e66796b7a0fea210",
    p.Neighbours(examples=80): "c00549019d06c32f",
    p.Relatives(examples=80): "df4fed85fd9f6a9f",
}


@pytest.mark.parametrize("recipe", GOLDEN, ids=repr)
def test_the_seed_decides_what_is_drawn_and_version_1_never_changes(recipe, digits):
    """Results' keys hold the version: a change of these checksums asks for a higher one."""
    clients = 5 if isinstance(recipe, p.Dirichlet) else None
    made = [p.make(recipe, digits, clients, seed).checksum() for seed in range(5)]
    assert made[1] == GOLDEN[recipe] and recipe.version == 1
    draws = not isinstance(recipe, p.SizedSkew) and recipe not in map(p.LabelSkew, "ABC")
    assert len({*made}) == (5 if draws else 1)


def test_what_is_no_recipe_is_refused_in_one_line():
    refused("distribution 'halves' is not one of", p.find, "halves")
    for wrong in (p.Shards, 3):
        refused("give a short name", p.find, wrong)
    told = "or of a frozen dataclass of your own with name, default_clients"
    refused(told, p.find, lambda dataset: None)


def made_by(parts) -> object:
    @dataclasses.dataclass(frozen=True)
    class Given:
        name: ClassVar[str] = "given"
        default_clients: ClassVar[int] = 2

        def split(self, dataset, clients, seed, alice):
            return parts and p.Partition("given", *parts)

    return Given()


A, B, NONE = torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([], dtype=torch.int64)


def test_a_partition_from_outside_is_checked(digits):
    for parts, words in (
        (None, "its split gives NoneType: give pfl_lib.partitions.Partition("),
        (((A,), (A,)), "its split makes 1 of 2 clients"),
        (((A, B), (A,)), " of 2 clients"),
        (((A, NONE), (A, B)), "leaves client 1 without training examples"),
        (((A, B.float()), (A, B)), "give positions, a tensor of int64"),
        (((A, B + 1436), (A, B)), "has positions 1438 to 1439: the data set has 0 to 1437"),
        (((A, B), (A, B - 3)), "has positions -1 to 0"),
        (((A, torch.tensor([5, 5])), (A, B)), "gives client 1 an example twice"),
        (((A, B), (A, B), (B, B)), "gives client 1 an example twice"),
        (((A, B), (A, torch.tensor([5, 5]))), "gives client 1 an example twice"),
    ):
        assert words in refusal(p.make, made_by(parts), digits)


@pytest.mark.parametrize("draw", [torch.randperm, np.random.permutation])
def test_a_partition_that_draws_without_a_seed_is_refused(digits, draw):
    class Drawn:
        def __iter__(self):  # when the split asks for its parts
            return iter(((A, B), (A, B)) if len(draw(3)) else ())

    told = refusal(p.make, made_by(Drawn()), digits)
    assert "its split draws random numbers that follow no seed" in told


def test_a_partition_that_draws_from_a_stream_of_its_own_is_refused(digits):
    drawn = iter([(A, B), (B, A)])

    class Drawn(type(made_by(()))):
        def split(self, dataset, clients, seed, alice):
            return p.Partition("drawn", next(drawn), (A, B))

    told = refusal(p.make, Drawn(), digits)
    assert "its split comes out otherwise each time: draw from pfl_lib.randomness" in told


def test_a_partition_that_writes_into_the_data_set_is_refused_and_leaves_it_as_it_was(digits):
    class Noisy(type(made_by(()))):
        def split(self, dataset, clients, seed, alice):
            dataset.train_y[:9] = dataset.train_y[:9].flip(0)

    before = digits.train_y.clone()
    assert "its split writes into the data set, which is every run's" in refusal(
        p.make, Noisy(), digits
    )
    assert torch.equal(digits.train_y, before)


def test_a_table_is_one_pool_so_that_no_row_may_be_trained_and_tested_on():
    table = data.load("breast_cancer")
    assert p.make(made_by(((A, B), (A + 4, B + 4))), table).clients == 2
    refused("gives client 0 an example twice", p.make, made_by(((A, B), (A, A))), table)
    others = made_by(((A, B), (B, A)))
    for recipe in (others, p.Dirichlet(), p.Shards(), p.Latent(groups=2)):
        told = "tests clients on examples of .breast_cancer. that clients train on"
        refused(told, p.make, recipe, table)


def test_a_recipe_of_ones_own_may_build_on_the_packages_on_a_table_too():
    @dataclasses.dataclass(frozen=True)
    class Mine(p.Classes):
        name = "mine"

    table = data.load("breast_cancer")
    own, ours = (p.make(of(1, 50), table, 4, seed=1) for of in (Mine, p.Classes))
    assert own.checksum() == ours.checksum()


def test_labels_and_targets_of_a_split_of_ones_own_have_to_fit():
    digits = data.load("digits")
    for relabel in (torch.full((2, 10), 10), torch.zeros(2, 9).long(), torch.zeros(2, 10)):
        labels = made_by(((A, B), (A, B), (), relabel))
        refused("its relabel is no whole numbers", p.make, labels, digits)
    targets = made_by(((A, B), (A, B), (), None, False, (0, 9)))
    refused("give each of 2 clients the number of one", p.make, targets, digits, validation=0.5)


def test_a_split_by_a_column_says_its_groups():
    for settings, title in (
        ({"bins": (20, 35), "unknown": True}, "up to 20, above 20 up to 35, above 35, unknown"),
        ({"bins": (20, 35), "mixed": True}, "two random halves of those up to 35, above 35"),
        ({"bins": [20]}, "up to 20, above 20"),
        ({"bins": (20,), "mixed": True}, "two random halves of all rows"),
    ):
        assert p.ByColumn("age", **settings).title == f"age: {title}"


@pytest.mark.parametrize("bins", [(), (35, 20), (20, 20), 20, "ab", (1, "2"), (float("inf"),)])
def test_bins_that_are_none_are_refused(bins):
    refused("give one number or more, in ascending order", p.ByColumn, "age", bins)


def test_a_table_that_cannot_be_split_so_is_refused():
    cancer, unknown = data.load("breast_cancer"), p.ByColumn("mean radius", (12,), unknown=True)
    refused("is never unknown: give unknown=False", p.make, unknown, cancer, 3)
    refused("makes 2; give clients=2", p.make, p.ByColumn("mean radius", (12,)), cancer, 3)
    told = "by age, which dataset 'breast_cancer' lacks"
    refused(told, p.make, p.ByColumn("age", (12,)), cancer, 2)
    told = "alice 4 is not one of the clients 0 to 3"
    refused(told, p.make, "radius_strict", cancer, alice=4)
