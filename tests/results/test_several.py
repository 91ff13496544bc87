"""Results over seeds, and methods compared: means, spreads, what diverged, and their picture."""

import copy
import math
from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch import nn

from pfl_lib import Federation, Results, Schedule, compare, run
from pfl_lib.display import theme
from pfl_lib.results.result import Result
from tests.common import refusal, refused


def result(seed: int, *accuracy: float, diverged: int | None = None, name: str = "m") -> Result:
    metrics = pd.DataFrame(
        {"round": range(1, len(accuracy) + 1), "client": 0, "accuracy": accuracy, "loss": 1.0}
    )
    return Result({"method": {"name": name}, "seed": seed}, metrics, None, diverged, 1.0)


# Best 60 and 80, last 40 and 80; by round 50, 70, 60.
SEVERAL = Results((result(1, 0.4, 0.6, 0.4), result(2, 0.6, 0.8, 0.8)))
ONE = result(1, 0.1, 0.2, 0.3)
BROKEN = Results((result(1, 0.5, 0.5, 0.5), result(2, 0.5, diverged=2)))


def test_several_seeds_have_a_mean_and_a_spread():
    """(60 + 80) / 2 = 70, and sqrt(2 * 10^2 / 1) = 14.14."""
    assert SEVERAL.mean == pytest.approx(70) and SEVERAL.spread == pytest.approx(10 * math.sqrt(2))
    last = SEVERAL.summary("last")
    assert last.mean == pytest.approx(60) and last.values.to_dict() == pytest.approx({1: 40, 2: 80})
    assert SEVERAL.summary(metric="loss").mean == 1
    assert SEVERAL.by_client(protocol="last").to_dict() == {1: {0: 0.4}, 2: {0: 0.8}}
    assert (len(SEVERAL), SEVERAL.seeds, SEVERAL[1].best_accuracy) == (2, (1, 2), 0.8)
    assert math.isnan(BROKEN.mean) and "diverged at round 2 (seed 2)" in repr(BROKEN)
    assert "best 30.00 %" in repr(Results((ONE,)))
    line = repr(SEVERAL)
    assert "best 70.00 ± 14.14 %" in line and "last 60.00 ± 28.28 %" in line and "\n" not in line


def test_compared_results_stand_in_one_table():
    compared = compare({"several": SEVERAL, "one": ONE, "broken": BROKEN})
    table = compared.table
    assert table["seeds"].to_dict() == {"several": 2, "one": 1, "broken": 2}
    percent = table.loc["several", ["best (%)", "last (%)", "worst client, last (%)"]]
    assert percent.tolist() == pytest.approx([70, 60, 60])
    assert table.loc["one", "best (%)"] == pytest.approx(30) and math.isnan(table["± best"]["one"])
    assert math.isnan(table["best (%)"]["broken"])
    assert table["status"].tolist() == ["ran", "ran", "diverged at round 2 (seed 2)"]
    assert "several" in repr(compared) and compared._repr_html_().startswith("<table")
    pd.testing.assert_frame_equal(compare({"several": [*SEVERAL], "one": [ONE]}).table, table[:2])


def test_seconds_are_spread_over_the_rounds_and_none_passed_at_the_start():
    at_the_start = replace(ONE, metrics=ONE.metrics[:1].assign(round=0))
    frame = compare({"one": ONE, "lost": at_the_start}).frame
    assert frame["seconds"].tolist() == pytest.approx([1 / 3, 2 / 3, 1, 0])
    two = pd.concat([ONE.metrics[:2], ONE.metrics[:2].assign(client=1)])
    frame = compare({"two": replace(ONE, metrics=two.sort_values("round"))}).frame
    assert frame["seconds"].tolist() == pytest.approx([0.5, 0.5, 1, 1])


def test_the_picture_has_a_line_for_each_name_and_a_band_for_several_seeds():
    figure = compare({"several": SEVERAL, "one": ONE, "broken": BROKEN}).plot()
    (axes,) = figure.axes
    lines = [line.get_ydata() for line in axes.get_lines() if len(line.get_xdata())]
    assert [list(line) for line in lines] == [pytest.approx([50, 70, 60]), [10, 20, 30], [50]]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["several, seeds: 2", "one, seeds: 1", "broken, seeds: 2, to round 1"]
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert edges.max() == pytest.approx(60 + 20 * math.sqrt(2))
    assert compare({"one": ONE}).plot().axes and SEVERAL.plot().axes
    (axes,) = compare({"one": ONE}).plot("loss").axes
    assert axes.get_ylabel() == "loss" and [*axes.get_lines()[0].get_ydata()] == [1, 1, 1]
    refused("metric 'los' .did you mean loss", compare({"one": ONE}).plot, "los")
    mixed = replace(ONE, metrics=ONE.metrics.assign(alpha=0.5), config=ONE.config | {"model": "b"})
    both = compare({"one": replace(ONE, config=ONE.config | {"model": "b"}), "mixed": mixed})
    (axes,) = both.plot("alpha").axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mixed"]
    assert both.differences(metric="alpha").empty, "there is nothing beside it"
    lost = Results((*SEVERAL, result(3, diverged=1)))
    (axes,) = compare({"_lost": lost, "$one": ONE}).plot().axes
    drawn = [line for line in axes.get_lines() if len(line.get_xdata())]
    assert len(drawn) == 1, "of lost one seed has no round: no mean"
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [" _lost, seeds: 3, to round 0", r"\$one, seeds: 1"]


