import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib.display import tables
from pfl_lib.papers import waffle
from pfl_lib.partitions.base import Partition
from pfl_lib.results.result import Result

TABLE1 = waffle.TABLE1


def result(*accuracy: float, diverged: int | None = None) -> Result:
    """A run of Alice with these accuracies (0 to 1), round by round."""
    rounds = range(1, len(accuracy) + 1)
    metrics = pd.DataFrame({"round": rounds, "client": 0, "accuracy": accuracy, "loss": 0.1})
    return Result({"alice": 0}, metrics, None, diverged, 1.0)


class Shelf:
    """A store with these runs, by (method, distribution, seed)."""

    def __init__(self, runs: dict[tuple[str, str, int], Result], *profiles) -> None:
        self.runs = {
            TABLE1.spec(d, m, p, seed).key: run
            for (m, d, seed), run in runs.items()
            for p in profiles
        }

    def find(self, spec):
        return self.runs.get(spec.key)


def row_of(
    table: pd.DataFrame, method: str, distribution: str = "C", dataset: str = "MNIST"
) -> pd.Series:
    rows = table[
        (table.method == method) & (table.setting == distribution) & (table.dataset == dataset)
    ]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_page_writes_settings_as_words_and_programs_read_their_names():
    frame = pd.DataFrame({"setting": ["pathological_15_clients", "A*", "AGE_STRICT"]})
    shown = tables.to_html(frame, "settings")
    assert "pathological, 15 clients<" in shown and "AGE_STRICT<" in shown and "A*<" in shown
    assert "pathological_15_clients" in tables.to_csv(frame)


# the numbers behind the figures


def test_the_mean_over_seeds_is_taken_after_the_running_best():
    """Seeds 0.5, 0.4 and 0.1, 0.3: best so far 50, 50 and 10, 30, so 30 and 40; the plain means are
    30 and 35.
    """
    runs = {"FedAvg": [result(0.5, 0.4), result(0.1, 0.3)]}
    assert tables.accuracy_by_round(runs, running_best=True)["FedAvg"].tolist() == pytest.approx(
        [30, 40]
    )
    assert tables.accuracy_by_round(runs)["FedAvg"].tolist() == pytest.approx([30, 35])


def test_after_the_first_diverged_seed_a_method_has_no_number():
    frame = tables.accuracy_by_round({"WAFFLE": [result(0.5, 0.6, 0.7), result(0.5, diverged=2)]})
    assert frame["WAFFLE"].notna().tolist() == [True, False, False]


def test_in_a_table_by_round_a_diverged_method_says_so_from_that_round_on():
    runs = {"Local": [result(0.5, 0.6, 0.7)], "WAFFLE": [result(0.5, diverged=2)]}
    shown = tables.some_rounds(tables.accuracy_by_round(runs))
    assert shown["WAFFLE"].tolist() == [50.0, "diverged at round 2", "diverged at round 2"]
    assert shown["Local"].tolist() == pytest.approx([50, 60, 70])


@pytest.mark.parametrize("accuracy", [(), (0.5,)])
def test_a_table_by_round_ends_with_the_round_at_which_its_only_method_diverged(accuracy):
    run = result(*accuracy, diverged=len(accuracy) + 1)
    if not accuracy:
        run.metrics = pd.DataFrame([], columns=["round", "client", "accuracy", "loss"])
    shown = tables.some_rounds(tables.accuracy_by_round({"WAFFLE": [run]}))
    assert shown.iloc[-1].tolist() == [run.diverged, f"diverged at round {run.diverged}"]


def test_a_table_by_round_is_thinned_to_rows_that_include_first_and_last():
    frame = tables.accuracy_by_round({"Local": [result(*np.linspace(0, 1, 100))]})
    rounds = tables.some_rounds(frame, 5)["round"].tolist()
    assert rounds == [1, 26, 51, 75, 100]
    assert tables.some_rounds(frame.head(3), 10)["round"].tolist() == [1, 2, 3]


def test_weights_become_shares_of_the_average():
    assert tables.shares(np.array([[1.0, 0.5, 0.5], [1.0, 0.0, 0.0]])).tolist() == [
        [0.5, 0.25, 0.25],
        [1, 0, 0],
    ]


