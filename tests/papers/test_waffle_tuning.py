"""The grid of slopes and of p_d as runs, and what is said of made-up results."""

import dataclasses
import math

import pandas as pd
import pytest

from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import figures, open_questions, tuning
from pfl_lib.results.result import Result

SMALL = waffle.SMALL
QUARTER, HALF, ONE, TWO, FOUR = tuning.FACTORS


@dataclasses.dataclass
class Shelf:
    """By run: the best accuracy in percent, or the round in which it diverged."""

    found: dict
    lost: dict = dataclasses.field(default_factory=dict)

    def find(self, spec):
        best, diverged = self.found.get(spec), self.lost.get(spec)
        if best is None and diverged is None:
            return None
        rounds = {"round": [1, 2], "client": 0, "accuracy": [(best or 0) / 100, 0.0], "loss": 1.0}
        return Result({"alice": 0}, pd.DataFrame(rounds), None, diverged, 1.0)


def run(distribution: str, method: str, value: float):
    return tuning.TABLE.spec(distribution, tuning.COLUMNS[method][value].name, SMALL, 1)


def shelf(slopes: list, factors: list, changed: dict | None = None) -> Shelf:
    """The same accuracies on every distribution, but for those that are `changed`."""
    found = {}
    for name in waffle.DISTRIBUTIONS:
        found |= {run(name, "WAFFLE", v): a for v, a in zip(tuning.SLOPES, slopes, strict=True)}
        found |= {run(name, "WE", v): a for v, a in zip(tuning.FACTORS, factors, strict=True)}
    return Shelf(found | (changed or {}))


def told(shelf: Shelf, profile=SMALL) -> tuple[pd.DataFrame, pd.DataFrame]:
    grid = tuning.grid(profile, shelf)
    return grid, tuning.answers(grid, profile, shelf)


def test_there_are_50_runs_and_those_of_the_papers_own_values_are_table_1s():
    runs = set(tuning.runs(waffle.FULL))
    assert len(runs) == 2 * 5 * 5 and {spec.seed for spec in runs} == {1}
    first = waffle.FULL.with_seeds(1)
    own = {
        waffle.spec(method, name, first, 1)
        for method in ("WAFFLE", "WE")
        for name in waffle.DISTRIBUTIONS
    }
    assert own <= runs
    shared = {
        open_questions.SCHEDULES.spec(name, f"slope {slope:g}", first, 1)
        for name in ("C", "A*")
        for slope in (1, 3.2, 5, 10)
    }
    assert shared <= runs and len(runs - own - shared) == 34


def test_p_d_is_a_factor_of_table_3s_times_what_fewer_rounds_need():
    """B: 0.0067 in the paper's 100 rounds, four times as much in 25."""
    p_d = {factor: run("B", "WE", factor).method.p_d for factor in tuning.FACTORS}
    assert p_d == pytest.approx({f: f * 4 * 0.0067 for f in tuning.FACTORS}, rel=1e-12)
    assert tuning.penalties() == (0.006, 0.0088)


def test_the_quick_profile_has_two_distributions():
    runs = tuning.runs(waffle.MANY_RUNS["quick"])
    assert len(runs) == 20 and {spec.partition for spec in runs} == {"C", "A*"}


def test_what_the_papers_value_the_median_and_the_worst_lose_by_hand():
    """Slopes: best 99 (slope 5), paper's 98.5, median 98, worst 97."""
    grid, _ = told(shelf([97, 98, 98.5, 99, 97.5], [90, 95, 96, 96, 80]))
    lost = tuning.lost(grid).set_index(["distribution", "method"])
    assert len(lost) == 10 and set(lost["status"]) == {"ran"}
    ours = lost.loc["B*", "WAFFLE"]
    assert ours["best value"] == "slope 5" and ours["best round"] == pytest.approx(99)
    found = ours[["paper's", "median", "worst"]].tolist()
    assert found == pytest.approx([0.5, 1, 2])
    against = [name for name in lost if name.endswith("against the paper's")]
    assert ours[against].tolist() == pytest.approx([0.5, 1.5])
    assert lost.loc["A", "WE"][["paper's", "median", "worst"]].tolist() == pytest.approx([0, 1, 16])


def test_a_run_that_is_missing_or_diverged_leaves_its_place_without_numbers():
    stored = shelf([97, 98, 98.5, 99, 97.5], [90, 95, 96, 96, 80])
    del stored.found[run("A", "WAFFLE", 10)]
    stored.lost[run("C", "WE", FOUR)] = 7
    grid, answers = told(stored)
    lost = tuning.lost(grid).set_index(["distribution", "method"])
    assert lost.loc["A", "WAFFLE"]["status"] == "slope 10: not run"
    assert lost.loc["C", "WE"]["status"] == "p_d × 4: diverged at round 7"
    assert lost.loc["C", "WE"].drop(["best value", "status"]).isna().all()
    assert lost.loc["C", "WE"]["best value"] == "–"
    assert tuning.fixed(grid).empty
    assert tuning.by_value(grid, "WE").set_index("distribution").loc["C", "p_d × 4"] == (
        "diverged at round 7"
    )
    assert answers["here"].iloc[0] == "undecided (1 of 5 seeds)"
    assert "A: –; B: 14.00; C: –" in answers["points"].iloc[0]
    assert "on 3 by more than 0.4 points" in tuning.sentence(grid, answers)


