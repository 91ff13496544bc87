"""Rows of a table as a whole, and what a table tells of its methods, on made-up results."""

from dataclasses import replace

import pandas as pd
import pytest

from pfl_lib.methods import Ditto
from pfl_lib.papers import compare, fedfomo, waffle
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result
from tests.common import refused

TABLE = waffle.TABLE1.only(["C"], datasets=["MNIST"]).scaled(waffle.FULL).with_seeds(1, 2)


@pytest.mark.parametrize(
    ("accuracies", "ours", "agrees"),
    [
        ({"waffle": 99.0, "local": 98.0}, "WAFFLE", "yes"),
        ({"weight_erosion": 99.0, "waffle": 99.0, "local": 98.0}, "WE, WAFFLE", "yes"),
        ({"waffle": 98.0, "local": 98.3}, "Local", "level"),
        ({"waffle": 97.0, "local": 98.0}, "Local", "no"),
        ({"fedavg": 97.0, "local": 98.0}, "Local", "–"),
        ({"waffle": 99.0}, "–", "–"),
    ],
)
def test_the_papers_best_is_that_of_all_methods_of_the_row(accuracies, ours, agrees):
    """On C the paper prints 99.00 for WE and for WAFFLE, and less for the others."""

    def find(spec) -> Result | None:
        if (value := accuracies.get(spec.method.name)) is None:
            return None
        row = {"round": [1], "client": 0, "accuracy": value / 100, "loss": 1.0}
        return Result({"alice": 0}, pd.DataFrame(row), None, None, 1.0)

    runs = Runs((TABLE.with_columns({"mine": Ditto()}),), find)
    row = compare.orders(runs).iloc[0]
    assert row["best printed"] == "WE, WAFFLE"
    assert (row["best ours"], row["best agrees"]) == (ours, agrees)
    names = {"waffle": "WAFFLE", "weight_erosion": "WE", "local": "Local", "fedavg": "FedAvg"}
    top = max(accuracies.values()) - 0.4
    level = {names[name] for name, value in accuracies.items() if value >= top}
    table = TABLE.scheduled(lr=9).with_rows({"mine": TABLE.rows[0].at})
    leaders = compare.leaders(Runs((table,), find), table)
    assert {*leaders["MNIST", "C, lr 9"]} == {*leaders["mnist", "mine"]} == level
    accuracies["ditto"] = 99.9  # a method of the reader's is above all of the paper's
    table = TABLE.with_columns({"mine": Ditto()})
    assert "mine" in compare.leaders(Runs((table,), find), table)["MNIST", "C"]
    assert compare.leaders(Runs((TABLE,), lambda spec: None), TABLE).reset_index().empty


def test_methods_without_a_common_seed_are_neither_above_nor_level():
    """WAFFLE, the best printed, ran with seed 1 alone, Local with seed 2."""
    table, best = TABLE.only(columns=["Local", "WAFFLE"]), {"waffle": (1, 0.9), "local": (2, 0.99)}

    def find(spec) -> Result | None:
        seed, value = best[spec.method.name]
        row = {"round": [1], "client": 0, "accuracy": value, "loss": 1.0}
        ran = Result({"alice": 0}, pd.DataFrame(row), None, None, 1.0)
        return ran if spec.seed == seed else None

    runs = Runs((table,), find)
    assert compare.orders(runs).iloc[0][["best ours", "best agrees"]].tolist() == ["Local", "–"]
    assert compare.leaders(runs, table).tolist() == [["Local", "WAFFLE"]]


def test_what_a_method_logs_under_a_places_name_changes_no_place():
    row = {"round": [1], "client": 0, "accuracy": 0.5, "loss": 1.0, "seed": 9.0, "method": 8.0}
    result = Result({"alice": 0}, pd.DataFrame(row | {"steps": 7.0}), None, None, 1.0)
    table = TABLE.only(columns=["Local"])
    frame = Runs((table,), lambda spec: result).frame
    found = frame[["method", "seed", "steps"]].values.tolist()
    assert found == [["Local", seed, 7.0] for seed in (1, 2)]


def test_the_papers_layout_keeps_its_rows_and_columns_each_with_its_own_value():
    places = {"dataset": [*"ZZZA"], "setting": [*"bbac"], "method": [*"yxyx"]}
    frame = pd.DataFrame(places | {"printed": [1.0, 2.0, 3.0, 4.0]})
    frame = frame.assign(ours=frame["printed"] + 10, difference=10.0, diverged=None)
    frame = frame.assign(metric="m", status="ran", verdict="")
    given, nan = {"ours std": compare.NAN, "printed std": 0.5}, compare.NAN
    layout = compare.as_printed(frame.assign(**given))
    assert [*layout.columns] == ["y", "x"]
    assert [*layout.index.droplevel("value").unique()] == [("Z", "b"), ("Z", "a"), ("A", "c")]
    ours = layout.xs("ours", level="value")
    assert ours.to_numpy().tolist() == [["11.00", "12.00"], ["13.00", "–"], ["–", "14.00"]]
    assert layout.loc["Z", "b", "printed"].tolist() == ["1.00 ± 0.50", "2.00 ± 0.50"]
    theirs = dict.fromkeys(["printed", "ours", "ours std", "difference"], nan)
    theirs |= {"status": "not run", "method": "z"}
    further = pd.concat([frame.assign(**given), frame[1:].assign(**given | theirs)])
    assert [*compare.as_printed(further)] == ["y", "x"], "z was neither printed nor run"


