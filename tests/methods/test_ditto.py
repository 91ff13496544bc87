"""Ditto: two rounds by hand, and what it becomes without its pull and with a great one."""

import math

import pytest
import torch
from torch import nn

from pfl_lib import BadInput
from pfl_lib.methods import Ditto, FedAvg, Local

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2, lambda 1/2;  w <- w - (w - point)/2,  v <- v - (v - point + (v - w)/2)/2, w as
    received.

    Round 1, w = v = 0.
      w: client 0 ends at (1,2), client 1 at (4,-2);  w = (2.5,0).
      v_0: (-4,0), v = (2,0);  (2,-4) + (1,0) = (3,-4), v_0 = (.5,2).  v_1: (-8,4), v_1 = (4,-2).
    Round 2, w = (2.5,0).
      w: client 0 ends at (1.625,2), client 1 at (5.25,-2);  w = (3.4375,0).
      v_0: (-3.5,2) + (-2,2)/2 = (-4.5,3), v = (2.75,.5);  (2.75,-3.5) + (.25,.5)/2 = (2.875,-3.25),
        v_0 = (1.3125,2.125).
      v_1: (-4,2) + (1.5,-2)/2 = (-3.25,1), v_1 = (5.625,-2.5).
    """
    fed, method = pencil(POINTS, alice=None), Ditto(0.5, "uniform")
    (first, _), (second, log) = play(method, fed)
    exactly(first["theta"], [2.5, 0])
    exactly(first["personal"], [[0.5, 2], [4, -2]])
    exactly(second["theta"], [3.4375, 0])
    exactly(method.served(fed, second)["theta"], [[1.3125, 2.125], [5.625, -2.5]])
    exactly(log["weights"], [0.5, 0.5])
    assert log["models_up"] == log["models_down"] == 2


@pytest.mark.parametrize("alice", [None, 0, 2])
@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"participation": 0.5}], ids=str)
def test_without_a_pull_it_is_local_training_bit_for_bit(
    small, play, alices_model, alice, settings
):
    fed = small(dtype=torch.float32, alice=alice, batch_size=3, model=normed, **settings)
    own, local = Ditto(0.0), Local()
    for (mine, _), (theirs, _) in zip(play(own, fed), play(local, fed), strict=True):
        for client in fed.evaluated_clients:
            for name, row in alices_model(local, fed, theirs, client).items():
                assert torch.equal(alices_model(own, fed, mine, client)[name], row)


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_the_shared_model_is_fedavgs_whatever_the_pull(small, play, weighting):
    fed = small(alice=None, **MOMENTUM)
    for (mine, log), (theirs, plain) in zip(
        play(Ditto(0.7, weighting), fed), play(FedAvg(weighting), fed), strict=True
    ):
        assert torch.equal(mine["theta"], theirs["theta"])
        assert torch.equal(log["weights"], plain["weights"])


def test_a_pull_that_cancels_the_rate_serves_one_step_from_the_shared_model(small, play):
    """lr lambda = 1 with one batch a round: v - lr (g + lambda (v - w)) = w - lr grad f(v)."""
    fed = small(alice=None, batch_size=9, lr=0.25)
    (first, _), (second, _) = play(Ditto(4.0), fed, rounds=2)
    rows = {"theta": first["personal"], "statistics": first["personal statistics"]}
    stepped, _ = fed.train(rows, 2, range(4))
    moved = stepped["theta"] - first["personal"]
    torch.testing.assert_close(second["personal"], first["theta"] + moved, rtol=1e-12, atol=1e-12)


def test_a_client_that_is_away_keeps_its_model(small, play):
    played = play(Ditto(), small(alice=None, availability=((1, 1, 2),)))
    (second, _), (third, _), (fourth, _) = played[1:]
    for later in (third, fourth):
        assert torch.equal(later["personal"][1], second["personal"][1])
        assert not torch.equal(later["personal"][0], second["personal"][0])


@pytest.mark.parametrize("strength", [-0.1, math.inf, math.nan, "x", True])
def test_a_pull_below_zero_or_endless_is_refused(strength):
    with pytest.raises(BadInput, match=f"^strength {strength!r}: give lambda, 0 or more$"):
        Ditto(strength)
