"""Per-FedAvg: two rounds by hand, first and second order; who is adapted, a batch's halves."""

import torch

from pfl_lib.methods.per_fedavg import PerFedAvg, halves
from pfl_lib.rows import Batch

POINTS = [[(4, 0)], [(8, 0)]]


def test_two_rounds_by_hand_first_order(pencil, play, exactly):
    """alpha = 1/2, beta = 1/2; with gradient w - p and both halves the same point, w~ - p = (w -
    p)/2 and w <- w - (w - p)/4 = 3w/4 + p/4.  All on the first axis, p = 4 and 8.

    Round 1: 1 and 2, w = 3/2.  Served (w + p)/2: 11/4 and 19/4. Round 2: 9/8 + 1 and 9/8 + 2, w =
    21/8.
    """
    fed, method = pencil(POINTS, alice=None), PerFedAvg(alpha=0.5)
    (first, log), (second, _) = play(method, fed)
    exactly(first["theta"], [3 / 2, 0])
    exactly(method.served(fed, first)["theta"], [[11 / 4, 0], [19 / 4, 0]])
    exactly(second["theta"], [21 / 8, 0])
    exactly(log["weights"], [0.5, 0.5])
    assert log["models_up"] == log["models_down"] == 2


def test_where_alice_is_read_she_alone_is_adapted(small):
    fed, method = small(alice=2), PerFedAvg(alpha=0.2)
    state = method.start(fed)
    moved = (method.served(fed, state)["theta"] != state["theta"]).any(1)
    assert moved.tolist() == [False, False, True, False]


def test_halves_of_one_clients_batch_and_of_many():
    x, y = torch.arange(10.0).reshape(5, 2), torch.arange(5)
    first, second = halves(Batch(x, y, 0, 0.1, 0.0, 0.0))
    assert torch.equal(first.x, x[:3]) and torch.equal(second.x, x[3:])
    assert first.y.tolist() == [0, 1, 2] and second.y.tolist() == [3, 4]
    first, second = halves(Batch(x.expand(4, 5, 2), y.expand(4, 5), 0, 0.1, 0.0, 0.0))
    assert first.x.shape == (4, 3, 2) and second.x.shape == (4, 2, 2) and second.y.shape == (4, 2)
    for few in (1, 3):
        first, second = halves(Batch(x[:few], y[:few], 0, 0.1, 0.0, 0.0))
        assert torch.equal(first.x, x[:few]) and torch.equal(second.x, x[:few])
