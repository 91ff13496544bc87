"""Every method against `reference.py`, slow and plain: three rounds in float64."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from pfl_lib import Federation, Schedule
from pfl_lib import methods as m
from pfl_lib.methods import METHODS
from tests.methods import reference
from tests.methods.conftest import normed

CASES = [
    *(m.Local(), m.FedAvg(), m.FineTuned(), m.FedProx(mu=0.5), m.FedAvgData(share=0.1)),
    *(m.FedAvgData(share=0.5, pool="client"), m.BrokenGlobal(), m.Scaffold(), m.Scaffold("I")),
    *(m.Waffle(), m.Waffle(control="literal"), m.WeightErosion(p_d=0.1, p_s=0.5), m.Ditto(0.5)),
    *(m.APFL(0.3), m.APFL(mixture_step="every batch")),
    *(m.APFL(mixture_step="round"), m.APFL(mixture_step="round", averaged="mixtures")),
    *(m.PFedMe(lam=4, steps=3, eta=0.1, beta=0.7), m.PFedMe(lam=4, steps=3, restart=True)),
    m.PerFedAvg(alpha=0.02),
    *(m.PerFedAvg(alpha=0.02, hessian="differences", delta=1e-6), m.Mocha(coefficient=100)),
    *(m.CFL(epsilon_1=0.95, epsilon_2=0.1, start_round=2), m.FedBN(), m.LGFedAvg(local=("0",))),
    *(m.FedRep(head=("3",)), m.FedFomo(n=3), m.FedFomoMA(), m.PFedLA(step=50, hidden=(7, 5))),
    *(m.PFedLA(retained=1, scale="relative", hidden=()), m.PFedHN(hidden=(7, 5))),
    *(m.PFedHN(clip=0.05, embedding=2, hidden=()), m.Similarity(), m.Similarity(by="model")),
]
SETTINGS = {
    "all clients": {"local_epochs": 2, "momentum": 0.5, "weight_decay": 0.01, "lr_decay": 0.9},
    "some clients": {"participation": 0.5},
}


def federation(module: nn.Module, alice: int | None, setting: str, engine: str) -> Federation:
    random, data, held = torch.Generator().manual_seed(0), [], []
    for size in (6, 8, 11, 7, 10, 12):
        centre = torch.randn(4, generator=random, dtype=torch.float64)
        for of, n in ((data, size), (held, 5)):
            x = torch.randn(n, 4, generator=random, dtype=torch.float64) + centre
            of.append((x, torch.randint(3, (n,), generator=random)))
    schedule = Schedule(3, batch_size=4, lr=0.2, **SETTINGS[setting])
    own = {"validation": held, "alice": alice, "engine": engine, "dtype": torch.float64}
    return Federation.from_arrays(data, data, deepcopy(module), schedule, device="cpu", **own)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", CASES, ids=repr)
def test_three_rounds_are_those_of_the_slow_reference_on_both_engines(method, setting):
    torch.manual_seed(0)
    # BatchNorm trains on no batch of one, which shared examples may leave.
    linear = method.name in ("broken_global", "fedavg_data")
    module = (nn.Linear(4, 3) if linear else normed()).double()
    alice = 1 if method.name in ("waffle", "weight_erosion", "broken_global") else None
    loop, vmap = (federation(module, alice, setting, engine) for engine in ("loop", "vmap"))
    start = method.start(loop)
    drawn = [start[name] for name in ("hypernetworks", "hypernetwork") if name in start]
    expected = getattr(reference, method.name)(reference.World(loop, module), method, *drawn)
    expected = [next(expected) for _ in range(3)]
    # The Hessian is taken from differences of gradients, and exactly in the reference.
    close = 1e-6 if getattr(method, "hessian", "none") == "differences" else 1e-10
    for fed in (loop, vmap):
        state = method.start(fed)
        for r, models in enumerate(expected, start=1):
            state, _ = method.round(fed, state, r)
            served = {name: row.expand(6, -1) for name, row in method.served(fed, state).items()}
            for i, model in enumerate(models):
                found = fed.layout.named(*(served[name][i] for name in ("theta", "statistics")))
                slow = {name: value for name, value in model.state_dict().items() if name in found}
                torch.testing.assert_close(found, slow, rtol=close, atol=close)


def test_every_method_has_a_reference():
    assert {method.name for method in CASES} == METHODS.keys()
