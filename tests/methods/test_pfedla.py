"""pFedLA: rounds by hand, its identities, the hypernetwork's step, what is sent and held."""

import math

import pytest
import torch
from torch import nn

from pfl_lib import Federation
from pfl_lib.methods.pfedla import PFedLA
from tests.methods.conftest import TwoLayers, normed

POINTS = [[(4, 4)], [(-4, 4)]]


def plain(**settings) -> PFedLA:
    """A hypernetwork that a pencil can differentiate: alpha = softmax(W v + b), one number v."""
    return PFedLA(embedding=1, hidden=(), **settings)


def begin(method: PFedLA, fed: Federation) -> dict:
    """The start, with v = 1 at every client."""
    state = method.start(fed)
    state["hypernetworks"] = state["hypernetworks"].clone()
    state["hypernetworks"][:, 0] = 1
    return state


def shaken(fed: Federation, state: dict) -> dict:
    """Clients' models apart, no parameter of a hypernetwork zero."""
    random = torch.Generator().manual_seed(3)
    return {
        name: matrix + scale * torch.randn(matrix.shape, generator=random, dtype=matrix.dtype)
        for (name, matrix), scale in zip(state.items(), (0.5, 0, 0.1), strict=True)
    }


def test_three_rounds_by_hand(pencil, play, exactly):
    """One step a round, theta <- (theta + point) / 2; points (4, 4) and (-4, 4); two layers, the
    coordinates.  alpha = softmax(W v + b) with v = 1, W = b = 0, and step e = log(3) / 8.

    Round 1: all models are (0, 0), so <theta_j, Delta_i> = 0 and nothing is learnt.
      theta_0 = (2, 2), theta_1 = (-2, 2).
    Round 2: alpha = 1/2, thetabar = (0, 2) for both.  theta_0 = (2, 3), Delta_0 = (2, 1).
      <theta_j, Delta_0>: lower (2, -2) * 2 = (4, -4), upper (2, 2) * 1 = (2, 2).  Through the
      softmax, s_j = alpha_j (g_j - sum alpha g): lower (2, -2), upper (0, 0).
      b = W = e (2, -2) in lower, v = 1 + e sum W s = 1, as W was 0.  Client 1 mirrors client 0.
      Scores W v + b = e (4, -4), apart by 8 e = log 3:  alpha_0 = (3/4, 1/4) in
      lower, 1/2 in upper.
    Round 3: thetabar_0 = (3/4 * 2 - 1/4 * 2, 3) = (1, 3).  theta_0 = (5/2, 7/2),
      Delta_0 = (3/2, 1/2).
      g: lower (3, -3), sum alpha g = 3/2, s = (9/8, -9/8); upper 0.
      b = W = e (2 + 9/8) (1, -1),  v = 1 + e (2 e * 9/8 + 2 e * 9/8) = 1 + 9/2 e^2.
    """
    e = math.log(3) / 8
    fed = pencil(POINTS, rounds=3, alice=None, model=TwoLayers)
    method = plain(step=e)
    (first, log), (second, _), (third, last) = play(method, fed, state=begin(method, fed))
    exactly(first["theta"], [[2, 2], [-2, 2]])
    exactly(log["weights"], [[[0.5, 0.5]] * 2] * 2)
    exactly(second["theta"], [[2, 3], [-2, 3]])
    exactly(method.served(fed, second)["theta"], [[1, 3], [-1, 3]])
    exactly(third["theta"], [[2.5, 3.5], [-2.5, 3.5]])
    exactly(last["weights"], [[[3 / 4, 1 / 4], [1 / 4, 3 / 4]], [[1 / 2, 1 / 2]] * 2])
    w = e * (2 + 9 / 8)
    row = [1 + 4.5 * e**2, w, -w, 0, 0, w, -w, 0, 0]  # v, W [L, N], b [L, N]
    exactly(third["hypernetworks"][0], row)
    assert last["models_up"] == last["models_down"] == 2


