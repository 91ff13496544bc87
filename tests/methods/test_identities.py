"""What methods are at the ends of their settings: another method, bit for bit or to rounding."""

import pytest
import torch
from torch import nn

from pfl_lib.methods import (
    APFL,
    CFL,
    Ditto,
    FedAvg,
    FedAvgData,
    FedFomo,
    FedProx,
    FedRep,
    FineTuned,
    LGFedAvg,
    Local,
    Mocha,
    PFedLA,
    Scaffold,
    Similarity,
    Waffle,
    WeightErosion,
)
from pfl_lib.methods.waffle import TRANSITIONS


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


ALL_LAYERS = ("0", "1", "3")
EVEN, ALICE, ONE = FedAvg("uniform"), {"alice": 2}, {"clients": 1, "alice": 0}
BIT_FOR_BIT = [
    *((method, Local(), {}) for method in (Ditto(0.0), Mocha(0), LGFedAvg(ALL_LAYERS))),
    *((PFedLA(ALL_LAYERS), Local(), given) for given in ({}, ALICE)),
    *((Similarity(by, entropy=0), Local(), {}) for by in ("layer", "model")),
    *((WeightErosion(p_d), Local(), ALICE) for p_d in (1e9, float("inf"))),
    *((APFL(1.0, adaptive=False), Local(), given) for given in ({}, ALICE)),
    (APFL(1.0, adaptive=False, averaged="mixtures"), Local(), {}),
    *((method, Local(), ONE) for method in (Scaffold("I"), Scaffold("II"), WeightErosion())),
    (Waffle(), Local(), ONE),
    *((APFL(0.0, adaptive=False), EVEN, given) for given in ({}, ALICE)),
    (APFL(0.0, adaptive=False, averaged="mixtures"), EVEN, {}),
    (WeightErosion(p_d=0.0), EVEN, ALICE),
    (CFL(), EVEN, {}),  # no split before round 5
    (FedAvg(), EVEN, {"repeat": True}),
    *(
        (method, FedAvg(weighting), {})
        for weighting in ("size", "uniform")
        for method in (
            FedProx(0.0, weighting),
            FineTuned(0, weighting),
            LGFedAvg((), weighting),
            FedRep((), weighting=weighting),
            FedAvgData(0, weighting, "all"),
            FedAvgData(0, weighting, "client"),
        )
    ),
    (FedRep(()), FedAvg(), {"local_batches": 3}),
    *((Scaffold(option, clip=1e6), Scaffold(option), {}) for option in ("I", "II")),
    *((Waffle(transition=one, psi=one), Waffle(transition=one), ALICE) for one in TRANSITIONS),
    (PFedLA(retained=()), PFedLA(), {}),
    (APFL(mixture_step="every batch"), APFL(), {"batch_size": 9}),
    *(
        (APFL(0.75, adaptive=False, mixture_step=one), APFL(0.75, adaptive=False), {})
        for one in ("every batch", "round")
    ),
    (FedFomo(2, counts_own=False), FedFomo(3), {}),
    (FedFomo(4, epsilon=0), FedFomo(4, epsilon=1, decay=0), {}),  # all four are sent
]
TO_ROUNDING = [
    (PFedLA(step=0.0), EVEN, {}),
    *((Similarity(by, entropy=1), EVEN, {}) for by in ("layer", "model")),
    (Scaffold("I"), Scaffold("II"), {"batch_size": 9}),
    (Waffle(option="I"), Waffle(option="II"), {"batch_size": 9, **ALICE}),
]
SETTINGS = {
    "plain": {},
    "momentum": {"momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.9},
    "some": {"participation": 0.5},
}


def differences(small, play, method, other, given: dict) -> list:
    """Of the models that each client whose model is read is served, round by round."""
    fed = small(**{"alice": None, "batch_size": 3, "model": normed, **given})
    found = []
    for (mine, _), (theirs, _) in zip(play(method, fed), play(other, fed), strict=True):
        served = (one.served(fed, state) for one, state in ((method, mine), (other, theirs)))
        ours, wanted = (
            {name: row.expand(len(fed), -1)[fed.evaluated_clients] for name, row in of.items()}
            for of in served
        )
        found += [(ours[name] - wanted[name]).abs().max().item() for name in wanted]
    assert (wanted["theta"] != fed.initial()["theta"]).any(), "nobody learns"
    return found


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("method", "other", "given"), BIT_FOR_BIT, ids=repr)
def test_the_end_of_one_method_is_another_bit_for_bit(small, play, method, other, given, setting):
    given = {"dtype": torch.float32, **given, **SETTINGS[setting]}
    assert max(differences(small, play, method, other, given)) == 0


@pytest.mark.parametrize("setting", ["plain", "momentum"])
@pytest.mark.parametrize(("method", "other", "given"), TO_ROUNDING, ids=repr)
def test_the_end_of_one_method_is_another_to_rounding(small, play, method, other, given, setting):
    assert max(differences(small, play, method, other, given | SETTINGS[setting])) < 1e-12
