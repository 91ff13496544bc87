"""SCAFFOLD: two rounds by hand with unequal numbers of steps; its control variates' laws."""

import pytest
import torch

from pfl_lib.methods import FedAvg, Scaffold

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2; a step is y <- y - (y - point - c_i + c) / 2; client 0 takes K = 2 steps, client 1
    takes one.

    Round 1, x = 0, c = c_0 = c_1 = 0.
      client 0: gradients (-4,0) at (0,0) and (2,-4) at (2,0); y_0 = (1,2); c_0 = their mean =
      (-1,-2) = (x - y_0)/(2/2). client 1: gradient (-8,4); y_1 = (4,-2); c_1 = (-8,4). x = (2.5,
      0);  c = (-4.5, 1).
    Round 2.
      client 0, c - c_0 = (-3.5, 3): gradient (2.5,0)-(4,0) = (-1.5,0), y = (2.5,0) - (-5,3)/2 =
      (5,-1.5);
        gradient (5,-1.5)-(0,4) = (5,-5.5), y_0 = (5,-1.5) - (1.5,-2.5)/2 = (4.25,-.25);  c_0 =
        (1.75,-2.75). Option II agrees: c_0 - c + (x - y_0)/(2/2) = (3.5,-3) + (-1.75,.25) =
        (1.75,-2.75).
      client 1, c - c_1 = (3.5,-3): gradient (2.5,0)-(8,-4) = (-5.5,4), y_1 = (2.5,0) - (-2,1)/2 =
      (3.5,-.5);  c_1 = (-5.5,4). x = (3.875, -.375);  c = (-1.875, .625)."""
    (first, _), (second, log) = play(Scaffold(), pencil(POINTS))
    exactly(first["theta"], [2.5, 0])
    exactly(first["controls"], [[-1, -2], [-8, 4]])
    exactly(first["control"], [-4.5, 1])
    exactly(second["theta"], [3.875, -0.375])
    exactly(second["controls"], [[1.75, -2.75], [-5.5, 4]])
    exactly(second["control"], [-1.875, 0.625])
    exactly(log["weights"], [0.5, 0.5])
    assert log["models_up"] == log["models_down"] == 4  # a model and a control variate each


def test_a_clipped_round_by_hand(pencil, play, exactly):
    """Norms of at most 2: (-4,0) becomes (-2,0), y = (1,0); (1,-4) becomes 2 (1,-4) / sqrt(17), y_0
    = (1 - 1/sqrt(17), 4/sqrt(17)); c_0 is the mean of the clipped ones.  Client 1: (-8,4) becomes
    2 (-8,4) / sqrt(80)."""
    [(after, _)] = play(Scaffold(clip=2.0), pencil(POINTS, rounds=1))
    a, b = 17**-0.5, 80**-0.5
    exactly(after["controls"], [[-1 + a, -4 * a], [-16 * b, 8 * b]])
    exactly(after["theta"], [(1 - a + 8 * b) / 2, (4 * a - 4 * b) / 2])
    [(after, _)] = play(Scaffold("I", clip=2.0), pencil(POINTS, rounds=1))
    exactly(after["controls"], [[-1, -1], [-16 * b, 8 * b]])


@pytest.mark.parametrize("option", ["I", "II"])
def test_control_variates_are_no_longer_than_the_norm_that_clips(small, play, option):
    for state, _ in play(Scaffold(option, clip=0.1), small(lr=30.0)):
        assert (state["controls"].norm(dim=1) <= 0.1 * (1 + 1e-12)).all()
        assert state["theta"].isfinite().all()


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_control_variates_frozen_at_zero_give_fedavg_bit_for_bit(small, settings, option):
    fed = small(dtype=torch.float32, **settings)
    scaffold, fedavg = Scaffold(option), FedAvg(weighting="uniform")
    state, plain = scaffold.start(fed), fedavg.start(fed)
    for r in range(1, 5):
        state, plain = scaffold.round(fed, state, r)[0], fedavg.round(fed, plain, r)[0]
        assert torch.equal(state["theta"], plain["theta"])
        assert state["controls"].any()
        state |= {"control": fed.zeros(), "controls": fed.zeros(len(fed))}
