"""The authors' "Global": Python's sum in place of an addition."""

import pytest
import torch
from torch import nn

from pfl_lib import Federation, Schedule
from pfl_lib.methods import BrokenGlobal
from tests.common import refused


def two_clients(alice: int) -> Federation:
    """One example each, a linear model 2 -> 2 without bias that starts at 0, lr 1."""
    module = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(module.weight)
    pairs = [([[1.0, 0.0]], [0]), ([[0.0, 3.0]], [1])]
    settings = {"alice": alice, "device": "cpu", "dtype": torch.float64}
    return Federation.from_arrays(pairs, pairs, module, Schedule(1, lr=1.0), **settings)


@pytest.mark.parametrize(
    ("alice", "expected"), [(0, [0.25, -0.5, -0.25, 0.5]), (1, [-0.5, -0.75, 0.5, 0.75])]
)
def test_one_round_by_hand(alice, expected):
    """At 0 both classes have probability 1/2.

    Client 0 (x = (1, 0), class 0) makes the update [[.5, 0], [-.5, 0]] of the weight [class,
    input]; client 1 (x = (0, 3), class 1) makes [[0, -1.5], [0, 1.5]]. Alice is 0: sum(u_0, u_1) =
    u_1 + (sum of u_0 over inputs, per class) = [[.5, -1], [-.5, 1]]; half of it is the new weight.
    Alice is 1: sum(u_1, u_0) = u_0 + (-1.5, 1.5) = [[-1, -1.5], [1, 1.5]]; half of it.
    """
    fed, method = two_clients(alice), BrokenGlobal()
    after, _ = method.round(fed, method.start(fed), 1)
    assert after["theta"].tolist() == pytest.approx(expected)
    assert method.served(fed, after)["theta"].shape == (4,)


def test_a_network_that_is_not_linear_is_refused():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2))
    pairs = [(torch.zeros(2, 1, 3, 3), [0, 1])]
    fed = Federation.from_arrays(pairs, pairs, net, Schedule(1), device="cpu")
    refused("made for linear models: parameter 0.weight has shape", BrokenGlobal().start, fed)
