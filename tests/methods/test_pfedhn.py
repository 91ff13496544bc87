"""pFedHN: two rounds by hand, the direction of the hypernetwork's step, what stays with whom."""

import math

import torch

from pfl_lib.methods.pfedhn import PFedHN

BARE = {"momentum": 0.0, "weight_decay": 0.0, "clip": 1e9}
POINTS = [[(4, 0)], [(0, 8)]]


def linear(**settings) -> PFedHN:
    """theta_i = W v_i + b with one number v_i: a hypernetwork that a pencil can differentiate."""
    return PFedHN(embedding=1, hidden=(), **{"step": 1.0, **BARE, **settings})


def begin(method: PFedHN, fed) -> dict:
    """The start, with v = (1, 2); the row is v [2], W [2], b [2]."""
    state = method.start(fed)
    state["hypernetwork"][:2] = torch.tensor([1.0, 2.0])
    return state


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
    fed, method = pencil(POINTS, alice=None), linear()
    (first, log), (second, _) = play(method, fed, state=begin(method, fed))
    exactly(first["hypernetwork"], [1, 2, 1, 4, 1, 2])
    exactly(method.served(fed, first)["theta"], [[2, 6], [3, 10]])
    exactly(second["hypernetwork"], [-4.5, -0.75, 0, 1.5, 0.75, 0])
    exactly(method.served(fed, second)["theta"], [[0.75, -6.75], [0.75, -1.125]])
    assert log["models_up"] == log["models_down"] == 2


def test_momentum_decay_and_clipping_by_hand(pencil, play, exactly):
    """As above.  Momentum 1/2: round 2 adds half of round 1's step.  W = (1, 4) + (1/2, 2) +
    (-1, -5/2) = (1/2, 7/2), b = (1, 2) + (1/2, 1) + (-1/4, -2) = (5/4, 1), v as before.

    Weight decay 1/10 in round 1: v = 9/10 (1, 2); W and b are zero.  The gradient of round 1,
    (1, 4, 1, 2), has length sqrt 22: clipped at half of that, half the step.
    """
    fed = pencil(POINTS, alice=None)
    method = linear(momentum=0.5)
    second, _ = play(method, fed, state=begin(method, fed))[-1]
    exactly(second["hypernetwork"], [-4.5, -0.75, 0.5, 3.5, 1.25, 1])
    method = linear(weight_decay=0.1)
    first, _ = method.round(fed, begin(method, fed), 1)
    exactly(first["hypernetwork"], [0.9, 1.8, 1, 4, 1, 2])
    method = linear(clip=math.sqrt(22) / 2)
    first, _ = method.round(fed, begin(method, fed), 1)
    exactly(first["hypernetwork"], [1, 2, 0.5, 2, 0.5, 1])


def test_all_clients_start_from_the_initial_model(small):
    fed = small(alice=None)
    served = PFedHN().served(fed, PFedHN().start(fed))["theta"]
    assert torch.equal(served, fed.initial()["theta"].expand(4, -1))


def test_a_step_of_zero_leaves_all_models_as_they_are(small, play):
    fed = small(alice=None)
    method = PFedHN(step=0.0)
    state, _ = play(method, fed)[-1]
    assert torch.equal(state["hypernetwork"], method.start(fed)["hypernetwork"])
