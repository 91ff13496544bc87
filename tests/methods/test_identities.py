"""What methods are at the ends of their settings: another method, bit for bit or to rounding."""

import functools

import pytest
import torch
from torch import nn

from pfl_lib import methods as m
from pfl_lib.methods.waffle import TRANSITIONS
from tests.methods.conftest import normed

ALL_LAYERS = ("0", "1", "3")
EVEN, ALICE, ONE = m.FedAvg("uniform"), {"alice": 2}, {"clients": 1, "alice": 0}
ONE_LAYER = {"model": functools.partial(nn.Linear, 4, 3)}
BIT_FOR_BIT = [
    *((method, m.Local(), {}) for method in (m.Ditto(0.0), m.Mocha(0), m.LGFedAvg(ALL_LAYERS))),
    *((m.PFedLA(ALL_LAYERS), m.Local(), given) for given in ({}, ALICE)),
    *((m.Similarity(by, entropy=0), m.Local(), {}) for by in ("layer", "model")),
    *((m.WeightErosion(p_d), m.Local(), ALICE) for p_d in (1e9, float("inf"))),
    *((m.APFL(1.0, adaptive=False), m.Local(), given) for given in ({}, ALICE)),
    (m.APFL(1.0, adaptive=False, averaged="mixtures"), m.Local(), {}),
    *(
        (method, m.Local(), ONE)
        for method in (m.Scaffold("I"), m.Scaffold("II"), m.WeightErosion())
    ),
    (m.Waffle(), m.Local(), ONE),
    *((m.APFL(0.0, adaptive=False), EVEN, given) for given in ({}, ALICE)),
    (m.APFL(0.0, adaptive=False, averaged="mixtures"), EVEN, {}),
    (m.WeightErosion(p_d=0.0), EVEN, ALICE),
    (m.CFL(), EVEN, {}),  # no split before round 5
    (m.FedAvg(), EVEN, {"repeat": True}),
    *(
        (method, m.FedAvg(weighting), {})
        for weighting in ("size", "uniform")
        for method in (
            m.FedProx(0.0, weighting),
            m.FineTuned(0, weighting),
            m.LGFedAvg((), weighting),
            m.FedRep((), weighting=weighting),
            m.FedAvgData(0, weighting, "all"),
            m.FedAvgData(0, weighting, "client"),
        )
    ),
    (m.FedRep(()), m.FedAvg(), {"local_batches": 3}),
    *((m.Scaffold(option, clip=1e6), m.Scaffold(option), {}) for option in ("I", "II")),
    *((m.Waffle(transition=one, psi=one), m.Waffle(transition=one), ALICE) for one in TRANSITIONS),
    (m.PFedLA(retained=()), m.PFedLA(), {}),
    (m.Similarity("layer"), m.Similarity("model"), ONE_LAYER),
    (m.APFL(mixture_step="every batch"), m.APFL(), {"batch_size": 9}),
    *(
        (m.APFL(0.75, adaptive=False, mixture_step=one), m.APFL(0.75, adaptive=False), {})
        for one in ("every batch", "round")
    ),
    (m.FedFomo(2, counts_own=False), m.FedFomo(3), {}),
    (m.FedFomo(3, keeps=True), m.FedFomo(3), {"participation": 1.0}),
    (m.FedFomo(4, epsilon=0), m.FedFomo(4, epsilon=1, decay=0), {}),  # all four are sent
]
TO_ROUNDING = [
    (m.PFedLA(step=0.0), EVEN, {}),
    *((m.Similarity(by, entropy=1), EVEN, {}) for by in ("layer", "model")),
    *(  # the two halves' mean gradient is the batch's
        (m.PerFedAvg(alpha=0, hessian=hessian), EVEN, {"batch_size": 5, **ONE_LAYER})
        for hessian in ("none", "differences")
    ),
    (m.Scaffold("I"), m.Scaffold("II"), {"batch_size": 9}),
    (m.Waffle(option="I"), m.Waffle(option="II"), {"batch_size": 9, **ALICE}),
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
        found += [(ours[n] - wanted[n]).abs().max().item() for n in wanted if len(wanted[n][0])]
    assert (wanted["theta"] != fed.initial()["theta"]).any(), "nobody learns"
    return found


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("method", "other", "given"), BIT_FOR_BIT, ids=repr)
def test_the_end_of_one_method_is_another_bit_for_bit(small, play, method, other, given, setting):
    given = {"dtype": torch.float32, **SETTINGS[setting], **given}
    assert max(differences(small, play, method, other, given)) == 0


@pytest.mark.parametrize("setting", ["plain", "momentum"])
@pytest.mark.parametrize(("method", "other", "given"), TO_ROUNDING, ids=repr)
def test_the_end_of_one_method_is_another_to_rounding(small, play, method, other, given, setting):
    assert max(differences(small, play, method, other, given | SETTINGS[setting])) < 1e-12
