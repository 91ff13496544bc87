"""What holds for all methods alike: pure rounds, honest weights, no client favoured, models that go
where they should.
"""

import copy

import pytest
import torch
from torch import nn

from pfl_lib.methods import (
    APFL,
    CFL,
    METHODS,
    Ditto,
    FedAvg,
    FedAvgData,
    FedBN,
    FedFomo,
    FedFomoMA,
    FedProx,
    FedRep,
    FineTuned,
    LGFedAvg,
    Local,
    Mocha,
    PerFedAvg,
    PFedHN,
    PFedLA,
    PFedMe,
    Scaffold,
    Similarity,
    Waffle,
    WeightErosion,
    make_method,
)

ALL = [
    Local(),
    FedAvg(),
    FineTuned(),
    Ditto(0.5),
    FedAvg("uniform"),
    Scaffold(),
    Scaffold("I"),
    WeightErosion(p_d=0.1),
    Waffle(),
    Waffle(control="literal"),
    Waffle(option="I", transition="linear"),
    Waffle(transition="step", psi="linear"),
    APFL(),
    APFL(mixture_step="every batch"),
    APFL(mixture_step="round"),
    APFL(averaged="mixtures", own_gradient="outputs", mixture_step="round"),
    FedFomo(n=3),
    FedFomoMA(),
    FedAvgData(share=0.5),
    Mocha(coefficient=100),
    CFL(epsilon_1=0.95, epsilon_2=0.1, start_round=2),
    PerFedAvg(),
    PerFedAvg(hessian="differences"),
    PFedMe(lam=4),
    PFedLA(),
    PFedLA(retained=1, scale="relative"),
    PFedHN(),
    FedBN(),
    FedRep(),
    LGFedAvg(),
    FedProx(),
    Similarity(),
    Similarity(by="model"),
]
WEIGHING = [method for method in ALL if method.name not in ("mocha", "pfedhn")]  # average no models
# A draw goes by a client's number.  Where the order must not matter FedFomo sends all four models;
# which examples are shared, and pFedHN's embeddings, are always drawn.
WITHOUT_DRAWS = [
    FedFomo(n=4) if method.name == "fedfomo" else method
    for method in ALL
    if method.name not in ("fedavg_data", "pfedhn")
]
each = pytest.mark.parametrize("method", ALL, ids=repr)
MOVING = {"momentum": 0.5, "weight_decay": 0.01}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3))


@pytest.fixture
def small(small, request):
    """The small federation, of a network with a norm for FedBN, which refuses any other."""
    given = request.node.callspec.params
    if given.get("name", getattr(given.get("method"), "name", None)) == "fedbn":
        return lambda **settings: small(model=normed, **settings)
    return small


def same(one: dict, other: dict) -> bool:
    # nan marks clients that Weight Erosion has not met yet
    return one.keys() == other.keys() and all(
        torch.equal(one[n].nan_to_num(-1), other[n].nan_to_num(-1)) for n in one
    )


@each
def test_a_round_changes_neither_the_state_it_is_given_nor_its_own_answer(small, method):
    fed = small(clients=3, **MOVING)
    state = method.start(fed)
    for r in (1, 2, 3):
        before = copy.deepcopy(state)
        after, _ = method.round(fed, state, r)
        again, _ = method.round(fed, state, r)
        assert same(state, before)
        assert same(after, again)
        state = after


@each
def test_a_state_is_all_that_is_needed_to_go_on(small, play, method):
    """Rounds 3 and 4 of a fresh federation, from a copy of the state after round 2, are those of
    the uninterrupted run.
    """
    whole = play(method, small(**MOVING))
    fed, state = small(**MOVING), {name: value.clone() for name, value in whole[1][0].items()}
    for r in (3, 4):
        state, _ = method.round(fed, state, r)
        assert same(state, whole[r - 1][0])