def test_a_weight_has_vanished_from_the_round_after_which_it_stays_zero():
    """Client 1 comes back once, in round 3; client 2 never counts; client 3 counts to the end."""
    weights = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1], [1, 0, 0, 1]], dtype=float)
    gone = tables.vanishing(weights)
    assert math.isnan(gone[0]) and gone[1] == 4 and gone[2] == 1 and math.isnan(gone[3])
    assert tables.alone_from(weights) is None
    assert tables.alone_from(weights[:, :3]) == 4


def test_when_agents_stop_counting_is_told_in_words_and_of_a_diverged_run_only_that():
    run = result(0.5, 0.5)
    run.weights = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    assert tables.stops_counting(run, clients=3) == {1: "round 2", 2: "never"}
    early = result(diverged=1)  # no round, no weights
    assert tables.stops_counting(early, clients=3, alice=1) == dict.fromkeys(
        (0, 2), "diverged at round 1"
    )
    assert tables.name_with_status("WAFFLE", run) == "WAFFLE"
    assert tables.name_with_status("WAFFLE", early) == "WAFFLE, diverged at round 1"


def test_columns_of_numbers_stand_to_the_right_names_that_begin_with_a_digit_do_not():
    frame = pd.DataFrame(
        {
            "numbers here": ["2 of 3 runs not run"],
            "notebook": ["00_index.ipynb"],
            "ours": ["98.5 ± 0.1 (1 of 5 seeds)"],
            "no number": [math.nan],
        }
    )
    page = tables.to_html(frame, "Pages")
    sides = {
        name: side
        for side, name in re.findall(r'<th scope="col" style="text-align:(\w+)">([^<]+)<', page)
    }
    assert sides == {
        "numbers here": "left",
        "notebook": "left",
        "ours": "right",
        "no number": "right",
    }


def test_words_in_a_column_of_numbers_may_take_several_lines_and_numbers_may_not():
    page = tables.to_html(
        pd.DataFrame(
            {"method": ["a", "b"], "ours": ["98.51 ± 0.14", "diverged at round 9 (seed 2)"]}
        ),
        "T",
    )
    specs = dict(re.findall(r'<td style="([^"]+)">([^<]+)<', page))
    assert {words: "white-space:normal" in style for style, words in specs.items()} == {
        "98.51 ± 0.14": False,
        "diverged at round 9 (seed 2)": True,
    }


def test_holdings_count_each_clients_images_by_label():
    class Two:
        train_y = torch.tensor([0, 0, 1, 1, 1])
        classes = 2

    partition = Partition(
        "x", (torch.tensor([0, 2]), torch.tensor([3, 4])), (torch.tensor([0]), torch.tensor([1, 2]))
    )
    frame = tables.holdings(partition, Two)
    assert frame.to_dict("list") == {
        "client": [0, 1],
        "label 0": [1, 0],
        "label 1": [1, 2],
        "train": [2, 2],
        "test": [1, 2],
    }


# showing


