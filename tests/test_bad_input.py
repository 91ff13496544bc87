"""What a user may get wrong is told in one line, before anything is trained."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import pfl_lib
from pfl_lib import DPSGD, Federation, Schedule, progress
from pfl_lib.federation.from_csv import from_csv
from pfl_lib.methods import FedRep, FineTuned, LGFedAvg, Mocha, PFedHN, PFedLA, Waffle
from pfl_lib.papers.waffle import TABLE1
from pfl_lib.partitions import ByColumn, Classes, Latent
from tests.common import refusal, refused

X, Y = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1])
PLAIN = Schedule(1, batch_size=4)
PRIVATE = Schedule(1, batch_size=4, private=DPSGD(1, 1))
FAST = Schedule(1, batch_size=4, lr=2.0, momentum=0.5, weight_decay=1.0)


def federation(
    first=(X, Y), model=lambda: nn.Linear(3, 2), schedule=PLAIN, **settings
) -> Federation:
    test = [(X, Y)] * 2
    return Federation.from_arrays([first, (X, Y)], test, model, schedule, device="cpu", **settings)


def two():
    return {name: row.expand(2, -1) for name, row in federation().initial().items()}


def run(**settings):
    common = {"dataset": "digits", "model": "linear", "rounds": 1}
    return pfl_lib.run("fedavg", **common | settings)


class Summed(nn.Linear):
    def forward(self, x):
        return super().forward(x).sum(0, keepdim=True)


class Branching(nn.Linear):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


HUGE = 10**30
LARGE = [("clients", 10**9), ("local_batches", 10**7)]
LARGE += [(name, HUGE) for name in ("batch_size", "clients", "seed", "seeds", "rounds")]
CALLS = {
    "no training data": (
        lambda: Federation.from_arrays(None, [(X, Y)], nn.Linear(3, 2), Schedule(1)),
        "train is NoneType: give a list with a pair",
    ),
    "a pair of one": (lambda: federation((X,)), "client 0's train split is no pair"),
    "a third part": (lambda: federation((X, Y, Y)), "client 0's train split is no pair"),
    "one number": (lambda: federation((torch.tensor(1.0), Y)), "a single number for inputs"),
    "sparse": (lambda: federation((X.to_sparse(), Y)), "give plain real numbers"),
    "meta": (lambda: federation((X.to("meta"), Y)), "give plain real numbers"),
    "complex": (lambda: federation((X.to(torch.complex64), Y)), "give plain real numbers"),
    "masked": (lambda: federation((np.ma.masked_array(X.numpy()), Y)), "fill or drop what is"),
    **{
        f"threads {threads!r}": (lambda threads=threads: federation(threads=threads), "threads ")
        for threads in (None, 0, -1, False, HUGE)
    },
    "lazy": (lambda: federation(model=lambda: nn.Sequential(nn.LazyLinear(2))), "a lazy layer"),
    "summed": (lambda: federation(model=lambda: Summed(3, 2)), "of shape (1, 2) for a batch of 4"),
    "lr": (lambda: run(lr=1e308), "lr 1e+308: give a number above 0, of 1e+15 at most"),
    "decay": (lambda: run(weight_decay=HUGE), "a number 0 or more, of 1e+15 at most"),
    **{
        f"{name} {value:.0e}": (lambda given={name: value}: run(**given), f"{name} {value}")
        for name, value in LARGE
    },
    "data_dir": (lambda: run(dataset="mnist", data_dir=3), "data_dir 3: give the path"),
    "no vmap": (lambda: federation(model=Branching(3, 2), engine="vmap"), "or give engine='loop'"),
    "no vmap in privacy": (
        lambda: federation(model=Branching(3, 2), schedule=PRIVATE),
        "DP-SGD takes each example's gradient, which torch.func.vmap cannot do for this network (",
    ),
    "a list of classes": (lambda: Classes(2, leave_out=[9]), "[9]: give a tuple of classes"),
    "class -1": (lambda: Classes(2, leave_out=(-1,)), "a class to leave out -1: give a whole num"),
    "a class left out twice": (lambda: Classes(2, leave_out=(9, 9)), "(9, 9): give each class on"),
    "pFedMe with momentum": (
        lambda: pfl_lib.run("pfedme", federation=federation(schedule=FAST)),
        "pFedMe diverges from 3 on",
    ),
    "results_dir": (lambda: run(results_dir="\0"), "results_dir '\\x00': give the path"),
    "no results_dir": (lambda: run(results_dir=3), "results_dir 3: give the path of a file or"),
    "with_model": (lambda: run(with_model="no"), "with_model 'no': give True or False"),
    "another's name": (lambda: run(learning_rate=0.1), "'learning_rate': did you mean lr?"),
    "a family": (lambda: run(partition="dirichlet"), "did you mean pfl_lib.partitions.Dirichlet()"),
    "a module": (lambda: run(model=nn.Linear(64, 10)), "make a pfl_lib.Federation and give"),
    "names in arrays": (lambda: run(dataset=np.array(["digits"])), "dataset array(['digits']"),
    "labels of one number": (lambda: federation((X, torch.tensor(1))), "or labels: give one"),
    "a frame": (lambda: run(weight_decay=pd.DataFrame({"a": [1]})), "a 0  1: give a number 0 or"),
    "epochs": (lambda: FineTuned(epochs=HUGE), "give a whole number of 1,000,000 at most"),
    "a hidden layer": (lambda: PFedHN(hidden=(HUGE,)), "a whole number of 100,000 at most"),
    "layers": (lambda: PFedLA(retained=([],)), "give a tuple of layers' names"),
    "a column's groups": (lambda: ByColumn("x", (1,), unknown=[1]), "unknown [1]: give True or"),
    "targets": (lambda: Latent(shuffled_targets=X), "give True or False"),
    "a step that returns": (
        lambda: federation().train(two(), 1, [0, 1], lambda rows, *_: dict(rows)),
        "the local step returns dict: it should change its rows in place, as in",
    ),
    "large numbers": (
        lambda: Federation.from_arrays(
            *[[(torch.full((4, 3), 2**24 + 1), Y)]] * 2, nn.Linear(3, 2), PLAIN
        ),
        "inputs hold 16777217: whole numbers above 16,777,216 are rounded in single precision",
    ),
    "a sparse embedding": (
        lambda: federation(model=lambda: nn.Sequential(nn.Embedding(9, 2, sparse=True))),
        "an embedding with sparse=True has no gradient as a row",
    ),
    "texts in a column": (
        lambda: federation((X, pd.Series(["a", "b", "a", "b"]))),
        "has texts as labels: number the classes from 0",
    ),
    "a table's rate": (lambda: TABLE1.scheduled(learning_rate=0.1), "field of the schedule 'learn"),
    "a table's split": (
        lambda: TABLE1.with_setting(distribution="B"),
        "'distribution' is not one of dataset, partition",
    ),
    "columns by no name": (lambda: TABLE1.with_columns([Waffle()]), "give a dict by the name to"),
    "a column's class": (lambda: TABLE1.with_columns({"x": Waffle}), "give an instance, not the"),
    "a row": (lambda: TABLE1.with_rows({"x": {}}), "row 'x': give a Setting, such as one of"),
    "on_round": (lambda: run(on_round=True), "on_round True: give a function that takes a round's"),
    "path": (lambda: from_csv(None, label="y", split_by="x"), "path None: give the path"),
    "a frame for a path": (
        lambda: from_csv(pd.DataFrame(), "y", "x"),
        "path is a DataFrame: write it by",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_refused_in_one_line(name):
    call, words = CALLS[name]
    assert words in refusal(call)


def test_a_frame_is_read_as_the_array_it_holds():
    of_frame, of_tensor = (federation((x, Y)) for x in (pd.DataFrame(X.numpy()), X))
    pools = [fed.clients.splits["train"].pool.x for fed in (of_frame, of_tensor)]
    assert torch.equal(*pools)


def test_a_metric_that_is_none_is_named():
    result = pfl_lib.run("fedavg", federation=federation())
    for wrong in ("acuracy", []):
        refused("^metric .* is not one of accuracy,", result.value, wrong)
    refused("^model file None: give the path", result.save_model, None, client=0)
    lost = replace(result, diverged=1)
    refused("^this run diverged at round 1, and its model with it", lost.save_model, "never.pt")


@pytest.mark.parametrize("name", [None, "mine"])
def test_results_of_other_settings_are_compared_only_when_that_is_meant(name):
    result = pfl_lib.run("fedavg", federation=federation(name=name))
    refused("two of them read alike", pfl_lib.compare, {1: result, "1": result})
    refused("^across .*: give True or False", pfl_lib.compare, {"one": result}, across=np.ones(2))
    for settings, apart in (
        ({"alice": 0}, "alice"),
        ({"schedule": Schedule(rounds=2, batch_size=4)}, "rounds"),
        ({"train": [(X + 1, Y)] * 2}, "data"),
        ({"model": nn.Sequential(nn.Linear(3, 2))}, "model"),
    ):
        given = {"schedule": Schedule(rounds=1, batch_size=4), "device": "cpu", "name": name}
        given |= {"train": [(X, Y)] * 2, "test": [(X, Y)] * 2, "model": nn.Linear(3, 2)} | settings
        fed = Federation.from_arrays(**given)
        results = {"one": result, "other": pfl_lib.run("fedavg", federation=fed)}
        refused(f"^'other' and 'one' differ in {apart} ", pfl_lib.compare, results)
        assert len(pfl_lib.compare(results, across=True).table) == 2


def test_a_method_that_comes_to_another_one_says_so(capsys):
    for method, words in (
        (LGFedAvg(), "lg_fedavg shares every layer of this network: it is FedAvg"),
        (FedRep(), "fedrep shares no layer of this network: it is local training"),
        (Mocha(), "it is near local training"),
    ):
        progress.tell.cache_clear()
        wide = nn.Sequential(nn.Linear(3, 2000), nn.Linear(2000, 2))
        fed = federation(model=wide if method.name == "mocha" else nn.Linear(3, 2))
        method.start(fed)
        assert words in capsys.readouterr().err


def test_a_round_that_makes_nan_of_finite_models_is_told_from_training_that_diverged(capsys):
    class Divided(type(pfl_lib.methods.make_method("local"))):
        def round(self, fed, state, r):
            state, log = super().round(fed, state, r)
            state["theta"][1] = 0 * state["theta"][1] / 0
            return state, log

    result = pfl_lib.run(Divided(), federation=federation())
    assert result.diverged == 1
    told = capsys.readouterr().err
    assert "its round 1 gave client 1 a model that is not finite, though all training was" in told
    pfl_lib.run("local", federation=federation(), results_dir=None)
    assert "though all training was" not in capsys.readouterr().err


def test_a_loss_far_above_guessing_is_told(capsys):
    progress.tell.cache_clear()
    x = torch.eye(4)[:, :3] * 1e3
    test = [(x, 1 - Y)] * 2
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    fed = Federation.from_arrays([(x, Y)] * 2, test, model, Schedule(1, lr=10.0), device="cpu")
    assert pfl_lib.run("fedavg", federation=fed).diverged is None
    assert "in the last round: a rate below 10 may learn more" in capsys.readouterr().err
