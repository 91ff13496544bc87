"""Dirichlet label skew."""

import pytest
import torch

from pfl_lib import partitions
from pfl_lib.experiments.spec import described
from pfl_lib.partitions import Dirichlet, earth_movers_distance
from tests.common import refused


def test_a_greater_alpha_is_nearer_to_everybody(cifar10):
    def distance(alpha: float) -> float:
        made = partitions.make(Dirichlet(alpha), cifar10, 10, seed=1)
        return earth_movers_distance(made, cifar10).mean().item()

    distances = [distance(alpha) for alpha in (0.05, 0.3, 3, 1000)]
    assert distances == sorted(distances, reverse=True) and distances[-1] < 0.2


def test_shares_are_those_of_the_distribution(labelled):
    """A client's share of a class has mean 1/N and, with a = N alpha in all, variance
    (1/N)(1 - 1/N) / (a + 1): here 0.25, and 3/16 / 5 = 0.0375.
    """
    many, recipe = labelled([500] * 10, [100] * 10), Dirichlet(1.0, least=1)
    made = (partitions.make(recipe, many, 4, seed) for seed in range(200))
    shares = torch.stack([split.label_matrix(many) / 500 for split in made])
    assert shares.mean().item() == pytest.approx(0.25, abs=1e-6)
    assert shares.var().item() == pytest.approx(0.0375, rel=0.05)


def test_a_whole_alpha_and_the_same_fraction_are_one():
    told = described(Dirichlet(1))
    assert told == {"name": "dirichlet", "version": 1, "alpha": 1.0, "least": 10}
    assert isinstance(told["alpha"], float)


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf"), "1", True])
def test_an_alpha_that_is_none_is_refused(alpha):
    refused("give a number above 0", Dirichlet, alpha)


def test_more_than_there_is_is_refused_in_one_line(cifar10):
    for least, clients in ((100, 501), (1, 10_001)):
        recipe = Dirichlet(least=least)
        refused("made has 50000 and 10000", partitions.make, recipe, cifar10, clients)


def test_what_no_draw_gives_is_refused(labelled):
    two = labelled([40] * 2, [12] * 2, classes=2)  # each goes to one client, or nearly all of it
    told = "no draw of 1000 gives each of 5 clients 2"
    refused(told, partitions.make, Dirichlet(1e-3, least=2), two, 5)


def test_everybody_is_tested_on_something_though_draws_that_leave_one_out_are_frequent(labelled):
    """Eight clients and 3 test examples of each of ten labels."""
    few = labelled([60] * 10, [3] * 10)
    for seed in range(10):
        made = partitions.make(Dirichlet(0.4, least=1), few, 8, seed)
        assert min(map(len, made.test)) >= 1