@pytest.mark.parametrize("method", WEIGHING, ids=repr)
@pytest.mark.parametrize(
    "settings", [{}, {"participation": 0.5}, {"availability": ((3, 2, 3), (1, 1, 2))}], ids=str
)
def test_weights_are_shares_of_the_participants(small, play, method, settings):
    fed = small(clients=6, **settings)
    for r, (_, log) in enumerate(play(method, fed), start=1):
        weights, there = log["weights"], fed.participants(r)
        gone = [i for i in range(6) if i not in there]
        assert weights.shape in ((6,), (6, 6), (len(fed.layout.layers), 6, 6))
        assert weights.dtype == torch.float64 and (weights >= 0).all()
        # pFedLA mixes every model that its server holds into those of the round's participants.
        assert not (weights.transpose(-1, -2) if weights.dim() == 3 else weights)[..., gone].any()
        if (
            method.name == "weight_erosion"
        ):  # the paper's alpha, of which the shares are alpha / sum alpha
            assert weights[0] == 1 and (weights <= 1).all()
        elif weights.dim() == 2:  # a row for each client's model, empty where it kept what it had
            assert weights[there].sum(1).tolist() == [
                pytest.approx(0 if stopped else 1, abs=1e-12)
                for stopped in log.get("early_stopped", torch.zeros(6))[there]
            ]
        else:
            weights = weights[:, there] if weights.dim() == 3 else weights
            ones = torch.ones_like(weights.sum(-1))
            torch.testing.assert_close(weights.sum(-1), ones, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", WITHOUT_DRAWS, ids=repr)
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 0, 2, 1)], ids=str)
def test_clients_in_another_order_give_the_same_models_and_weights(
    small, play, alices_model, method, order
):
    """Alice and all others move to other places; batches are taken in a fixed order, which no
    client number enters.
    """
    here, there = small(shuffled=False), small(shuffled=False, alice=order.index(0), order=order)
    for (one, log), (other, permuted) in zip(play(method, here), play(method, there), strict=True):
        if method.name != "mocha":  # which averages nobody
            expected = log["weights"][..., list(order)]
            expected = expected[..., list(order), :] if expected.dim() > 1 else expected
            torch.testing.assert_close(permuted["weights"], expected, rtol=1e-10, atol=1e-12)
        for name, row in alices_model(method, here, one).items():
            torch.testing.assert_close(
                alices_model(method, there, other)[name], row, rtol=1e-10, atol=1e-12
            )


@pytest.mark.parametrize(
    "method",
    [m for m in ALL if m.name not in ("waffle", "weight_erosion", "mocha")],  # Mocha pulls to all
    ids=repr,
)
def test_alice_is_served_the_same_whether_or_not_the_others_are_read(
    small, play, alices_model, method
):
    alone, together = small(alice=2), small(alice=None)
    for (one, _), (all_, _) in zip(play(method, alone), play(method, together), strict=True):
        ours, theirs = alices_model(method, alone, one), alices_model(method, together, all_, 2)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        (Local(), 5),
        (Ditto(), 15),
        (FineTuned(3), 11.5),
        (APFL(), 15),
        (APFL(averaged="mixtures"), 20),
        (Scaffold(), 10),
        (Scaffold("I"), 11),
        (Waffle(option="I"), 11),
        (PFedMe(steps=3), 30),
        (PerFedAvg(), 20.5),
        (PerFedAvg(hessian="differences", adapt=False), 40),
        (FedAvgData(0.1), 24),
        (FedAvgData(0.1, pool="client"), 11),
        (FedRep(body_epochs=3), 10),
        (FedRep(body_epochs=10), 11),
        (FedRep(()), 10),
    ],
    ids=repr,
)
def test_a_round_of_ten_passes_with_half_of_the_models_read_costs_so_many(method, passes):
    assert method.cost(10, 0.5) == pytest.approx(passes)


@pytest.mark.parametrize(
    "name",
    # For linear models, and for clients of more than a few examples.
    [name for name in METHODS if name not in ("broken_global", "fedavg_data")],
)
def test_every_name_gives_its_method_and_its_defaults_learn(small, play, alices_model, name):
    method, fed = make_method(name), small(clients=5, rounds=6, lr=0.1, batch_size=5)
    assert (
        type(method) is METHODS[name]
        and type(method).__dataclass_params__.frozen
        and method.name == name
        and method.title
        and method.version >= 1
    )
    (state, _) = play(method, fed)[-1]
    before, after = (
        fed.evaluate(m, "train", [0])[0].item()
        for m in (fed.initial(), alices_model(method, fed, state))
    )
    assert after < before
