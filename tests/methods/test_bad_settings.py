"""Hyper-parameters that make no sense are refused in one line, which names them."""

import math
from dataclasses import make_dataclass

import pytest

from pfl_lib import methods as m
from tests.common import refusal, refused
from tests.methods.conftest import normed

NUMBER, SIZE = "give a number 0 or more", "not one of size, uniform"
FLAG, COUNT = "give True or False", "give a whole number, 1 or more"
LAYERS, ONCE = 'give a tuple of layers\' names, such as ("fc3",)', "name each layer once"
MIXTURE = "give a mixture from 0 (shared model) to 1 (own model)"
WEIGHING = m.FedAvg, m.FedBN, m.FedRep, m.LGFedAvg, m.FedProx, m.Ditto, m.FineTuned, m.FedAvgData
TABLE = [
    (m.APFL, "alpha", [-0.1, 1.1, math.nan, "x", True], MIXTURE),
    (m.APFL, "adaptive", ["false", 1, None], FLAG),
    (m.APFL, "mixture_step", ["epoch"], "not one of first batch, every batch, round"),
    (m.APFL, "own_start", ["both"], "not one of shared, random"),
    (m.APFL, "averaged", ["both"], "not one of shared, mixtures"),
    (m.APFL, "own_gradient", ["both"], "not one of mixture, outputs"),
    (m.CFL, "epsilon_1", [-1], NUMBER),
    (m.CFL, "start_round", [0], COUNT),
    (m.CFL, "relative", [1], FLAG),
    (m.Ditto, "strength", [-0.1, math.inf, math.nan, "x", True], NUMBER),
    (m.FedAvgData, "share", [1.5], "give a share from 0 to 1"),
    (m.FedAvgData, "pool", ["own"], "not one of all, client"),
    (m.FedFomo, "n", [0], COUNT),
    (m.FedFomo, "epsilon", [1.5], "give a share from 0 to 1"),
    (m.FedFomo, "decay", [-1], "give a share from 0 to 1"),
    (m.FedFomo, "norm", ["max"], "not one of l2, l1"),
    (m.FedFomo, "affinity", ["none"], "not one of signed, normalised"),
    (m.FedFomo, "counts_own", [1], FLAG),
    (m.FedFomo, "keeps", [1], FLAG),
    (m.FedProx, "mu", [-1.0, math.inf, math.nan, "0"], NUMBER),
    (m.FedRep, "head", ["fc3", (1,)], LAYERS),
    (m.FedRep, "head", [("0", "0")], ONCE),
    (m.FineTuned, "epochs", [-1, 0.5, True, "1"], "give a whole number, 0 or more"),
    (m.LGFedAvg, "local", ["fc3", (1,)], LAYERS),
    (m.LGFedAvg, "local", [("0", "0")], ONCE),
    (m.Mocha, "coefficient", [-1], NUMBER),
    (m.PerFedAvg, "alpha", [-1], "give a step of 0 or more"),
    (m.PerFedAvg, "hessian", ["exact"], "not one of none, differences"),
    (m.PerFedAvg, "delta", [0], "give a number above 0"),
    (m.PerFedAvg, "adapt", [1], FLAG),
    (m.PFedHN, "step", [-0.1], "give a step of 0 or more"),
    (m.PFedHN, "momentum", [1.0], "give a number from 0 to below 1"),
    (m.PFedHN, "weight_decay", [math.nan], NUMBER),
    (m.PFedHN, "clip", [0.0], "give a number above 0"),
    (m.PFedHN, "embedding", [0], COUNT),
    (m.PFedHN, "hidden", [(0,)], COUNT),
    (m.PFedLA, "retained", [-1, "fc1"], "give a whole number, 0 or more"),
    (m.PFedLA, "retained", [("fc1", "fc1")], ONCE),
    (m.PFedLA, "step", [-1.0, math.nan], "give a step of 0 or more"),
    (m.PFedLA, "scale", ["mean"], "not one of absolute, relative"),
    (m.PFedLA, "embedding", [0, None], COUNT),
    (m.PFedLA, "hidden", [100], "give a tuple of sizes, such as (100, 100, 100)"),
    (m.PFedLA, "hidden", [(100, 0)], COUNT),
    (m.PFedMe, "lam", [-1], NUMBER),
    (m.PFedMe, "steps", [0], COUNT),
    (m.PFedMe, "eta", [0], "give a number above 0"),
    (m.PFedMe, "beta", [0], "give a number above 0"),
    (m.PFedMe, "restart", [1], FLAG),
    (m.Similarity, "by", ["tensor"], "not one of layer, model"),
    (m.Similarity, "entropy", [1.5], "give a share from 0 to 1"),
    (m.Waffle, "slope", [-1, math.inf, "steep"], "give a number 0 or more, as 3.2"),
    (m.Waffle, "control", ["sum"], "not one of mean, literal"),
    (m.Waffle, "transition", ["flat"], "not one of sigmoid, linear, step"),
    (m.Waffle, "psi", ["slow"], "not one of same, sigmoid, linear, step"),
    (m.Waffle, "shift", [math.nan], "give a share of the rounds, such as 0.1"),
    (m.WeightErosion, "p_d", [-0.1, "0.1", math.nan], "give a penalty of 0 or more"),
    (m.WeightErosion, "p_s", [math.nan, math.inf], NUMBER),
    (m.WeightErosion, "counting", ["now"], "not one of before, after, batches"),
    (m.WeightErosion, "newcomer", ["one"], "not one of mean, median"),
]
TABLE += [(one, "weighting", ["sizes"], f"(did you mean size?) is {SIZE}") for one in WEIGHING]
for one in (m.Scaffold, m.Waffle):
    TABLE += [(one, "option", ["III"], "(did you mean II?) is not one of I, II")]
    TABLE += [(one, "option", [2], "not one of I, II")]
    TABLE += [(one, "clip", [0, "1"], "give a norm above 0, or None")]