class Structure(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_html_tables_have_a_caption_and_marked_headings_and_escape_what_they_show():
    frame = pd.DataFrame({"method": ["<b>", "c & d"], "ours": [1.0, -2.5]})
    page = tables.to_html(frame, "Ours < theirs")
    structure = Structure()
    structure.feed(page)
    tags = [tag for tag, _ in structure.tags]
    assert tags.count("caption") == 1 and tags.count("b") == 0
    scopes = [attributes["scope"] for tag, attributes in structure.tags if tag == "th"]
    assert scopes == ["col", "col", "row", "row"]
    assert "Ours &lt; theirs" in page and "c &amp; d" in page
    assert '<td style="text-align:right">−2.50</td>' in page


def test_a_word_of_several_rows_heads_them_once():
    frame = pd.DataFrame(
        {"distribution": ["A", "A", "B"], "method": ["WE", "APFL", "WE"], "ours": [1.0, 2.0, 3.0]}
    )
    page = tables.to_html(frame, "Ours")
    assert page.count("<tbody>") == 2 and page.count(">A<") == page.count(">B<") == 1
    structure = Structure()
    structure.feed(page)
    headings = [
        attributes
        for tag, attributes in structure.tags
        if tag == "th" and attributes["scope"] != "col"
    ]
    assert [(heading["scope"], heading.get("rowspan")) for heading in headings] == [
        ("rowgroup", "2"),
        ("row", None),
        ("row", None),
        ("rowgroup", "1"),
        ("row", None),
    ]
    assert page.count("<td") == 3


@pytest.mark.parametrize(
    "columns",
    [
        {"word": ["a", "a", "b"]},
        {"word": ["a", "a", "b"], "other": ["x", "x", "y"]},
        {"word": ["a", "b", "a"], "other": ["x", "x", "y"]},
        {"word": []},
        {},
    ],
    ids=["one column", "a second column that repeats", "no neighbours", "no rows", "nothing"],
)
def test_rows_that_the_second_column_does_not_tell_apart_are_no_group(columns):
    frame = pd.DataFrame(columns)
    page = tables.to_html(frame, "Words")
    assert (
        "rowgroup" not in page
        and page.count('scope="row"') == len(frame)
        and page.count("<tbody>") == 1
    )


def test_numbers_that_repeat_below_one_another_are_numbers_not_headings():
    page = tables.to_html(pd.DataFrame({"round": [1, 1], "client": [0, 1]}), "Rounds")
    assert "rowgroup" not in page and page.count(">1<") == 3


@pytest.mark.parametrize("in_rows", [False, True])
def test_cells_of_a_table_with_verdicts_say_their_columns_names_and_all_parts_what_they_are(
    in_rows,
):
    frame = pd.DataFrame(
        {"setting": ["A", "A"], "value": ["ours", "verdict"], "a < b": ["1", "no verdict"]}
        if in_rows
        else {"setting": ["A", "A"], "method": ["one", "two"], "ours": [1.0, 2.0], "verdict": "ok"}
    )
    page = tables.to_html(frame, "Table 1")
    labels = re.findall(r'<td role="cell"[^>]* data-label="([^"]+)"', page)
    assert labels == (["a &lt; b"] * 2 if in_rows else ["ours", "verdict"] * 2)
    assert page.startswith('<table role="table" class="pfl-table in-blocks">')
    assert page.count("<t") == page.count(' role="') and 'scope="rowgroup"' in page
    assert page.count('role="rowheader"') == 3 and page.count('role="row"') == 3
    assert page.count('role="columnheader"') == len(frame.columns)
    assert "data-label" not in tables.to_html(frame.iloc[:1, :2], "No verdict")
    assert "role" not in tables.to_html(frame.iloc[:1, :2], "No verdict")


def test_a_table_too_wide_for_a_page_is_marked_and_keeps_every_letter():
    def shown(columns: int) -> str:
        methods = {f"M{k}": ["95.47 ± 0.47", "other order (1 of 3 seeds)"] for k in range(columns)}
        return tables.to_html(pd.DataFrame({"value": ["paper", "verdict"], **methods}), "T")

    narrow, wide = shown(8), shown(9)  # 7 letters, and 16 a method
    assert 'class="pfl-table"' in narrow and "spread" not in narrow
    assert 'class="pfl-table wide"' in wide
    assert wide.count('95.47 <span class="spread">± 0.47</span>') == 9
    assert re.sub("<[^>]*>", "", wide).count("95.47 ± 0.47") == 9


def test_a_link_of_a_table_leads_to_the_address_that_it_names():
    rows = [{"page": "Figure 8", "notebook": tables.Link("waffle/fig8_omega.ipynb")}]
    shown = tables.to_html(pd.DataFrame(rows), "Pages")
    assert '<a href="waffle/fig8_omega.ipynb">waffle/fig8_omega.ipynb</a>' in shown


def test_a_table_is_shown_as_html_with_plain_text_beside_it(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append((data, raw)))
    tables.show_table(pd.DataFrame({"round": [1], "accuracy": [0.5]}), "A table", digits=3)
    data, raw = shown[0]
    assert raw and data["text/html"].startswith("<table") and "0.500" in data["text/plain"]


def test_a_folded_table_shows_its_caption_and_holds_the_table(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    table = pd.DataFrame({"round": [1], "accuracy": [0.5]})
    tables.show_table(table, "A < B", folded=True)
    page = shown[0]["text/html"]
    assert (
        page.startswith("<details>\n<summary>A &lt; B</summary>")
        and tables.to_html(table, "A < B") in page
    )
    assert shown[0]["text/plain"] == tables.to_text(table)