def test_a_relative_step_by_hand(pencil, play, exactly):
    """|Delta_0|^2 = 2^2 + 1^2 = 5 in round 2 above: five times the step gives the same weights."""
    fed = pencil(POINTS, alice=None, model=TwoLayers)
    method = plain(step=5 * math.log(3) / 8, scale="relative")
    second, _ = play(method, fed, state=begin(method, fed))[-1]
    exactly(method.served(fed, second)["theta"], [[1, 3], [-1, 3]])


def test_a_client_that_does_not_move_teaches_its_hypernetwork_nothing(pencil, play):
    """All points at the initial model: every update is zero, and 0/0 must not become NaN."""
    fed = pencil([[(0, 0)], [(0, 0)]], alice=None, model=TwoLayers)
    method = plain(scale="relative")
    state, _ = play(method, fed)[-1]
    assert torch.equal(state["hypernetworks"], method.start(fed)["hypernetworks"])


def test_scaling_all_models_scales_a_relative_step_not_at_all(small):
    """Models and updates c times as large: an absolute step's slopes grow by c^2."""
    fed, moved = small(alice=None), {}
    for scale in ("absolute", "relative"):
        method = PFedLA(step=0.01, scale=scale)
        for c in (1.0, 10.0):
            state = shaken(fed, method.start(fed))
            # An update of c * theta / 2, whatever the data.
            fed.train = lambda rows, r, clients: (
                {name: 1.5 * matrix for name, matrix in rows.items()},
                torch.ones(len(clients)),
            )
            after, _ = method.round(fed, {**state, "theta": c * state["theta"]}, 1)
            moved[scale, c] = after["hypernetworks"] - state["hypernetworks"]
    for scale, c2 in (("relative", 1), ("absolute", 100)):
        found, expected = moved[scale, 10.0], c2 * moved[scale, 1.0]
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_more_clients_than_fit_one_operation_are_stepped_alike(pencil, play):
    points = [[(k, -k)] for k in range(70)]
    fed = pencil(points, alice=None, model=TwoLayers)
    method = PFedLA(embedding=2, hidden=(2,))
    state, _ = play(method, fed)[-1]
    moved = (state["hypernetworks"] - method.start(fed)["hypernetworks"]).abs().sum(1)
    assert (moved > 0).all()


def test_of_equal_self_weights_the_first_layers_are_retained(small):
    fed = small(alice=None)
    _, log = PFedLA(retained=1).round(fed, PFedLA().start(fed), 1)
    assert torch.equal(log["weights"][0], torch.eye(4, dtype=torch.float64))
    assert torch.equal(log["weights"][1], torch.full((4, 4), 0.25, dtype=torch.float64))


def test_norms_are_layers_that_k_never_counts(small, play):
    fed = small(alice=None, batch_size=3, model=normed)
    for _, log in play(PFedLA(retained=2), fed):
        eye = torch.eye(4, dtype=torch.float64)
        assert [torch.equal(weights, eye) for weights in log["weights"]] == [True, False, True]
        assert log["models_down"] == pytest.approx(4 * 10 / fed.layout.P)


@pytest.mark.parametrize(
    ("model", "described"),
    [(normed, 0), (lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)), 0)],
    ids=["behind a layer", "first of all"],
)
def test_running_statistics_are_mixed_as_the_layer_that_they_describe(small, model, described):
    """The layer before the norm, whose own weights are others; a norm that comes first has none."""
    fed = small(alice=None, batch_size=3, model=model)
    method = PFedLA(step=0.1)
    state = shaken(fed, method.start(fed))
    state["statistics"] = torch.rand(4, fed.layout.S, dtype=torch.float64)
    weights, _ = method._weights(fed, state["hypernetworks"], range(4))
    assert not torch.allclose(weights[:, 0], weights[:, 1])
    served = method.served(fed, state)["statistics"]
    torch.testing.assert_close(served, weights[:, described] @ state["statistics"])
