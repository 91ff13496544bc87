"""pFedMe: rounds by hand, its limits (FedAvg, a constant shared model), and models that move."""

import pytest
import torch

from pfl_lib.methods.fedavg import FedAvg
from pfl_lib.methods.pfedme import PFedMe
from tests.methods.conftest import normed

SIMPLE = PFedMe(lam=1, steps=1, eta=0.5)


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2, lambda 1, K 1, eta 1/2, beta 1: theta <- theta - (theta - p + theta - w)/2, w <- w -
    (w - theta)/2.  All on the first axis, p = 4 and 8.

    Round 1 from 0: theta = 2, 4; w = 1, 2; x = 3/2.
    Round 2 from 3/2: theta = 3/2 + 5/4, 3/2 + 13/4 = 11/4, 19/4; w = 17/8, 25/8; x = 21/8."""
    fed = pencil([[(4, 0)], [(8, 0)]], alice=None)
    (first, log), (second, _) = play(SIMPLE, fed)
    exactly(first["theta"], [3 / 2, 0])
    exactly(SIMPLE.served(fed, first)["theta"], [[2, 0], [4, 0]])
    exactly(second["theta"], [21 / 8, 0])
    exactly(SIMPLE.served(fed, second)["theta"], [[11 / 4, 0], [19 / 4, 0]])
    exactly(log["weights"], [0.5, 0.5])
    assert log["models_up"] == log["models_down"] == 2


def test_momentum_is_the_inner_problems_alone(pencil, play, exactly):
    """lr 1/2, momentum 1/2, lambda 1, K 1 from w, eta 1/2, p = 4 twice: theta = 2, w = 1; then g =
    -3, velocity -2 - 3, theta = 1 + 5/2, w = 1 + (7/2 - 1)/2 = 9/4."""
    fed = pencil([[(4, 0), (4, 0)]] * 2, alice=None, rounds=1, momentum=0.5)
    [(state, _)] = play(PFedMe(lam=1, steps=1, eta=0.5, restart=True), fed)
    exactly(state["personal"], [[7 / 2, 0]] * 2)
    exactly(state["theta"], [9 / 4, 0])


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.01}], ids=str)
def test_lambda_zero_leaves_the_shared_model_where_it_is(small, play, settings):
    fed = small(alice=None, **settings)
    start = fed.initial()["theta"]
    for state, _ in play(PFedMe(lam=0), fed):
        assert torch.equal(state["theta"], start)
        assert (state["personal"] != start).any(1).all()


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_the_shared_models_statistics_are_the_clients_mean_whatever_beta(small, play, beta):
    """Moved by beta they would fall below 0, where no variance is."""
    fed = small(model=normed, batch_size=3, alice=None)
    for state, _ in play(PFedMe(lam=1, beta=beta), fed):
        own = state["personal statistics"].mean(0)
        torch.testing.assert_close(state["statistics"], own, rtol=1e-12, atol=1e-14)
    assert PFedMe(beta=beta).versions(fed.schedule, True) == {"statistics of x": 1 + (beta != 1)}


def test_one_inner_step_from_w_is_fedavg_with_a_smaller_rate(small, play):
    """theta = w - lr g, so w <- w - eta lambda lr g: FedAvg at lr eta lambda."""
    fed, slower = small(lr=0.3), small(lr=0.3 * 0.1 * 4)
    method = PFedMe(lam=4, steps=1, eta=0.1, restart=True)
    runs = play(method, fed), play(FedAvg("uniform"), slower)
    for (state, _), (plain, _) in zip(*runs, strict=True):
        torch.testing.assert_close(state["theta"], plain["theta"], rtol=1e-10, atol=1e-12)
