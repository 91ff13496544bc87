"""FedAvg with fine-tuning: FedAvg by its rounds, local training by what it serves."""

import torch

from pfl_lib.methods import FineTuned

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


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


def test_a_client_whose_model_is_not_read_is_served_fedavgs(small, play):
    fed = small(alice=2)
    state, _ = play(FineTuned(), fed)[-1]
    served = FineTuned().served(fed, state)["theta"]
    assert all(torch.equal(served[i], state["theta"]) for i in (0, 1, 3))
    assert not torch.equal(served[2], state["theta"])
