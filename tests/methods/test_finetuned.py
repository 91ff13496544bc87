"""FedAvg with fine-tuning: FedAvg by its rounds, local training by what it serves."""

import pytest
import torch
from torch import nn

from pfl_lib import BadInput
from pfl_lib.methods import FedAvg, FineTuned

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2: every step goes half-way to a point.  FedAvg's x is (2.5,0), then (3.4375,0).

    Served: client 0 goes by (4,0) and (0,4), client 1 by (8,-4): after round 1 to (1.625,2) and
    (5.25,-2), after round 2 to (1.859375,2) and (5.71875,-2).
    """
    fed, method = pencil(POINTS, alice=None), FineTuned(1, "uniform")
    (first, _), (second, _) = play(method, fed)
    exactly(first["theta"], [2.5, 0])
    exactly(method.served(fed, first)["theta"], [[1.625, 2], [5.25, -2]])
    exactly(second["theta"], [3.4375, 0])
    exactly(method.served(fed, second)["theta"], [[1.859375, 2], [5.71875, -2]])


@pytest.mark.parametrize("weighting", ["size", "uniform"])
@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_without_epochs_it_is_fedavg_bit_for_bit(small, play, weighting, settings):
    fed = small(batch_size=3, model=normed, **settings)
    none, fedavg = FineTuned(0, weighting), FedAvg(weighting)
    for (mine, log), (theirs, plain) in zip(play(none, fed), play(fedavg, fed), strict=True):
        for name, row in fedavg.served(fed, theirs).items():
            assert torch.equal(none.served(fed, mine)[name], row)
        assert torch.equal(log["weights"], plain["weights"])


def test_serving_leaves_the_rounds_to_fedavg_bit_for_bit(small, play):
    fed = small(alice=None)
    method, fedavg = FineTuned(3), FedAvg()
    state, plain = method.start(fed), fedavg.start(fed)
    for r in range(1, 5):
        method.served(fed, state)
        state, plain = method.round(fed, state, r)[0], fedavg.round(fed, plain, r)[0]
        assert torch.equal(state["theta"], plain["theta"])


@pytest.mark.parametrize("settings", [{}, MOMENTUM, {"lr_decay": 0.5}], ids=str)
def test_what_is_served_is_what_the_client_would_send_next(small, play, settings):
    fed = small(alice=None, local_epochs=2, batch_size=3, model=normed, **settings)
    method, trained = FineTuned(2), []
    state, _ = play(method, fed, rounds=2)[-1]
    served = method.served(fed, state)
    train = fed.train
    fed.train = lambda *args, **kw: trained.append(train(*args, **kw)) or trained[-1]
    method.round(fed, state, 3)
    [(sent, _)] = trained
    assert all(torch.equal(served[name], sent[name]) for name in served)
    state, _ = play(method, fed)[-1]  # after the last round too
    assert not torch.equal(method.served(fed, state)["theta"][0], state["theta"])


def test_a_client_whose_model_is_not_read_is_served_fedavgs(small, play):
    fed = small(alice=2)
    state, _ = play(FineTuned(), fed)[-1]
    served = FineTuned().served(fed, state)["theta"]
    assert all(torch.equal(served[i], state["theta"]) for i in (0, 1, 3))
    assert not torch.equal(served[2], state["theta"])


@pytest.mark.parametrize("epochs", [-1, 0.5, True, "1"])
def test_epochs_are_a_whole_number(epochs):
    with pytest.raises(BadInput, match=f"^epochs {epochs!r}: give a whole number, 0 or more$"):
        FineTuned(epochs)
