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

PENALTY, FLAG, NUMBER = "give a penalty of 0 or more", "give True or False", "give a number 0 or more"
MIXTURE = "give a mixture from 0 (shared model) to 1 (own model)"
BAD = [
    *((APFL, "alpha", value, MIXTURE) for value in (-0.1, 1.1, math.nan, "x", True)),
    *((APFL, "adaptive", value, FLAG) for value in ("false", 1, None)),
    (APFL, "mixture_step", "epoch", "not one of first batch, every batch, round"),
    (APFL, "own_start", "both", "not one of shared, random"),
    (APFL, "averaged", "both", "not one of shared, mixtures"),
    (APFL, "own_gradient", "both", "not one of mixture, outputs"),
    (CFL, "epsilon_1", -1, NUMBER),
    (CFL, "start_round", 0, "give a whole number, 1 or more"),
    (CFL, "relative", 1, FLAG),
    *((Ditto, "strength", v, "give lambda, 0 or more") for v in (-0.1, math.inf, math.nan, "x", True)),
    *((one, "weighting", "sizes", "not one of size, uniform: did you mean size?")
      for one in (FedAvg, FedBN, FedRep, LGFedAvg, FedProx, Ditto, FineTuned, FedAvgData)),
    (FedAvgData, "share", 1.5, "give a share from 0 to 1"),
    (FedAvgData, "pool", "own", "not one of all, client"),
    (FedFomo, "n", 0, "give a whole number, 1 or more"),
    (FedFomo, "epsilon", 1.5, "give a chance from 0 to 1"),
    (FedFomo, "decay", -1, NUMBER),
    (FedFomo, "norm", "max", "not one of l2, l1"),
    (FedFomo, "affinity", "none", "not one of signed, normalised"),
    (FedFomo, "counts_own", 1, FLAG),
    *((FedProx, "mu", value, "give a factor of 0 or more") for value in (-1.0, math.inf, math.nan, "0")),
    *((FineTuned, "epochs", v, "give a whole number, 0 or more") for v in (-1, 0.5, True, "1")),
    (Mocha, "coefficient", -1, NUMBER),
    (PerFedAvg, "alpha", -1, "give a step of 0 or more"),
    (PerFedAvg, "hessian", "exact", "not one of none, differences"),
    (PerFedAvg, "delta", 0, "give a number above 0"),
    (PerFedAvg, "adapt", 1, FLAG),
]
