"""What came of all printed values, on made-up results."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg
from pfl_lib.papers import PRINTED, compare, overview, waffle
from pfl_lib.papers.metrics import MEGABYTES
from pfl_lib.papers.overview import Shown
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.papers.values import Printed
from pfl_lib.partitions import Dirichlet
from pfl_lib.results.result import Result
from tests.common import refused

MB, WAYS = "communication_MB", ("size", "uniform")
ACCURACY = {"Local": 0.90, "FedAvg": 0.80, "WAFFLE": 0.9969}


def find(spec) -> Result | None:
    """Distribution B in the exact setting: three methods, five seeds, the same in each."""
    name = {"local": "Local", "fedavg": "FedAvg", "waffle": "WAFFLE"}.get(spec.method.name)
    if spec.partition != "B" or spec.images is not None or name is None:
        return None
    frame = pd.DataFrame({"round": [1], "client": 0, "accuracy": ACCURACY[name], "loss": 1.0})
    return Result({"alice": 0}, frame, None, None, 1.0)


@pytest.fixture
def found() -> overview.Overview:
    return overview.overview([Shown("waffle-table1", waffle.TABLE1, waffle.ALL_PROFILES)], find)


def test_every_printed_result_stands_once_with_the_exact_settings_word(found):
    assert len(found.values) == 432
    ran = found.values[found.values["profile"] == "paper"].set_index("method")
    assert ran["verdict"].to_dict() == {
        "Local": "not reproduced",
        "FedAvg": "not reproduced",
        "WAFFLE": "reproduced",
    }
    assert (found.values["profile"] == "").sum() == 429


def test_the_exact_settings_values_and_verdicts_stand_beside_a_smaller_runs():
    exact, small = Shown("", waffle.TABLE1, waffle.ALL_PROFILES).runs(find)
    smaller = Runs(small.tables, lambda spec: find(replace(spec, images=None)))
    both = compare.with_exact(compare.beside(smaller).assign(ours=50.0), [exact])
    shown = compare.as_printed(both[both["dataset"] == "MNIST"])["Local"].sort_index()
    told = {"ours, exact": "90.00 ± 0.00", "verdict": "not reproduced", "ours, smaller": "50.00"}
    told |= {"printed": "99.38 ± 0.09", "exact less printed": "-9.38"}
    assert shown["MNIST", "B"].drop("smaller less printed").to_dict() == told
    close = both.assign(difference=-0.001, **{"exact mark": " (step 1)"})
    marked = compare.as_printed(close)["Local"].sort_index()["MNIST", "B"]
    assert marked["ours, exact"] == "90.00 ± 0.00 (step 1)"
    assert marked["smaller less printed"] == "+0.00"
    assert [*shown["MNIST", "A"].index] == ["ours, smaller", "printed"], "not run exactly: no line"
    nothing = compare.with_exact(compare.beside(small), [small])
    assert nothing.equals(compare.beside(small))


def test_pairs_know_whether_one_model_for_all_is_a_side(found):
    """99.38, 98.97 and 99.69 printed: three clear pairs, two of them with FedAvg."""
    pairs = found.pairs[found.pairs["profile"] == "paper"]
    assert list(pairs["order"]) == ["stands"] * 3
    assert pairs["one model"].sum() == 2


def test_what_diverged_in_the_exact_setting_has_no_pairs_in_smaller_runs_either():
    [shown] = [one for one in PRINTED if one.page == "waffle-table1"]

    def find(spec) -> Result | None:
        if spec.partition != "A":
            return None
        row = {"round": [1], "client": 0, "accuracy": 0.9, "loss": 1.0}
        exact = spec.images is None and spec.schedule.rounds == 100
        lost = 1 if exact and spec.method.name == "local" else None
        return Result({"alice": 0, "seed": spec.seed}, pd.DataFrame(row), None, lost, 1.0)

    pairs = overview.overview([shown], find).pairs
    local = pairs[(pairs["setting"] == "A") & ((pairs[["higher", "lower"]] == "Local").any(axis=1))]
    assert len(local) and set(local["order"]) == {"not compared"}


def test_the_headline_counts_exact_smaller_and_missing_results(found):
    exact, missing = overview.headline(found)
    assert exact == (
        "In the exact setting 1 of 3 accuracies are reproduced (WAFFLE 1 of 3), 0 compatible,"
        " 2 not reproduced, 0 diverged.  Of 3 clear pairs 3 stand, 0 are turned, 0 are too close to"
        " call."
    )
    assert missing == "Not run: 429 of 432 printed results."


def test_a_changed_setting_and_a_further_method_stand_beside_the_paper_without_a_verdict():
    table = waffle.TABLE1.only(["B"], ["Local"]).scaled(waffle.FULL)
    changed = table.scheduled(lr=0.05).clients(20)
    assert [(row.setting, row.base) for row in changed.rows] == [("B, lr 0.05, clients 20", "B")]
    both = ["B", changed.rows[0].setting]  # by what it changes, and by its own name
    assert changed.only("B", "Local") == changed.only(both) == changed  # a lone name is a list
    beside = replace(table, rows=table.rows + changed.rows)
    assert beside.only("B") == table and beside.only(both) == beside
    refused("clients '20': give a whole number", table.clients, "20")
    runs = Runs((changed.with_columns({"Ditto": "ditto"}),), lambda spec: find(spec))
    beside = compare.beside(runs)
    assert beside["own"].all() and beside["printed"].dropna().tolist() == [99.38]  # Local's on B
    assert set(beside["verdict"]) == {""} and beside["difference"].isna().all()
    assert compare.pairs(runs).empty and compare.orders(runs).empty
    assert not changed.with_setting(partition="C").printed()  # other data, another experiment
    assert {spec.clients for spec in runs.specs} == {20}


@pytest.mark.parametrize("partition", ["radius_some", Dirichlet(alpha=0.1)])
def test_a_partition_that_is_not_the_papers_gets_the_median_penalty_and_the_one_slope(partition):
    """Table 3's p_d for MNIST are 0.006 twice, 0.0067 and 0.0088 twice."""
    made = waffle.TABLE1.only(["C"], ["WE", "WAFFLE"]).with_setting(partition=partition)
    methods = {column.name: column.method for column in made.columns}
    assert methods["WE"](made.rows[0].at).p_d == 0.0067 and methods["WAFFLE"].slope == 3.2


