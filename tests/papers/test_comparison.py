"""A printed table beside ours: frames, rows, the page that explains, LaTeX."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from pfl_lib import papers
from pfl_lib.display import tables
from pfl_lib.display.table_format import Place, run_place
from pfl_lib.errors import BadInput
from pfl_lib.papers import comparison, waffle
from pfl_lib.papers.exhibits import Exhibit
from pfl_lib.papers.metrics import MEGABYTES
from pfl_lib.papers.table import Row, gathered
from pfl_lib.results.result import Result

# Published for distribution B, seed 1, to two digits.
OF_B = {"Local": 99.42, "FedAvg": 98.94, "SCAFFOLD": 99.61, "WE": 99.52, "WAFFLE": 99.61}
OF_B["APFL"] = 99.71
B = waffle.TABLE1.only(["B"], datasets=["MNIST"])


def result(percent: float, diverged: int | None = None) -> Result:
    """A run of Alice whose second of three rounds is the best; the last is a point below."""
    accuracy = np.array([percent - 2, percent, percent - 1])[: diverged and diverged - 1] / 100
    rounds = range(1, len(accuracy) + 1)
    metrics = pd.DataFrame({"round": rounds, "client": 0, "accuracy": accuracy, "loss": 0.1})
    return Result({"alice": 0}, metrics, None, diverged, 1.0)


class Shelf:
    """A store with these runs, by the description."""

    def __init__(self, runs: dict) -> None:
        self.runs = {spec.key: run for spec, run in runs.items()}

    def find(self, spec):
        return self.runs.get(spec.key)


def shelf(**changed) -> Shelf:
    """Seed 1 of every method on B."""
    runs = {name: result(percent) for name, percent in OF_B.items()} | changed
    return Shelf({waffle.spec(name, "B", waffle.FULL, 1): run for name, run in runs.items()})


def test_the_long_frame_has_a_line_for_each_place_protocol_and_seed():
    frame = B.frame(waffle.FULL, shelf(WE=result(99.0, diverged=2)).find)
    assert len(frame) == 6 * 2 * 5
    assert frame["status"].value_counts().to_dict() == {
        "not run": 48,
        "ran": 10,
        "diverged at round 2": 2,
    }
    ran = frame[frame["status"] == "ran"].set_index(["method", "protocol"])["value"]
    assert ran["Local", "best"] == pytest.approx(99.42)
    assert ran["Local", "last"] == pytest.approx(98.42)
    assert frame.loc[frame["status"] != "ran", "value"].isna().all()


def test_the_seeds_of_a_place_are_gathered_with_those_that_diverged_and_are_missing():
    frame = B.frame(waffle.FULL, shelf(WE=result(99.0, diverged=2)).find)
    ours = gathered(frame[frame["protocol"] == "best"])
    assert list(ours) == list(waffle.METHODS)
    assert (ours["WE"].diverged, ours["WE"].missing, ours["WE"].comparable) == (((1, 2),), 4, False)
    assert ours["Local"].seeds == (1,) and ours["Local"].mean == pytest.approx(99.42)


def test_a_number_links_to_the_row_of_the_first_run_that_finished():
    """Local's first seed is missing; one of WE's diverged, so it has no number and no link."""
    runs = {waffle.spec("Local", "B", waffle.FULL, seed): result(99.0) for seed in (2, 3)}
    for seed, diverged in ((1, 2), (2, None)):
        runs[waffle.spec("WE", "B", waffle.FULL, seed)] = result(99.0, diverged=diverged)
    beside = comparison.compare(B, waffle.FULL, Shelf(runs))
    slug = waffle.spec("Local", "B", waffle.FULL, 2).slug
    assert dict(zip(beside["method"], beside["run"], strict=True)) == {
        method: slug if method == "Local" else "" for method in waffle.METHODS
    }
    shown = tables.to_html(comparison.as_printed(beside, B), "B")
    # The best round and the last.
    assert shown.count(f'href="#{run_place(slug)}"') == shown.count("<a ") == 2
    value_by_value = tables.to_html(comparison.in_words(beside), "Value by value")
    assert value_by_value.count(f'href="#{run_place(slug)}"') == value_by_value.count("<a ") == 1
    listed = pd.DataFrame({"run": [Place(slug, run_place(slug))]})
    assert f' id="{run_place(slug)}"' in tables.to_html(listed, "Runs")


def test_a_run_without_the_number_counts_as_missing_not_as_a_number():
    unknown = dataclasses.replace(B, metrics=(MEGABYTES,), values={})
    frame = unknown.frame(waffle.FULL.with_seeds(1), shelf().find)
    assert set(frame["status"]) == {"not measured"} and frame["value"].isna().all()
    ours = gathered(frame[frame["protocol"] == "best"])["WE"]
    assert (ours.status, ours.missing) == ("not run", 1)


def test_a_place_that_is_not_run_by_this_package_has_a_line_without_a_seed():
    undescribed = dataclasses.replace(B, rows=(Row("MNIST", "B"),))
    lines = undescribed.frame(waffle.FULL, Shelf({}).find)
    assert len(lines) == 6 * 2 and lines["seed"].isna().all()
    assert set(lines["status"]) == {"not run"}


def test_a_rows_ranking_and_what_its_tolerance_tells_apart_are_told_once_and_summed():
    """SCAFFOLD is above WE here and level with WAFFLE, APFL above both; the paper has both clearly
    below them.
    """
    rows = comparison.row_by_row(comparison.compare(B, waffle.FULL, shelf()))
    assert rows["ranking"].tolist() == [
        "7 of 11 clear pairs in the paper's order, turned here: the paper has WE above"
        " SCAFFOLD; WE above APFL; WAFFLE above APFL, level here: the paper has WAFFLE above"
        " SCAFFOLD",
        "7 of 11 clear pairs in the paper's order",
    ]
    assert rows["wrong pairings that pass"].tolist() == ["20 of 30", "20 of 30"]


def test_of_a_table_without_a_run_no_ranking_is_told():
    rows = comparison.row_by_row(comparison.compare(B, waffle.FULL, Shelf({})))
    assert rows.empty


def test_explained_is_said_only_where_the_page_exists_its_runs_do_and_its_numbers_do(monkeypatch):
    far = shelf(FedAvg=result(90.0))
    seed_1 = B.runs(waffle.FULL.with_seeds(1))

    def said(runs, explains=None) -> str:
        page = Exhibit(
            "why", "WAFFLE", "", "", waffle.ALL_PROFILES, lambda profile: runs, explains=explains
        )
        monkeypatch.setattr(papers, "EXHIBITS", {"why": page} if runs is not None else {})
        table = dataclasses.replace(B, explained_by={("MNIST", "B", "FedAvg"): "why"})
        compared = comparison.compare(table, waffle.FULL, far).set_index("method")
        assert "explained" not in compared.loc["Local", "verdict"]
        return compared.loc["FedAvg", "verdict"].rpartition("; ")[2]

    assert said(seed_1) == "explained on page why"
    assert said((*seed_1, waffle.spec("WE", "B", waffle.FULL, 2))) == "reason unknown"
    assert said(()) == said(None) == "reason unknown"
    asked = []
    for does, word in ((True, "explained on page why"), (False, "reason unknown")):
        assert said(seed_1, lambda *given, does=does: asked.append(given) or does) == word
    assert {given[:2] for given in asked} == {("B", "FedAvg")}


def test_latex_sets_the_paper_and_ours_beside_each_other():
    lines = comparison.to_latex(comparison.compare(B, waffle.FULL, shelf())).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrrrrrrr}" and lines[-1] == r"\end{tabular}"
    (row,) = [line for line in lines if line.startswith("MNIST, B")]
    assert row.startswith(r"MNIST, B & 99.38 $\pm$ 0.09 & 99.42 & 98.97 $\pm$ ")
    assert row.count("&") == 12 and row.endswith(r"\\")


def test_a_misspelled_name_in_a_description_is_refused():
    for change, told in (
        ({"rows": (dataclasses.replace(B.rows[0], setting="D"),)}, "setting of waffle table1 'D'"),
        ({"columns": (dataclasses.replace(B.columns[0], name="Lokal"),)}, "column .* 'Lokal'"),
    ):
        with pytest.raises(BadInput, match=told):
            dataclasses.replace(B, **change).printed()
    with pytest.raises(BadInput, match="setting 'D' is not one of A, B, C"):
        waffle.TABLE1.only(["D"])


def test_a_place_that_the_paper_leaves_empty_is_left_out():
    printed = dict(B.printed())
    gone = ("MNIST", "B", "WE", "accuracy_percent")
    values = {place: value for place, value in printed.items() if place != gone}
    values["MNIST", "C", "WE", "accuracy_percent"] = printed[gone]
    table = dataclasses.replace(B, values=values)
    assert math.isnan(table.printed()[gone].value)
    assert "WE" not in set(comparison.compare(table, waffle.FULL, shelf())["method"])