def test_a_path_may_begin_with_ones_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert compare({"one": ONE}).to_csv("~/mine.csv") == tmp_path / "mine.csv"


def test_differences_are_paired_by_seed():
    """Best rounds 60 and 80 against 30 (seed 1 alone in common): 30 points, of one seed."""
    comparison = compare({"one": ONE, "several": SEVERAL, "again": SEVERAL})
    rows = comparison.differences().set_index("method")
    assert rows.loc["several", ["seeds", "difference"]].tolist() == pytest.approx([1, 30])
    assert rows.loc["several", "than one"] == "undecided"
    level = comparison.differences("several").set_index("method").loc["again"]
    assert (level["difference"], level["seeds"], level["than several"]) == (0, 2, "undecided")
    last = comparison.differences("one", protocol="last").set_index("method")
    assert last.loc["several", "difference"] == pytest.approx(10)
    refused("name 'two' is not one of one, several, again", comparison.differences, "two")
    losses = comparison.differences(metric="loss")
    assert losses["difference"].tolist() == [0, 0], "in the loss's unit"


def test_a_difference_is_decided_where_its_interval_leaves_0_out():
    """Differences 1, 2 and 3: standard deviation 1, 1/sqrt(3) = 0.57735 of the mean; with two
    degrees of freedom Student's t is 4.3027, so half the interval is 2.4842.  Seed 4, which one
    method alone has, does not count."""
    for points, word in (
        ((1.0, 2.0, 3.0), "undecided"),
        ((1.9, 2.0, 2.1), "above"),
        ((-1.9, -2.0, -2.1), "below"),
        ((1.6, 1.6, 1.6), "undecided"),
        ((1.6, 1.6 + 1e-13, 1.6), "undecided"),  # equal but for the last bits of k / n,
    ):
        low = Results(tuple(result(seed, 0.5) for seed in (1, 2, 3, 4)))
        high = Results(tuple(result(s, 0.5 + p / 100) for s, p in enumerate(points, 1)))
        row = compare({"low": low, "high": high}).differences().iloc[0]
        assert row["than low"] == word and row["seeds"] == 3
        assert row["difference"] == pytest.approx(sum(points) / 3)
        assert math.isnan(row["95 % to"]) == (points[0] == 1.6)
        if points == (1.0, 2.0, 3.0):
            assert row["95 % to"] - row["difference"] == pytest.approx(2.4842, abs=1e-4)


def test_the_worst_client_stands_beside_the_mean():
    metrics = pd.DataFrame(
        {"round": [1, 1], "client": [0, 1], "accuracy": [0.5, 0.9], "loss": [1.0, 1.0]}
    )
    two = Result({"method": {"name": "m"}, "seed": 1}, metrics, None, None, 1.0)
    figure = compare({"two": two, "broken": BROKEN}).plot_clients()
    assert "mean two 70, worst two 50" in theme.describe(figure)
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["two", "broken"]
    gone = [(text.get_text(), text.get_position()[1]) for text in figure.axes[0].texts]
    assert gone == [("diverged", 1)]
    assert compare({"one": ONE}).plot_clients().axes
    figure = compare({"several": SEVERAL}).plot_clients()
    assert "mean several 60, worst several 60" in theme.describe(figure), "of both seeds"


def test_a_comparison_is_written_as_csv_with_every_number(tmp_path):
    path = compare({"several": SEVERAL, "one": ONE}).to_csv(tmp_path / "mine.csv")
    written = pd.read_csv(path)
    assert list(written.columns)[:4] == ["name", "seed", "round", "client"] and len(written) == 9
    sums = written.groupby("name")["accuracy"].sum().to_dict()
    assert sums == pytest.approx({"several": 3.6, "one": 0.6})
    compare({"several": SEVERAL, "one": ONE}).to_csv(tmp_path / "table.csv", of="table")
    assert pd.read_csv(tmp_path / "table.csv")["method"].tolist() == ["several", "one"]
    refused("of 'clients'", compare({"one": ONE}).to_csv, tmp_path / "mine.csv", of="clients")
    refused("in a folder that exists", compare({"one": ONE}).to_csv, tmp_path / "nowhere" / "m.csv")


