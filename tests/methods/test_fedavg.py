"""FedAvg: two rounds by hand, and the identity that defines it."""

import pytest
import torch
from torch import nn

from pfl_lib import BadInput
from pfl_lib.methods import FedAvg
from pfl_lib.randomness import generator

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


def test_two_rounds_by_hand_with_weights_by_size(pencil, play, exactly):
    """Each step is theta <- (theta + point) / 2; sizes 2 and 1, so x <- (2 y_0 + y_1) / 3.

    Round 1: y_0: (0,0) -> (2,0) -> (1,2);  y_1: (0,0) -> (4,-2);  x = (2+4, 4-2)/3 = (2, 2/3).
    Round 2: y_0: (2,2/3) -> (3,1/3) -> (3/2,13/6);  y_1: (2,2/3) -> (5,-5/3);  x = (3+5,
    13/3-5/3)/3 = (8/3, 8/9).
    """
    (first, log), (second, _) = play(FedAvg(), pencil(POINTS))
    exactly(first["theta"], [2, 2 / 3])
    exactly(second["theta"], [8 / 3, 8 / 9])
    exactly(log["weights"], [2 / 3, 1 / 3])
    assert log["models_up"] == log["models_down"] == 2


def test_two_rounds_by_hand_with_uniform_weights(pencil, play, exactly):
    """As above with x <- (y_0 + y_1) / 2.

    Round 1: y_0 = (1,2), y_1 = (4,-2);  x = (2.5, 0).
    Round 2: y_0: (2.5,0) -> (3.25,0) -> (1.625,2);  y_1: (2.5,0) -> (5.25,-2);  x = (3.4375, 0).
    """
    (first, _), (second, _) = play(FedAvg(weighting="uniform"), pencil(POINTS))
    exactly(first["theta"], [2.5, 0])
    exactly(second["theta"], [3.4375, 0])


@pytest.mark.parametrize(
    "optimiser", [{}, {"momentum": 0.9, "weight_decay": 0.01}], ids=["plain", "momentum"]
)
def test_one_client_is_sgd(small, play, optimiser):
    """With N = 1 FedAvg is torch.optim.SGD on the same batches, momentum made anew each round."""
    fed = small(clients=1, rounds=3, local_epochs=2, lr_decay=0.9, **optimiser)
    x, y = fed.clients.splits["train"].pool.x, fed.clients.splits["train"].labels[0]
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    nn.utils.vector_to_parameters(fed.initial()["theta"], module.parameters())
    for r, (state, _) in enumerate(play(FedAvg(), fed), start=1):
        sgd = torch.optim.SGD(module.parameters(), lr=0.3 * 0.9 ** (r - 1), **optimiser)
        for epoch in range(2):
            for batch in torch.randperm(
                5, generator=generator(fed.seed, "batches", r, 0, epoch)
            ).split(2):
                sgd.zero_grad()
                nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
                sgd.step()
        by_torch = nn.utils.parameters_to_vector(module.parameters()).detach()
        torch.testing.assert_close(state["theta"], by_torch, rtol=1e-12, atol=1e-12)


def test_one_full_batch_of_equal_clients_is_gradient_descent_on_the_mean_loss(
    pencil, play, exactly
):
    """Points (2, 0) and (4, 6): the mean loss's gradient at x is x - (3, 3), so x = (1.5, 1.5),
    then (2.25, 2.25).
    """
    (first, _), (second, _) = play(FedAvg(), pencil([[(2, 0)], [(4, 6)]]))
    exactly(first["theta"], [1.5, 1.5])
    exactly(second["theta"], [2.25, 2.25])


def test_equal_sizes_weigh_as_uniform(small, play):
    by_size, uniform = (
        play(FedAvg(weighting), small(repeat=True)) for weighting in ("size", "uniform")
    )
    for (one, _), (other, _) in zip(by_size, uniform, strict=True):
        assert torch.equal(one["theta"], other["theta"])


def test_running_statistics_are_averaged_like_parameters(small):
    """The trap: statistics that stay with the clients turn FedAvg into FedBN without a word."""
    fed = small(
        batch_size=3,
        model=lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    )
    method = FedAvg()
    start, trained = method.start(fed), []
    train = fed.train
    fed.train = lambda *args, **kw: trained.append(train(*args, **kw)) or trained[-1]
    state, log = method.round(fed, start, 1)
    [(rows, _)] = trained
    assert state["statistics"].shape == (10,)
    assert not torch.equal(rows["statistics"][0], rows["statistics"][1])
    torch.testing.assert_close(
        state["statistics"], log["weights"] @ rows["statistics"], rtol=1e-12, atol=1e-12
    )


def test_only_participants_are_averaged(small, play):
    fed = small(alice=None, clients=6, participation=0.5, rounds=8)
    seen = set()
    for r, (_, log) in enumerate(play(FedAvg(), fed), start=1):
        there = log["weights"].nonzero().flatten().tolist()
        assert there == fed.participants(r)
        assert len(there) == log["models_up"] == 3
        seen.add(tuple(there))
    assert len(seen) > 1, "the same clients every round"


def test_an_unknown_weighting_is_refused():
    with pytest.raises(BadInput, match="^weighting 'sizes' .*uniform: did you mean size\\?$"):
        FedAvg(weighting="sizes")