def test_megabytes_are_judged_in_their_own_unit_and_shown_in_the_papers_layout():
    """Two clients of four send 3 MB in all, as printed."""
    values = {("Digits", "C", "FedAvg", "communication_MB"): Printed(3.0, math.nan)}
    at = Setting("digits", "C", "lenet5", Schedule(rounds=1), clients=4, alice=None)
    rows, columns = (Row("Digits", "C", at),), (Column("FedAvg", FedAvg()),)
    table = Table("toy", "table1", rows, columns, (MEGABYTES,), "last", "clients", values=values)
    frame = pd.DataFrame({"round": [1], "client": 0, "accuracy": 0.5, "loss": 1.0})
    sent = Result({"alice": None}, frame, None, None, 1.0, bytes=(2.0**20, 2.0**21))
    paper = Profile("paper", table.settings, seeds=(1, 2), paper_seeds=3)
    compared = compare.beside(Runs((table.scaled(paper),), lambda spec: sent))
    [line] = compared.to_dict("records")
    assert (line["verdict"], line["seeds"], line["paper seeds"]) == ("reproduced", 2, 3)
    assert (line["difference"], line["allowed"]) == (0.0, 0.05)
    place = ("Digits", "C", "printed")
    assert compare.as_printed(compared).loc[place, "FedAvg"] == "3.00"


def toy(stands_in: str = "", **megabytes: float) -> Runs:
    """Two methods, a printed to send 1 MB and b 9, which send so many here."""
    at = Setting("digits", "C", "lenet5", Schedule(rounds=1), clients=4, alice=None)
    columns = tuple(Column(name, FedAvg(weighting=of)) for name, of in zip("ab", WAYS, strict=True))
    values = {("Digits", "C", "a", MB): Printed(1, math.nan)}
    values |= {("Digits", "C", "b", MB): Printed(9, math.nan)}
    row, metrics = Row("Digits", "C", at, stands_in=stands_in), (MEGABYTES,)
    table = Table("toy", "table1", (row,), columns, metrics, "last", "clients", values=values)

    def find(spec) -> Result:
        sent = megabytes["ab"[WAYS.index(spec.method.weighting)]]
        frame = pd.DataFrame({"round": [1], "client": 0, "accuracy": 0.5, "loss": 1.0})
        return Result({"alice": None}, frame, None, None, 1.0, bytes=(2**20 * sent, 0.0))

    return Runs((table.scaled(Profile("paper", table.settings, seeds=(1,), paper_seeds=1)),), find)


def test_of_megabytes_the_fewest_are_the_best():
    [line] = compare.orders(toy(a=9, b=1)).to_dict("records")
    assert (line["best printed"], line["best ours"], line["best agrees"]) == ("a", "b", "no")
    [line] = compare.orders(toy(a=2, b=7)).to_dict("records")
    assert (line["best ours"], line["best agrees"], line["stands"]) == ("a", "yes", 1)


def test_data_that_stand_in_for_the_papers_decide_no_pair():
    runs = toy("these stand in", a=1, b=9)
    assert set(compare.pairs(runs)["order"]) == {"not compared"} and compare.orders(runs).empty
