"""Data frames as tables of a page and of a paper."""

import math

import pandas as pd
import pytest

from pfl_lib.display import table

FRAME = pd.DataFrame(
    {"method": ["FedAvg", "a < b"], "accuracy": [98.126, math.nan], "run": [1200, 3]}
)
VERDICTS = pd.DataFrame(
    {"WAFFLE": ["98.50 ± 0.12", "reproduced"], "FedAvg": ["–", "not run"]},
    index=pd.MultiIndex.from_tuples([("MNIST", "ours"), ("MNIST", "verdict")]),
)


@pytest.fixture
def shown(monkeypatch) -> list[dict]:
    bundles = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, **_: bundles.append(bundle))
    return bundles


def test_numbers_are_rounded_missing_ones_are_a_dash_and_words_are_escaped():
    page = table.styled(FRAME, "Runs & times", digits=1).to_html()
    assert ">98.1<" in page and ">–<" in page and ">1,200<" in page
    assert "a &lt; b" in page and "Runs &amp; times" in page and "a < b" not in page
    assert table.styled(VERDICTS, "Table 1").to_html().count("rgba(2,") == 1  # its shade, once


def test_the_heading_of_the_rows_stands_in_the_line_of_the_columns_headings():
    page = table.styled(FRAME.set_index("method"), "Times").to_html()
    assert page.split("</tr>")[0].count("</th>") == 3 and ">method</th>" in page.split("</tr>")[0]
    both = table.styled(FRAME.set_index("method").rename_axis(columns="what"), "Times").to_html()
    assert ">what</th>" in both and ">method</th>" in both


def test_a_sentence_that_begins_with_a_number_is_set_to_the_left():
    told = pd.DataFrame({"evidence": ["4 of 7 comparisons hold, two are open, one was not run"]})
    assert "text-align: right" not in table.styled(told, "Sentences").to_html()


@pytest.mark.parametrize(
    "frame", [FRAME.iloc[:0], pd.concat([VERDICTS, VERDICTS]), FRAME.set_index("method")]
)
def test_empty_frames_and_repeated_rows_are_shown(frame, shown):
    table.show_table(frame, "Rows", folded=True)
    assert shown[0]["text/html"].startswith("<details><summary>Rows</summary>")


def test_headings_of_rows_and_columns_say_so(shown):
    table.show_table(VERDICTS, "Table 1")
    page, plain = shown[0]["text/html"], shown[0]["text/plain"]
    assert page.count('scope="col"') == 2 and page.count('scope="row"') == 3
    assert plain.startswith("Table 1\n") and "98.50 ± 0.12" in plain
    table.show_table(FRAME.set_index(pd.Index([3, 7])), "Rows without a name")
    assert 'scope="row"' not in shown[1]["text/html"] and " 3 " not in shown[1]["text/plain"]


def test_latex_has_booktabs_rules_and_no_sign_that_it_would_misread():
    text = table.latex(FRAME.assign(d=["50 % ± 1", "−2"]), r"Runs & ~ \a")
    assert r"\toprule" in text and r"\bottomrule" in text and r"\caption{Runs \& " in text
    assert r"\& \textasciitilde{} \textbackslash{}a}" in text
    assert r"50 \% $\pm$ 1" in text and "$-$2" in text and "--" in text
    assert r"\multirow" not in table.latex(VERDICTS, "Table 1")


def test_a_table_has_one_sign_for_minus_and_keeps_hyphens(shown):
    frame = pd.DataFrame({"gain": [-0.5, 1.0], "told": ["A -0.10; B +1", "2026-11-24, one-shot"]})
    table.show_table(frame, "Gains")
    page = shown[0]["text/html"]
    assert "−0.50" in page and "A −0.10" in page and "2026-11-24, one-shot" in page
    assert "$-$0.50" in table.latex(frame)