def test_a_method_of_which_one_seed_diverged_has_no_pairs_and_is_told_to_have_diverged():
    """Local's seed 2 diverges; of FedAvg seed 2 is missing; WE's best round is not its last."""

    def find(spec) -> Result | None:
        name = spec.method.name
        if (name, spec.seed) == ("fedavg", 2):
            return None
        lost = 2 if (name, spec.seed) == ("local", 2) else None
        row = {"round": [1, 2], "client": 0, "accuracy": [0.9, 0.5], "loss": 1.0}
        return Result({"alice": 0}, pd.DataFrame(row), None, lost, 1.0)

    runs = Runs((TABLE,), find)
    shown = compare.beside(runs).set_index("method")
    status = shown["status"][["Local", "FedAvg", "WE"]]
    assert status.tolist() == ["diverged", "ran", "ran"]
    assert shown.loc["WE", ["ours", "last"]].tolist() == [90, 50]
    assert runs.seeds("waffle", "table1", "MNIST", "C", "Local", "accuracy_percent").empty
    pairs = compare.pairs(runs)
    of_local = (pairs[["higher", "lower"]] == "Local").any(axis=1)
    assert of_local.any() and set(pairs["order"][of_local]) == {"not compared"}


def test_settings_and_metrics_are_told_in_words_wherever_a_frame_has_them():
    names = ["latent_D5_15_clients", "non_iid_2_100_clients", "dp_sigma1_D5_15_clients"]
    told = ["5 latent distributions, 15\u00a0clients", "non-IID.2, 100\u00a0clients"]
    told.append("DP, sigma 1, 15\u00a0clients")
    metrics = ["accuracy_percent", "communication_MB", "p_d"]
    said = ["accuracy, %", "communication, MB", "p_d"]
    frame = pd.DataFrame({"setting": names, "metric": metrics, "method": names})
    shown = compare.in_words(frame)
    assert shown["setting"].tolist() == told and shown["metric"].tolist() == said
    assert shown["method"].tolist() == names and frame["setting"].tolist() == names
    index = frame.assign(value=1.0).set_index(["method", "setting"])
    assert [*compare.in_words(index).index] == [*zip(names, told, strict=True)]
    assert [*compare.in_words(index.T).columns] == [*zip(names, told, strict=True)]
    assert [*compare.in_words(frame.set_index("metric")).index] == said
    assert compare.said(", ".join(names)) == ", ".join(told)
    rows = pd.DataFrame({"row": [1, 2], ("a", "b"): [3, 4]})
    assert compare.in_words(rows).equals(rows), "a reader's own numbers stay"


def test_how_far_methods_are_below_the_best_of_their_row():
    lines = [("t", "Z", "b", "x", 3.0), ("t", "Z", "b", "y", 5.0), ("t", "Z", "c", "x", 1.0)]
    names = ["table", "dataset", "setting", "method", "ours"]
    frame = pd.DataFrame([*lines, ("other", "Z", "c", "y", 9.0)], columns=names)
    behind = compare.behind(frame, replace(TABLE, name="t"))
    assert behind.to_dict("index") == {("Z", "b"): {"x": 2.0, "y": 0.0}}, "of c one method ran"
    assert f"{behind['y'].max():.1f}" == "0.0"


def test_a_table_tells_what_a_column_changes_of_the_schedule():
    told = fedfomo.TABLE2.methods().set_index("method")["hyper-parameters"]
    assert told["pFedMe"].endswith("restart False, lr 0.0025")
    assert "lr" not in told["FedAvg"]


def test_two_methods_or_settings_of_one_name_are_refused():
    mine, at = TABLE.with_columns({"Ditto": "local"}), TABLE.settings[0]
    theirs = replace(TABLE.columns[0], name="Ditto", method=Ditto())
    other = replace(TABLE, name="further", columns=(theirs,))
    told = "MNIST, C, Ditto: two different runs would stand there: give yours another name"
    refused(told, lambda: Runs((mine, other), None).planned)
    twice = TABLE.with_rows({"x": at}).with_rows({"x": at.scheduled(lr=9)})
    refused("mnist, x, Local: two different runs", lambda: Runs((twice,), None).planned)
    for seeds in ((1, 1), ()):
        refused("give one or more, each once", TABLE.with_seeds, *seeds)
    for own in (TABLE, waffle.TABLE1.scheduled(lr=9), waffle.TABLE1.with_rows({"x": at})):
        refused("scale the paper's table first, then change it", own.scaled, waffle.QUICK)
    refused("nothing to change: give fields", TABLE.scheduled)
    refused("with_columns: '  ' is no name to show", TABLE.with_columns, {"  ": "local"})
    refused("no name is given", TABLE.only, [])
    refused("'nope' is not one of", TABLE.with_rows, {"x": replace(at, partition="nope")})
    refused("profile 'waffle': give a Profile", TABLE.runs, waffle.PAPER)
