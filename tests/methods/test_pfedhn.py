"""pFedHN: two rounds by hand, the direction of the hypernetwork's step, what stays with whom."""

import math

import pytest
import torch
from torch import nn

from pfl_lib import BadInput
from pfl_lib.methods.pfedhn import PFedHN, models

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


def shaken(fed, method: PFedHN) -> dict:
    """A state in the middle of things: no parameter zero."""
    state, random = method.start(fed), torch.Generator().manual_seed(3)
    row = state["hypernetwork"]
    noise = torch.randn(row.shape, generator=random, dtype=row.dtype)
    return {**state, "hypernetwork": row + 0.2 * noise}


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


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_hypernetworks_step_is_the_gradient_by_finite_differences(small, participation):
    """phi and v move by step * d mean_i <h(v_i; phi), Delta_i>, the mean over the participants:
    central differences in float64.
    """
    fed = small(alice=None, participation=participation)
    there = fed.participants(1)
    method = PFedHN(step=1e-3, embedding=3, hidden=(4, 5), **BARE)
    state = shaken(fed, method)
    trained, train = [], fed.train
    fed.train = lambda rows, *a: trained.append((rows, train(rows, *a)[0])) or (trained[-1][1], 0)
    after, _ = method.round(fed, state, 1)
    [(given, done)] = trained
    updates, blocks, before = (
        done["theta"] - given["theta"],
        method._blocks(fed),
        state["hypernetwork"],
    )

    def gained(network: torch.Tensor) -> torch.Tensor:
        return (models(network, blocks, there) * updates).sum() / (4 * participation)

    gradient = (after["hypernetwork"] - before) / method.step
    random = torch.Generator().manual_seed(0)
    directions = [torch.randn(before.shape, generator=random, dtype=torch.float64)]
    for block in blocks:
        directions.append(torch.zeros_like(before))
        directions[-1][(block.start + block.stop) // 2] = 1
    for direction in directions:
        by_difference = (
            gained(before + 1e-5 * direction) - gained(before - 1e-5 * direction)
        ) / 2e-5
        torch.testing.assert_close(
            (gradient * direction).sum(), by_difference, rtol=1e-6, atol=1e-8
        )
    assert gradient.abs().max() > 1e-3


def test_a_small_step_moves_the_models_along_the_updates(small):
    """The trap: a hypernetwork that ascends the loss."""
    fed = small(alice=None)
    method = PFedHN(step=1e-3, **BARE)
    state = shaken(fed, method)
    trained, train = [], fed.train
    fed.train = lambda rows, *a: trained.append(train(rows, *a)[0]) or (trained[-1], 0)
    old = method.served(fed, state)["theta"]
    after, _ = method.round(fed, state, 1)
    new = method.served(fed, after)["theta"]
    assert ((new - old) * (trained[0]["theta"] - old)).sum() > 0


def test_local_training_starts_from_the_generated_models(small):
    fed, method, started = small(alice=None), PFedHN(), []
    train = fed.train
    fed.train = lambda rows, *args: started.append(rows["theta"]) or train(rows, *args)
    state = method.start(fed)
    for r in (1, 2, 3):
        expected = method.served(fed, state)["theta"]
        state, _ = method.round(fed, state, r)
        assert torch.equal(started[-1], expected)
    assert len(expected.unique(dim=0)) == 4


def test_an_absent_client_teaches_nothing_and_keeps_its_statistics(small):
    """Its embedding has no gradient; its model moves with the hypernetwork that others teach."""
    normed = lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))  # noqa: E731
    fed = small(alice=None, batch_size=3, model=normed, participation=0.5)
    method = PFedHN(**BARE)
    state = shaken(fed, method)
    after, log = method.round(fed, state, 1)
    there = fed.participants(1)
    others = [i for i in range(4) if i not in there]
    before, now = (s["hypernetwork"][:8].reshape(4, 2) for s in (state, after))
    assert torch.equal(now[others], before[others]) and not torch.equal(now[there], before[there])
    assert torch.equal(after["statistics"][others], state["statistics"][others])
    assert not torch.equal(after["statistics"][there], state["statistics"][there])
    old, new = (method.served(fed, s)["theta"][others] for s in (state, after))
    assert not torch.equal(old, new)
    assert log["models_up"] == log["models_down"] == 2


def test_sizes_are_the_docstrings(small):
    """N embeddings of 1 + N // 4, three hidden layers of 100, and 101 numbers a parameter."""
    fed = small(alice=None)
    width = len(PFedHN().start(fed)["hypernetwork"])
    assert width == 4 * 2 + 300 + 2 * 10_100 + 101 * fed.layout.P
    assert 121_182 * 101 * 4 == pytest.approx(49e6, rel=0.01)  # pfedla_cnn, bytes in float32


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"step": -0.1}, "step -0.1: give a step of 0 or more"),
        ({"momentum": 1.0}, "momentum 1.0: give a number from 0 to below 1"),
        ({"weight_decay": math.nan}, "weight_decay nan: give a number 0 or more"),
        ({"clip": 0.0}, "clip 0.0: give a number above 0"),
        ({"embedding": 0}, "embedding 0: give a whole number, 1 or more"),
        ({"hidden": (0,)}, "a hidden layer's size 0: give a whole number, 1 or more"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_in_one_line(settings, sentence):
    with pytest.raises(BadInput, match=f"^{sentence}$"):
        PFedHN(**settings)