BAD = [(one, name, value, told) for one, name, values, told in TABLE for value in values]


@pytest.mark.parametrize(("method", "name", "value", "allowed"), BAD)
def test_a_setting_that_makes_no_sense_is_refused_in_one_line(method, name, value, allowed):
    told, size = refusal(method, **{name: value}), allowed == COUNT and name == "hidden"
    named = "a hidden layer's size 0" if size else f"{name} {value!r}"
    assert told.startswith(named) and told.endswith(allowed)


OUTPUTS = m.APFL(mixture_step="round", averaged="mixtures", own_gradient="outputs")
NORMED, NOBODY = {"model": normed, "batch_size": 3}, {"alice": None}
HEAD = "^body_epochs 3: of 3 local epochs the head gets one at "
HERS = "give alice=0, or another client's number"
TOO_MANY = "^retained 3: the network has 2 layers that are not norms; give 2 or less$"
NAME = lambda of: getattr(of, "name", None)  # noqa: E731
UNFIT = [
    (OUTPUTS, NORMED, "^own_gradient 'outputs' measures no running statistics"),
    (m.FedAvgData(0.01), {}, "^share 0.01 of all 25 training examples is no whole"),
    (m.FedAvgData(pool="client"), {}, "^share 0.05 of 6.25 training examples a client is no"),
    (m.FedBN(), {}, "^FedBN keeps the norms of a network with its clients, and"),
    (m.FedFomo(), {}, "^n 5: there are 4 clients, so give .* from 1 to 4, as FedFomo"),
    (
        m.FedFomo(4, counts_own=False),
        {},
        "^n 4: there are 4 clients, so give .* from 1 to 3, as FedFomo",
    ),
    (m.FedFomoMA(), {"clients": 1}, "leaves one model out of an average: give two clients"),
    (m.FedRep(), {"local_batches": 3}, "^local_batches 3: FedRep divides local epochs between"),
    (m.FedRep(body_epochs=3), {"local_epochs": 3}, HEAD),
    *(
        (one, {}, "^layer 'fc3' is not one of 0, 2$")
        for one in (m.FedRep(head=("fc3",)), m.LGFedAvg(local=("fc3",)), m.PFedLA(("fc3",)))
    ),
    *((m.PFedLA(retained=3), given, TOO_MANY) for given in ({}, NORMED)),
    (m.PFedMe(lam=10), {}, "lr 0.3 times lam 10 is 3, .* give a smaller lr or lam"),
    (m.PFedMe(lam=5, eta=0.5), {}, "eta 0.5 times lam 5 is 2.5, .* give a smaller eta or lam"),
    *(
        (one, NOBODY, f"^{one.title} makes one client's model: {HERS}")
        for one in (m.Waffle(), m.WeightErosion())
    ),
]


@pytest.mark.parametrize(("method", "given", "words"), UNFIT, ids=NAME)
def test_a_federation_that_does_not_fit_is_refused_in_one_line(small, method, given, words):
    refused(words, method.start, small(**given))


def test_a_setting_is_checked_where_a_child_gives_it_another_default():
    Weaker = make_dataclass("Weaker", [("mu", float, 0.01)], bases=(m.FedProx,), frozen=True)
    refused("mu -1: give a number 0 or more", Weaker, mu=-1)
    refused("weighting 'unifrom' .*", Weaker, weighting="unifrom")
