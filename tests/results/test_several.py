"""Results over seeds, and methods compared: means, spreads, what diverged, and their picture."""

import math

import pandas as pd
import pytest

from pfl_lib import BadInput, Results, compare
from pfl_lib.display.spread import accuracy_with_spread
from pfl_lib.results.result import Result


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
    assert last.mean == pytest.approx(60) and last.values == pytest.approx((40, 80))
    assert SEVERAL.summary(metric="loss").mean == 1
    assert (len(SEVERAL), SEVERAL.seeds, SEVERAL[1].best_accuracy) == (2, (1, 2), 0.8)
    line = repr(SEVERAL)
    assert "best 70.00 ± 14.14 %" in line and "last 60.00 ± 28.28 %" in line and "\n" not in line


def test_where_a_seed_diverged_there_is_no_mean_and_the_line_says_so():
    assert math.isnan(BROKEN.mean) and "diverged at round 2 (seed 2)" in repr(BROKEN)


def test_compared_results_stand_in_one_table():
    table = compare({"several": SEVERAL, "one": ONE, "broken": BROKEN}).table
    assert table["seeds"].to_dict() == {"several": 2, "one": 1, "broken": 2}
    assert table.loc["several", ["best (%)", "last (%)", "worst client (%)"]].tolist() == (
        pytest.approx([70, 60, 60])
    )
    assert table.loc["one", "best (%)"] == pytest.approx(30) and math.isnan(table["± best"]["one"])
    assert math.isnan(table["best (%)"]["broken"])
    assert table["status"].tolist() == ["ran", "ran", "diverged at round 2 (seed 2)"]
    assert "several" in repr(compare({"several": SEVERAL}))
    assert compare({"several": SEVERAL})._repr_html_().startswith("<table")


def test_the_picture_has_a_line_for_each_name_and_a_band_for_several_seeds():
    figure, alt = accuracy_with_spread({"several": SEVERAL, "one": [ONE], "broken": BROKEN})
    (axes,) = figure.axes
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert list(lines) == ["several", "one", "broken, diverged at round 2"]
    assert lines["several"].tolist() == pytest.approx([50, 70, 60])
    assert len(lines["broken, diverged at round 2"]) == 1
    assert len(axes.collections) == 2, "several and broken have a band, one has none"
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert edges.max() == pytest.approx(60 + 20 * math.sqrt(2))
    assert "several 60.00 ± 28.28 (2 seeds), one 30.00 (1 seed)" in alt
    assert compare({"one": ONE}).plot().axes and SEVERAL.plot().axes


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({}, 'results {}: give a dict of results by name, such as {"WAFFLE": '),
        ([ONE], "results [<Result of m"),
        ({"a": 3}, "a 3: give a result, as pfl_lib.run returns it"),
    ],
    ids=["none", "a list", "a number"],
)
def test_what_is_no_result_is_refused(wrong, sentence):
    with pytest.raises(BadInput) as refused:
        compare(wrong)
    assert str(refused.value).startswith(sentence)
