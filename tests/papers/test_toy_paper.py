"""A paper from end to end: data sets, client counts, weights [N, N], means over clients, MB."""

import dataclasses
import math

import pytest

from pfl_lib.experiments.runner import run_many
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg, FedFomo, Local
from pfl_lib.papers import compare
from pfl_lib.papers.metrics import ACCURACY, MEGABYTES
from pfl_lib.papers.profiles import Profile, smaller
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.papers.values import Printed
from pfl_lib.results.store import Store

TWO_ROUNDS = Schedule(rounds=2, batch_size=50, lr=0.1)
DIGITS = Setting("digits", "C", "lenet5", TWO_ROUNDS, clients=5, alice=None)
TUMOURS = Setting("breast_cancer", "radius_strict", "linear", TWO_ROUNDS, clients=4, alice=None)
PRINTED = {
    ("Digits", "5_clients", "Local Training", "accuracy_percent"): Printed(80, 60),
    ("Digits", "5_clients", "FedAvg", "accuracy_percent"): Printed(50, 60),
    ("Digits", "5_clients", "FedFomo (n=3)", "accuracy_percent"): Printed(70, math.nan),
    ("Tumours", "4_clients", "Local Training", "accuracy_percent"): Printed(99, 0.1),
    ("Tumours", "4_clients", "Local Training", "communication_MB"): Printed(0, math.nan),
}
TOY = Table(
    "toy",
    "table1",
    rows=(Row("Digits", "5_clients", DIGITS), Row("Tumours", "4_clients", TUMOURS)),
    columns=(
        Column("Local Training", Local()),
        Column("FedAvg", FedAvg()),
        Column("FedFomo (n=3)", FedFomo(3), lambda s: dataclasses.replace(s, validation=0.2)),
    ),
    metrics=(ACCURACY, MEGABYTES),
    protocol="last",
    over="clients",
    values=PRINTED,
)
PAPER = Profile("paper", TOY.settings, seeds=(1, 2), paper_seeds=3)
SMALL = dataclasses.replace(PAPER, name="small", make=smaller(rounds=1))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("results"), published=None)
    run_many(TOY.runs(PAPER), store, jobs=1)
    return store


def test_the_frame_holds_each_runs_mean_over_clients_after_the_last_round(store):
    runs = Runs((TOY.scaled(PAPER),), store.find)
    assert len(runs.values) == 2 * 3 * 2 * 2 and set(runs.values["status"]) == {"ran"}
    first = runs.result("FedFomo (n=3)", "5_clients", 1)
    assert first.weights.shape == (2, 5, 5) and first.metrics["client"].nunique() == 5
    of = runs.values.query("seed == 1 and method == 'FedFomo (n=3)' and setting == '5_clients'")
    lines = of.set_index("metric")["value"]
    assert lines["accuracy_percent"] == pytest.approx(100 * first.last_accuracy)
    assert lines["communication_MB"] == pytest.approx(sum(first.bytes) / 2**20)


def test_every_printed_value_is_judged_in_its_own_unit_and_shown_in_the_papers_layout(store):
    compared = compare.beside(Runs((TOY.scaled(PAPER),), store.find))
    known = compared[compared["printed"].notna()]
    assert len(known) == len(PRINTED)
    sent = known.iloc[-1]
    assert (sent["verdict"], sent["seeds"], sent["paper seeds"]) == ("reproduced", 2, 3)
    assert (sent["difference"], sent["allowed"]) == (0.0, 0.05)
    shown = compare.as_printed(compared)
    assert shown.loc[("Tumours", "4_clients", "communication_MB", "printed"), "Local Training"] == (
        "0.00"
    )


def test_a_smaller_profile_has_other_runs():
    assert {run.schedule.rounds for run in TOY.runs(SMALL)} == {1}
