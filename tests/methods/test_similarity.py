"""Averages by similarity: two rounds by hand, the temperature, distances."""

import math

import torch
from torch import nn

from pfl_lib.methods.similarity import Similarity, mean_entropy, update_distances
from tests.methods.conftest import TwoLayers


def entropy_of(*shares: float) -> float:
    """Of two clients, each keeping so much of a layer: the mean over layers, in ln 2."""
    each = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in shares]
    return sum(each) / len(each) / math.log(2)


def test_two_rounds_by_hand_of_whole_models(pencil, play, exactly):
    """One step a round, theta <- (theta + point) / 2; points (4, 4) and (-4, 4).  Between two
    clients there is one distance, so the entropy fixes the weights: that of (3/4, 1/4).

    Round 1: theta_0 = (2, 2), theta_1 = (-2, 2); served (3/4 * 2 - 1/4 * 2, 2) = (1, 2), (-1, 2).
    Round 2: from there theta_0 = (5/2, 3), theta_1 = (-5/2, 3); served (5/4, 3), (-5/4, 3).
    """
    method = Similarity(by="model", entropy=entropy_of(3 / 4))
    (first, log), (second, _) = play(method, pencil([[(4, 4)], [(-4, 4)]], alice=None))
    exactly(first["theta"], [[1, 2], [-1, 2]])
    exactly(log["weights"], [[3 / 4, 1 / 4], [1 / 4, 3 / 4]])
    exactly(second["theta"], [[5 / 4, 3], [-5 / 4, 3]])
    assert log["models_up"] == log["models_down"] == 2


def test_one_temperature_serves_all_layers(pencil, play, exactly):
    """Points (8, 4) and (-8, -4): updates (4, 2) and (-4, -2), apart by 8 below and 4 above.

    With exp(-4 / T) = 1/3 the weights are (3/4, 1/4) above and, squared, 9 : 1 below.
    Served: below 9/10 * 4 - 1/10 * 4 = 16/5, above 3/4 * 2 - 1/4 * 2 = 1.
    """
    method = Similarity(entropy=entropy_of(9 / 10, 3 / 4))
    fed = pencil([[(8, 4)], [(-8, -4)]], alice=None, model=TwoLayers)
    after, log = play(method, fed)[0]
    exactly(log["weights"][:, 0], [[9 / 10, 1 / 10], [3 / 4, 1 / 4]])
    exactly(after["theta"], [[16 / 5, 1], [-16 / 5, -1]])


def test_a_layer_of_statistics_alone_has_no_part_in_the_temperature(small, play):
    """In it no two clients differ, so that its weights are equal, whatever the entropy."""
    norm = nn.BatchNorm1d(3, affine=False)
    model = lambda: nn.Sequential(nn.Linear(4, 3), norm, nn.Linear(3, 3))  # noqa: E731
    _, log = play(Similarity(entropy=0.5), small(alice=None, model=model, batch_size=3))[0]
    below, alone, above = log["weights"]
    torch.testing.assert_close(alone, torch.full_like(alone, 1 / 4))
    assert math.isclose(mean_entropy(torch.stack([below, above])), 0.5, abs_tol=1e-6)


def test_clients_with_the_same_updates_share_whatever_the_entropy(small, play):
    fed = small(alice=None, repeat=True, shuffled=False)
    for _, log in play(Similarity(entropy=0.2), fed):
        torch.testing.assert_close(log["weights"], torch.full_like(log["weights"], 1 / 4))


def test_distances_of_layers_make_up_that_of_the_whole(small):
    """d^2 of a model is the sum of d^2 of its layers."""
    fed = small(alice=None)
    updates = torch.randn(4, fed.layout.P, generator=torch.Generator().manual_seed(1)).double()
    by_layer = update_distances(updates, fed.layout.layers)
    whole = update_distances(updates, None)
    assert by_layer.shape == (2, 4, 4) and whole.shape == (1, 4, 4)
    torch.testing.assert_close(by_layer.square().sum(0), whole[0].square())