def test_a_comparison_is_written_as_latex(tmp_path):
    text = compare({"a_b": SEVERAL, "broken": BROKEN}).to_latex(tmp_path / "mine.tex")
    assert (tmp_path / "mine.tex").read_text() == text
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrr}" and lines[-1] == r"\end{tabular}"
    assert lines[4] == r"a\_b & 2 & 70.00 $\pm$ 14.14 & 60.00 $\pm$ 28.28 & 60.00 \\"
    assert lines[5] == r"broken & 2 & diverged at round 2 (seed 2) &  &  \\"
    every = compare({"several": SEVERAL, "one": ONE}).to_latex(of="rounds").splitlines()
    assert len([line for line in every if line.startswith(("several", "one"))]) == 9


def test_a_number_of_a_log_that_is_called_seed_or_name_gives_way():
    logged = replace(ONE, metrics=ONE.metrics.assign(seed=9.0, name=9.0))
    rounds = compare({"a": logged}).rounds
    assert [*rounds.columns[:2]] == ["name", "seed"] and {*rounds["name"]} == {"a"}
    assert {*rounds["seed"]} == {1}


def test_what_is_no_result_is_refused():
    other = replace(ONE, config=ONE.config | {"seed": 2, "clients": 9})
    for wrong, sentence in (
        ({}, 'results {}: give a dict of results by name, such as {"WAFFLE": '),
        ([ONE], "results [<Result of m"),
        ({"a": 3}, "a 3: give a result, as pfl_lib.run returns it, or a list"),
        ({"a": []}, "a []: give a result"),
        ({"a": [ONE, ONE]}, "a: results of seeds [1, 1]: give one of each seed"),
        ({"a": [ONE, other]}, "a: results that differ in clients (9 and None): give those of one"),
        ({"a": [ONE, result(2, 0.1, name="n")]}, "a: results that differ in method (n and m)"),
        ({" ": ONE}, "names [' ']: one is blank"),
    ):
        assert refusal(compare, wrong).startswith(sentence)
    refused("^results .*: give a result", Results, ())
    refused("^results of methods m, n: give those", Results, (ONE, result(2, 0.1, name="n")))
    refused("^results of seeds .1, 1.: give one of each", Results, (ONE, ONE))
    assert len(Results(one for one in (ONE, other))) == 2, "a federation may follow from the seed"


def test_of_what_is_called_a_loss_or_an_error_the_lowest_is_the_best():
    logged = {"train_loss": [3.0, 1.0, 2.0], "test-Errors": [0.3, 0.4, 0.1], "lossless": [1, 3, 2]}
    read = replace(ONE, metrics=ONE.metrics.assign(**logged)).value
    assert [read(name) for name in logged] == [1.0, 0.1, 3.0]


def test_a_diverged_seeds_clients_have_no_numbers():
    by_client = BROKEN.by_client(protocol="last")
    assert by_client[1].to_dict() == {0: 0.5} and by_client[2].isna().all()
    refused("metric 'acuracy' .did you mean accuracy", ONE.by_round, "acuracy")


def test_runs_that_started_from_another_model_are_not_compared_unasked():
    """A module's parameters are drawn when it is made, a function's follow the seed."""
    data = [(torch.randn(6, 3), torch.tensor([0, 1] * 3))] * 2

    def ran(model, name=None):
        fed = Federation.from_arrays(data, data, model, Schedule(1), name=name)
        return run("fedavg", federation=fed)

    for name in (None, "mine"):
        one, other = (ran(nn.Linear(3, 2), name) for _ in range(2))
        refused("initial model.*: give Federation a function", compare, {"a": one, "b": other})
        assert len(compare({"a": one, "b": other}, across=True).table) == 2
        one, other = (ran(lambda: nn.Linear(3, 2), name) for _ in range(2))
        assert len(compare({"a": one, "b": other}).table) == 2


def test_of_several_seeds_what_one_has_is_told_where_it_is():
    with pytest.raises(
        AttributeError, match=r"have no 'weights': read one seed's, as results\[0\]\."
    ):
        _ = SEVERAL.weights
    with pytest.raises(AttributeError, match="have no 'wieghts'$"):
        _ = SEVERAL.wieghts
    assert copy.deepcopy(SEVERAL).seeds == (1, 2)


def test_what_was_measured_with_another_loss_or_in_other_rounds_is_not_compared():
    for name, value in (
        *(("loss", "half_cross_entropy"), ("evaluate_every", 4), ("validation", 0.2)),
    ):
        other = replace(ONE, config=ONE.config | {name: value})
        refused(f"differ in {name} .None and {value}.", compare, {"one": other, "a": ONE})


def test_the_order_in_which_a_partition_is_described_makes_no_setting_apart():
    def of(partition):
        return Result({**ONE.config, "partition": partition}, ONE.metrics, None, None, 1.0)

    one = of({"name": "dirichlet", "alpha": 0.3})
    assert compare({"one": one, "other": of({"alpha": 0.3, "name": "dirichlet"})})
    other = of({"alpha": 0.1, "name": "dirichlet"})
    refused("differ in partition", compare, {"one": one, "other": other})