def test_one_value_for_all_costs_what_it_loses_on_each_distribution():
    """Slope 5 loses 0 on four distributions and 3 on A: 0.6 on average; slope 3.2 half a point
    everywhere but A, where it is best.
    """
    changed = {run("A", "WAFFLE", 5): 95.5}
    grid, answers = told(shelf([97, 98, 98.5, 99, 97.5], [90, 95, 96, 96, 80], changed))
    fixed = tuning.fixed(grid).set_index("tried")
    assert fixed.loc["slope 5", ["mean lost", "most lost"]].tolist() == pytest.approx([0.6, 3])
    assert fixed.loc["slope 5", "on"] == "A"
    assert fixed.loc["slope 3.2", ["mean lost", "most lost"]].tolist() == pytest.approx([0.4, 0.5])
    assert (
        "One value for all distributions costs WAFFLE at most 0.50 points (slope 3.2); WE at most"
        " 0.00 points (p_d × 1)."
    ) in tuning.sentence(grid, answers)


def test_the_sentences_are_answered_by_a_floor_of_0_4_points_on_every_distribution():
    """Ranges 0.3 and 16; slope 3.2 loses 0.1; the median p_d loses 1; tuned, WE is below."""
    grid, answers = told(shelf([98.7, 98.8, 98.9, 99, 98.8], [90, 95, 96, 96, 80]))
    assert answers["here"].tolist() == ["yes (1 of 5 seeds)"] * 4
    assert answers["points"].iloc[3] == "; ".join(f"{name}: −2.90" for name in waffle.DISTRIBUTIONS)
    said = tuning.sentence(grid, answers)
    assert said.startswith("WAFFLE's best round moves by 0.30 on A, 0.30 on B, ")
    assert "smaller one on 5 of 5 distributions, on 5 by more than 0.4 points." in said
    assert said.endswith("The paper's 4 sentences about tuning: 4 yes.")


def test_ranges_that_one_seed_cannot_tell_apart_are_undecided_and_turned_ones_contradict():
    level = shelf([98.7, 98.8, 98.9, 99, 98.8], [98.4, 98.8, 98.9, 99, 98.8])
    _, answers = told(level)
    words = [word.partition(" ")[0] for word in answers["here"]]
    assert words == ["undecided", "yes", "undecided", "yes"]
    turned = {run("C", "WAFFLE", 1): 90.0, run("C", "WAFFLE", 3.2): 98.0}
    _, answers = told(Shelf(level.found | turned))
    words = [word.partition(" ")[0] for word in answers["here"]]
    assert words == ["no", "no", "undecided", "no"]


def test_without_runs_nothing_is_answered_and_the_quick_profile_answers_nothing():
    grid, answers = told(Shelf({}))
    assert answers["here"].tolist() == ["not run"] * 4
    assert tuning.sentence(grid, answers) == "No distribution has all its runs."
    assert figures.accuracy_by_factor(grid) is None
    _, answers = told(Shelf({}), waffle.MANY_RUNS["quick"])
    assert answers["here"].tolist() == ["no answer (quick profile)"] * 4
    assert math.isnan(tuning.lost(grid)["worst"].iloc[0])


def test_the_picture_has_a_panel_for_each_distribution_and_a_line_for_each_method():
    figure, alt = figures.accuracy_by_factor(
        told(shelf([97, 98, 98.5, 99, 97.5], [90, 95, 96, 96, 80]))[0]
    )
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [
        f"distribution {name}" for name in waffle.DISTRIBUTIONS
    ]
    lines = {line.get_label(): line for line in panels[2].get_lines()}
    assert lines["WAFFLE"].get_xdata().tolist() == [slope / 3.2 for slope in tuning.SLOPES]
    assert lines["WE"].get_ydata().tolist() == [90, 95, 96, 96, 80]
    assert "WE on C 90.00 at p_d × 0.25, 95.00 at p_d × 0.5" in alt


def test_a_panel_spans_a_point_at_least():
    level = shelf([99.0, 99.0, 99.1, 99.0, 99.0], [99.0, 99.1, 99.0, 99.0, 99.0])
    figure, _ = figures.accuracy_by_factor(told(level)[0])
    low, high = figure.axes[0].get_ylim()
    assert high - low == pytest.approx(1) and low < 99.0 < 99.1 < high
