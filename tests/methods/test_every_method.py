"""What holds for all methods alike: pure rounds, honest weights, no client favoured."""

import copy

import pytest
import torch
from torch import nn

from pfl_lib import Federation, Schedule
from pfl_lib import methods as m
from pfl_lib.methods import METHODS, make_method
from tests.experiments.common import drawn
from tests.methods.conftest import same

ALL = [
    *(m.Local(), m.FedAvg(), m.FineTuned(), m.Ditto(0.5), m.FedAvg("uniform"), m.Scaffold()),
    *(m.Scaffold("I"), m.WeightErosion(p_d=0.1), m.Waffle(), m.Waffle(control="literal")),
    *(m.Waffle(option="I", transition="linear"), m.Waffle(transition="step", psi="linear")),
    *(m.APFL(), m.APFL(mixture_step="every batch"), m.APFL(mixture_step="round")),
    *(m.APFL(averaged="mixtures", own_gradient="outputs", mixture_step="round"), m.FedFomo(n=3)),
    *(m.FedFomo(n=3, keeps=True), m.FedFomoMA(), m.FedAvgData(share=0.5), m.Mocha(coefficient=100)),
    *(m.CFL(epsilon_1=0.95, epsilon_2=0.1, start_round=2), m.PerFedAvg()),
    *(m.PerFedAvg(hessian="differences"), m.PFedMe(lam=4), m.PFedLA()),
    *(m.PFedLA(retained=1, scale="relative"), m.PFedHN(), m.FedBN(), m.FedRep(), m.LGFedAvg()),
    *(m.FedProx(), m.Similarity(), m.Similarity(by="model")),
]
# The first average no models, the last those of clients who are away too.
OTHERS = (m.Mocha(coefficient=100), m.PFedHN(), m.FedFomo(n=3, keeps=True))
WEIGHING = [method for method in ALL if method not in OTHERS]
# A draw goes by a client's number.  Where the order must not matter FedFomo sends all four models;
# which examples are shared, and pFedHN's embeddings, are always drawn.
WITHOUT_DRAWS = [
    m.FedFomo(n=4) if method.name == "fedfomo" else method
    for method in ALL
    if method.name not in ("fedavg_data", "pfedhn")
]
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


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_a_round_leaves_the_state_it_is_given_which_is_all_that_is_needed_to_go_on(small, method):
    """Each round once more in a fresh federation, from a copy of the state."""
    fed = small(clients=3, **MOVING)
    state = method.start(fed)
    for r in (1, 2, 3):
        before = copy.deepcopy(state)
        after, _ = method.round(fed, state, r)
        assert same(state, before)
        for other in (fed, small(clients=3, **MOVING)):
            assert same(method.round(other, before, r)[0], after)
        state = after


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
        if method.name == "weight_erosion":  # the paper's alpha, before it is normalised
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
    """Batches are taken in a fixed order, which no client number enters."""
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


# Mocha pulls to all
@pytest.mark.parametrize(
    "method", [of for of in ALL if of.name not in ("waffle", "weight_erosion", "mocha")], ids=repr
)
def test_alice_is_served_the_same_where_others_are_read(small, play, alices_model, method):
    alone, together = small(alice=2), small(alice=None)
    for (one, _), (all_, _) in zip(play(method, alone), play(method, together), strict=True):
        ours, theirs = alices_model(method, alone, one), alices_model(method, together, all_, 2)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


class Centred(nn.Module):
    """Its inputs' mean and spread are constants, kept in buffers as is usual."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((4,), 0.3))
        self.register_buffer("spread", torch.full((4,), 2.0))
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer((x - self.mean) / self.spread)


@pytest.mark.parametrize(
    "method", [m.PerFedAvg(), m.PerFedAvg(hessian="differences"), m.Scaffold("I")], ids=repr
)
def test_constants_in_buffers_count_in_every_gradient_whatever_the_engine(method, play):
    data, found = drawn(3), []
    settings = {"device": "cpu", "dtype": torch.float64}
    for engine in ("loop", "vmap"):
        schedule = Schedule(2, batch_size=4)
        fed = Federation.from_arrays(data, data, Centred, schedule, engine=engine, **settings)
        found.append(method.served(fed, play(method, fed)[-1][0])["theta"])
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)
    assert found[0].isfinite().all()


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        *((m.Local(), 5), (m.Ditto(), 15), (m.FineTuned(3), 11.5), (m.APFL(), 15)),
        *((m.APFL(averaged="mixtures"), 20), (m.Scaffold(), 10), (m.Scaffold("I"), 11)),
        *((m.Waffle(option="I"), 11), (m.PFedMe(steps=3), 30), (m.PerFedAvg(), 20.5)),
        *((m.PerFedAvg(hessian="differences", adapt=False), 40), (m.FedAvgData(0.1), 24)),
        *((m.FedAvgData(0.1, pool="client"), 11), (m.FedRep(body_epochs=3), 10)),
        (m.FedRep(()), 10),
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
    assert type(method) is METHODS[name] and type(method).__dataclass_params__.frozen
    assert method.name == name and method.title and method.version >= 1
    (state, _) = play(method, fed)[-1]
    before, after = (
        fed.evaluate(one, "train", [0])[0].item()
        for one in (fed.initial(), alices_model(method, fed, state))
    )
    assert after < before
