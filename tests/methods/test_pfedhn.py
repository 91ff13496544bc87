"""pFedHN: two rounds by hand, the direction of the hypernetwork's step, what stays with whom."""

import torch

from pfl_lib.methods.pfedhn import PFedHN

# theta_i = W v_i + b with one number v_i: a hypernetwork that a pencil can differentiate
LINEAR = PFedHN(1.0, momentum=0.0, weight_decay=0.0, clip=1e9, embedding=1, hidden=())
POINTS = [[(4, 0)], [(0, 8)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """Clients train theta <- (theta + point) / 2, points (4, 0) and (0, 8); v = (1, 2), W = b = 0.

    Round 1, both from (0, 0): Delta_0 = (2, 0), Delta_1 = (0, 4).
      W = (1 Delta_0 + 2 Delta_1) / 2 = (1, 4);  b = (1, 2);  v_i moves by <W, Delta_i> / 2 = 0.
      theta_0 = W + b = (2, 6), theta_1 = 2 W + b = (3, 10).
    Round 2: (3, 3) and (3/2, 9): Delta_0 = (1, -3), Delta_1 = (-3/2, -1).
      W moves by (-2, -5)/2, b by (-1/2, -4)/2;  v_0 by (1 - 12)/2, v_1 by (-3/2 - 4)/2.
      W = (0, 3/2), b = (3/4, 0), v = (-9/2, -3/4):  theta_0 = (3/4, -27/4),
      theta_1 = (3/4, -9/8).
    """
    fed = pencil(POINTS, alice=None)
    start = LINEAR.start(fed)
    start["hypernetwork"][:2] = torch.tensor([1.0, 2.0])  # the row is v [2], W [2], b [2]
    (first, log), (second, _) = play(LINEAR, fed, state=start)
    exactly(first["hypernetwork"], [1, 2, 1, 4, 1, 2])
    exactly(LINEAR.served(fed, first)["theta"], [[2, 6], [3, 10]])
    exactly(second["hypernetwork"], [-4.5, -0.75, 0, 1.5, 0.75, 0])
    exactly(LINEAR.served(fed, second)["theta"], [[0.75, -6.75], [0.75, -1.125]])
    assert log["models_up"] == log["models_down"] == 2


def test_all_clients_start_from_the_initial_model(small):
    fed = small(alice=None)
    served = PFedHN().served(fed, PFedHN().start(fed))["theta"]
    assert torch.equal(served, fed.initial()["theta"].expand(4, -1))
