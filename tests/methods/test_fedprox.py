"""FedProx: two rounds by hand, FedAvg at mu = 0, and what the proximal term does."""

import math

import pytest
import torch

from pfl_lib import BadInput
from pfl_lib.methods import FedAvg, FedProx

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def test_two_rounds_by_hand(pencil, play, exactly):
    """mu = 1/2: each step is y <- (y + point) / 2 - (y - x) / 4; sizes 2 and 1.

    Round 1, x = (0, 0): y_0: (2, 0), then (1, 2) - (1/2, 0) = (1/2, 2);  y_1 = (4, -2).
      x = (1 + 4, 4 - 2) / 3 = (5/3, 2/3).
    Round 2: y_0: (17/6, 1/3), then (17/12, 13/6) - (7/6, -1/3) / 4 = (9/8, 9/4);
      y_1 = (29/6, -5/3).  x = (9/4 + 29/6, 9/2 - 5/3) / 3 = (85/36, 17/18).
    """
    (first, log), (second, _) = play(FedProx(mu=0.5), pencil(POINTS))
    exactly(first["theta"], [5 / 3, 2 / 3])
    exactly(second["theta"], [85 / 36, 17 / 18])
    exactly(log["weights"], [2 / 3, 1 / 3])
    assert log["models_up"] == log["models_down"] == 2


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"participation": 0.5}], ids=str)
def test_mu_zero_is_fedavg_bit_for_bit(small, play, settings, weighting):
    fed = small(dtype=torch.float32, alice=None, local_epochs=2, **settings)
    ours, theirs = play(FedProx(0.0, weighting), fed), play(FedAvg(weighting), fed)
    for (one, log), (other, fedavgs) in zip(ours, theirs, strict=True):
        assert torch.equal(one["theta"], other["theta"])
        assert torch.equal(log["weights"], fedavgs["weights"])


def test_the_first_step_of_a_round_feels_no_pull(small):
    """y = x there; one batch a client makes FedProx FedAvg whatever mu is."""
    fed = small(alice=None, batch_size=9, rounds=1)
    (one, _), (other, _) = (m.round(fed, m.start(fed), 1) for m in (FedProx(3.0), FedAvg()))
    assert torch.equal(one["theta"], other["theta"])


def test_a_larger_mu_keeps_clients_nearer_to_the_model_they_were_given(small):
    moved = []
    for mu in (0.0, 0.3, 1.0, 3.0):
        fed = small(alice=None, local_epochs=5, lr=0.1)
        trained, train = [], fed.train
        fed.train = lambda *a, _to=trained, _by=train: _to.append(_by(*a)) or _to[-1]
        FedProx(mu).round(fed, FedProx(mu).start(fed), 1)
        moved.append((trained[0][0]["theta"] - fed.initial()["theta"]).norm(dim=1))
    for nearer, farther in zip(moved[1:], moved[:-1], strict=True):
        assert (nearer < farther).all()


@pytest.mark.parametrize("mu", [-1.0, math.inf, math.nan, "0"], ids=str)
def test_a_mu_below_zero_or_without_end_is_refused(mu):
    with pytest.raises(BadInput, match=f"^mu {mu!r}: give a factor of 0 or more$"):
        FedProx(mu=mu)
