"""Hyper-parameters that make no sense are refused in one line, which names them."""

import math

import pytest

from pfl_lib import BadInput
from pfl_lib.methods import (
    APFL,
    CFL,
    Ditto,
    FedAvg,
    FedAvgData,
    FedBN,
    FedFomo,
    FedProx,
    FedRep,
    FineTuned,
    LGFedAvg,
    Mocha,
    PerFedAvg,
    PFedHN,
    PFedLA,
    PFedMe,
    Scaffold,
    Similarity,
    Waffle,
    WeightErosion,
)

PENALTY, NUMBER = "give a penalty of 0 or more", "give a number 0 or more"
FLAG, COUNT = "give True or False", "give a whole number, 1 or more"
MIXTURE = "give a mixture from 0 (shared model) to 1 (own model)"
BAD = [
    *((APFL, "alpha", value, MIXTURE) for value in (-0.1, 1.1, math.nan, "x", True)),
    *((APFL, "adaptive", value, FLAG) for value in ("false", 1, None)),
    (APFL, "mixture_step", "epoch", "not one of first batch, every batch, round"),
    (APFL, "own_start", "both", "not one of shared, random"),
    (APFL, "averaged", "both", "not one of shared, mixtures"),
    (APFL, "own_gradient", "both", "not one of mixture, outputs"),
    (CFL, "epsilon_1", -1, NUMBER),
    (CFL, "start_round", 0, COUNT),
    (CFL, "relative", 1, FLAG),
    *(
        (Ditto, "strength", v, "give lambda, 0 or more")
        for v in (-0.1, math.inf, math.nan, "x", True)
    ),
    *(
        (one, "weighting", "sizes", "not one of size, uniform: did you mean size?")
        for one in (FedAvg, FedBN, FedRep, LGFedAvg, FedProx, Ditto, FineTuned, FedAvgData)
    ),
    (FedAvgData, "share", 1.5, "give a share from 0 to 1"),
    (FedAvgData, "pool", "own", "not one of all, client"),
    (FedFomo, "n", 0, COUNT),
    (FedFomo, "epsilon", 1.5, "give a chance from 0 to 1"),
    (FedFomo, "decay", -1, NUMBER),
    (FedFomo, "norm", "max", "not one of l2, l1"),
    (FedFomo, "affinity", "none", "not one of signed, normalised"),
    (FedFomo, "counts_own", 1, FLAG),
    *(
        (FedProx, "mu", value, "give a factor of 0 or more")
        for value in (-1.0, math.inf, math.nan, "0")
    ),
    *((FineTuned, "epochs", v, "give a whole number, 0 or more") for v in (-1, 0.5, True, "1")),
    (Mocha, "coefficient", -1, NUMBER),
    (PerFedAvg, "alpha", -1, "give a step of 0 or more"),
    (PerFedAvg, "hessian", "exact", "not one of none, differences"),
    (PerFedAvg, "delta", 0, "give a number above 0"),
    (PerFedAvg, "adapt", 1, FLAG),
    (PFedHN, "step", -0.1, "give a step of 0 or more"),
    (PFedHN, "momentum", 1.0, "give a number from 0 to below 1"),
    (PFedHN, "weight_decay", math.nan, NUMBER),
    (PFedHN, "clip", 0.0, "give a number above 0"),
    (PFedHN, "embedding", 0, COUNT),
    (PFedHN, "hidden", (0,), COUNT),
    *((PFedLA, "retained", value, "give a whole number, 0 or more") for value in (-1, "fc1")),
    (PFedLA, "retained", ("fc1", "fc1"), "name each layer once"),
    *((PFedLA, "step", value, "give a step of 0 or more") for value in (-1.0, math.nan)),
    (PFedLA, "scale", "mean", "not one of absolute, relative"),
    *((PFedLA, "embedding", value, COUNT) for value in (0, None)),
    (PFedLA, "hidden", 100, "give a tuple of sizes, such as (100, 100, 100)"),
    (PFedLA, "hidden", (100, 0), COUNT),
    (PFedMe, "lam", -1, NUMBER),
    (PFedMe, "steps", 0, COUNT),
    (PFedMe, "eta", 0, "give a step above 0"),
    (PFedMe, "beta", 0, "give a number above 0"),
    (PFedMe, "restart", 1, FLAG),
    *((one, "option", "III", "not one of I, II: did you mean II?") for one in (Scaffold, Waffle)),
    *((one, "option", 2, "not one of I, II") for one in (Scaffold, Waffle)),
    *(
        (one, "clip", v, "give a norm above 0, or None")
        for one in (Scaffold, Waffle)
        for v in (0, "1")
    ),
    (Similarity, "by", "tensor", "not one of layer, model"),
    (Similarity, "entropy", 1.5, "give a share from 0 to 1"),
    *((Waffle, "slope", value, "give a number 0 or more, as 3.2") for value in (math.inf, "steep")),
    (Waffle, "control", "sum", "not one of mean, literal"),
    (Waffle, "transition", "flat", "not one of sigmoid, linear, step"),
    (Waffle, "psi", "slow", "not one of same, sigmoid, linear, step"),
    (Waffle, "shift", math.nan, "give a share of the rounds, such as 0.1"),
    *((WeightErosion, "p_d", value, PENALTY) for value in (-0.1, "0.1", math.nan)),
    *(
        (WeightErosion, "p_s", v, "give a finite penalty of 0 or more")
        for v in (math.nan, math.inf)
    ),
    (WeightErosion, "counting", "now", "not one of before, after, batches"),
    (WeightErosion, "newcomer", "one", "not one of mean, median"),
]


@pytest.mark.parametrize(("method", "name", "value", "allowed"), BAD)
def test_a_setting_that_makes_no_sense_is_refused_in_one_line(method, name, value, allowed):
    with pytest.raises(BadInput) as refused:
        method(**{name: value})
    told = str(refused.value)
    named = (
        "a hidden layer's size 0" if allowed == COUNT and name == "hidden" else f"{name} {value!r}"
    )
    assert told.startswith(named) and told.endswith(allowed) and "\n" not in told


@pytest.mark.parametrize("method", [Waffle, WeightErosion])
def test_one_clients_model_needs_that_client(small, method):
    with pytest.raises(BadInput) as refused:
        method().start(small(alice=None))
    said = f"{method.title} makes one client's model: give alice=0, or another client's number, or"
    assert str(refused.value).startswith(said)
