"""The scorecard: all printed values and sentences, each once, each with what came of it."""

import dataclasses
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest

from pfl_lib import BadInput, data, partitions
from pfl_lib.__main__ import main
from pfl_lib.display.table_format import run_place
from pfl_lib.pages import scores
from pfl_lib.papers import EXHIBITS, comparison, scorecard, values, verdicts, waffle
from pfl_lib.papers.scorecard import ANSWERS, REPLACED, RESULTS, SETTINGS, USED
from pfl_lib.papers.waffle import cifar10, inputs
from pfl_lib.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("scorecard")  # read once


@pytest.fixture(scope="module")
def card(tmp_path_factory) -> scorecard.Scorecard:
    """From the published runs alone."""
    return scorecard.scorecard(Store(tmp_path_factory.mktemp("results")))


@pytest.fixture(scope="module")
def nothing(tmp_path_factory) -> scorecard.Scorecard:
    """Where nothing at all was run."""
    return scorecard.scorecard(Store(tmp_path_factory.mktemp("results"), published=None))


def test_every_printed_value_stands_there_once_with_the_papers_number(card):
    names = {short: name for name, short in scorecard.PAPERS.items()}
    places = card.values.assign(paper=card.values["paper"].map(names))[scorecard.PLACE]
    printed = values.load()
    assert len(places) == len(places.drop_duplicates()) == len(printed) == 558
    assert places.merge(printed[scorecard.PLACE]).shape == places.shape
    assert card.values["value"].tolist() == printed["value"].tolist()


def test_settings_are_used_or_replaced_and_results_have_verdicts(card):
    by_kind = card.values.groupby("kind")["verdict"].agg(set)
    assert by_kind["setting"] <= set(SETTINGS) and by_kind["result"] <= set(RESULTS)
    assert (card.values["kind"] == "setting").sum() == 120
    assert set(card.claims["answer"]) <= set(ANSWERS)


def test_a_papers_verdicts_are_those_that_its_page_counts(card, tmp_path):
    compared = comparison.compare(waffle.TABLE1, waffle.FULL, Store(tmp_path))
    on_page = compared["verdict"].map(verdicts.word).value_counts().to_dict()
    mine = card.values[card.values["page"] == "waffle-table1"]
    assert mine["verdict"].value_counts().to_dict() == on_page
    assert set(mine["dataset"]) == {"MNIST"} and set(mine["profile"]) <= {"paper", ""}
    assert mine["ours"].round(9).tolist() == compared["ours"].round(9).tolist()


def test_where_nothing_was_run_no_result_has_a_verdict_and_no_sentence_an_answer(nothing):
    results = nothing.values[nothing.values["kind"] == "result"]
    assert set(results["verdict"]) == {"not run"} == set(nothing.claims["answer"])
    assert results["ours"].isna().all() and (results["profile"] == "").all()
    assert "Four papers print 438 results, of which 0 were run." in nothing.sentence()


def test_the_small_profile_speaks_where_the_papers_own_was_not_run(monkeypatch):
    """Two profiles of one table: the first value was run in both, the second in the small one, the
    third in neither, the fourth is left out of the small one.
    """

    def compare(table, profile, store):
        ran = {"paper": [1, 0, 0, 0], "small": [1, 1, 0, 0]}[profile.name]
        words = {"paper": "reproduced: 0.1 apart", "small": "same order (1 of 5 seeds): 3 of 3"}
        without = ["not run"] * 3 + ["not run" if profile.name == "paper" else "left out"]
        verdict = [words[profile.name] if yes else no for yes, no in zip(ran, without, strict=True)]
        return pd.DataFrame(
            {
                "dataset": "D",
                "setting": list("ABCD"),
                "method": "M",
                "metric": "m",
                "ours": [1.0 if yes else math.nan for yes in ran],
                "seeds": ran,
                "run": ["m-1" if yes else "" for yes in ran],
                "status": ["ran" if yes else no for yes, no in zip(ran, without, strict=True)],
                "profile": profile.name,
                "verdict": verdict,
            }
        )

    page = dataclasses.replace(EXHIBITS["waffle-table1"], tables=(waffle.TABLE1,))
    monkeypatch.setattr(scorecard, "EXHIBITS", {"waffle-table1": page})
    monkeypatch.setattr(comparison, "compare", compare)
    rows = list(scorecard._judged(None))
    assert [(row["verdict"], row["profile"]) for row in rows] == [
        ("reproduced", "paper"),
        ("same order", "small"),
        ("not run", ""),
        ("not run", ""),
    ]
    because = ["0.1 apart", "(1 of 5 seeds): 3 of 3", "", ""]
    assert [row["because"] for row in rows] == because


def test_counts_and_answers_add_up_to_what_there_is(card):
    for counts, what, total in (
        (card.counts(), "printed values", 558),
        (card.answers(), "sentences", len(card.claims)),
    ):
        counts = counts.set_index("paper")
        assert (counts.drop(columns=what).sum(axis=1) == counts[what]).all()
        assert (counts.drop("all").sum() == counts.loc["all"]).all()
        assert counts.loc["all", what] == total


# --- printed settings ---


def test_shares_of_distribution_c_are_those_that_equal_labels_give():
    """On data with as many images of each label, a client's share of a label is what Table 2
    prints.  Digits have nearly so: shares differ by less than two hundredths.
    """
    digits = data.load("digits")
    counts = partitions.make("C", digits, 10, 1).label_matrix(digits).double()
    shares = (counts / counts.sum(1, keepdim=True)).tolist()
    for place, used in inputs.used().items():
        if place[0] == "table2":
            client, label = (
                int(place[3].removeprefix("agent")),
                int(place[4].removesuffix("_share").removeprefix("label")),
            )
            assert abs(shares[client][label] - used) < 0.02


def test_table_3_is_used_as_printed_on_mnist_and_weight_erosions_penalty_replaced_on_cifar10(card):
    table = card.values[card.values["table"].eq("table3") & card.values["paper"].eq("WAFFLE")]
    replaced = table[table["verdict"] == REPLACED]
    assert set(zip(replaced["dataset"], replaced["metric"], strict=True)) == {("CIFAR10", "p_d")}
    assert len(replaced) == 5 and (table["verdict"] == USED).sum() == 15
    assert set(replaced["page"]) == {"waffle-cifar10"}
    of_c = replaced[replaced["setting"] == "C"].iloc[0]
    assert of_c["ours"] == cifar10.p_d("C", 100) and f"{of_c['ours']:g} in" in of_c["because"]


# --- sentences ---


def test_a_yes_that_does_not_survive_a_true_average_is_counted_aloud(card):
    of = card.claims[card.claims["paper"] == "Weight Erosion"]
    turned = ((of["answer"] == "yes") & (of["done right"] == "no")).sum()
    yes = (of["answer"] == "yes").sum()
    assert turned and f"{turned} of the {yes} yes of Weight Erosion hold only as its authors" in (
        card.claims_sentence()
    )
    assert (card.claims.loc[card.claims["paper"] != "Weight Erosion", "done right"] == "").all()


def test_a_table_run_whole_in_the_exact_setting_is_named(card):
    values = card.values
    whole = values[(values["paper"] == "WAFFLE") & (values["dataset"] == "MNIST")]
    whole = whole[whole["table"] == "table1"]
    assert (whole["profile"] == "paper").all() and len(whole) == 30
    seeds = f"{whole['seeds'].min()} to {whole['seeds'].max()}"
    hit = (whole["verdict"] == "reproduced").sum()
    said = f" Table 1 of WAFFLE on MNIST was run whole in the exact setting: {hit} of 30 values"
    assert f"{said} reproduced, on {seeds} seeds." in card.sentence()
    assert card.sentence().count("was run whole") == 1


def test_answers_that_rest_on_the_small_profile_are_counted_aloud(card):
    small = card.claims.loc[card.claims["profile"] == "small", "answer"].value_counts()
    assert 0 < small["no"] <= (card.claims["answer"] == "no").sum()
    assert (
        f" Of these, {small['yes']} of the yes and {small['no']} of the no rest on the small"
        " profile." in card.claims_sentence()
    )


# --- how it is shown ---


def test_every_verdict_and_answer_has_a_colour():
    assert set(scores.COLOURS) == {*RESULTS, *SETTINGS, *ANSWERS}


def test_every_value_is_a_row_that_can_be_filtered_and_leads_to_its_page(card):
    shown = scores.values_html(card, {"waffle-table1": "waffle-table1.html"})
    assert shown.count("<tr data-paper=") == 558
    assert shown.count('href="waffle-table1.html"') == 30
    assert 'data-verdict="used as printed"' in shown and "96.88 ± 0.47" in shown
    assert shown.count('<td data-label="printed">') == shown.count('<td data-label="ours">') == 558
    assert (
        "<option>pFedLA</option>" in shown and 'class="filters" data-what="values" hidden' in shown
    )


def test_every_sentence_is_a_row_that_can_be_filtered_and_leads_to_its_papers_page(card):
    shown = scores.claims_html(card, {"waffle-claims": "waffle-claims.html"})
    of_waffle = (card.claims["paper"] == "WAFFLE").sum()
    assert shown.count("<tr data-paper=") == len(card.claims)
    assert shown.count('<tr data-paper="WAFFLE"') == of_waffle
    on_page = (card.claims["page"] == "waffle-claims").sum()
    assert shown.count('<a href="waffle-claims.html">WAFFLE</a>') == on_page < of_waffle
    for word, count in card.claims["answer"].value_counts().items():
        assert shown.count(f' data-answer="{word}">') == count
        assert f"<option>{word}</option>" in shown
    assert 'class="filters" data-what="sentences" hidden' in shown and "<script>" in shown
    assert ", done right: no" in shown


def test_each_mean_of_ours_is_marked_with_the_page_the_profile_and_the_first_run_behind_it(card):
    shown = scores.values_html(card, {})
    means = card.values[(card.values["kind"] == "result") & card.values["ours"].notna()]
    marked = [
        (page, profile, run)
        for page, profile, run in re.findall(
            r'<a class="of-run" data-page="(.*?)" data-profile="(.*?)" data-run="(.*?)">', shown
        )
    ]
    runs = means["run"].map(run_place)
    assert marked == list(zip(means["page"], means["profile"], runs, strict=True)) and marked
    assert (means["run"] != "").all() and (card.values.drop(means.index)["run"] == "").all()


def test_bars_have_the_counts_in_words_beside_them(card):
    shown = scores.scorecard_html(card, {"scorecard": "scorecard.html"})
    assert 'href="scorecard.html">All 558 values' in shown and card.sentence() in shown
    linked = scores.scorecard_html(card, {}, {"WAFFLE": "#waffle"})
    assert linked.count('<th scope="row"><a href="#waffle">WAFFLE</a></th>') == 2
    assert shown.count('class="bars"') == 2 and '<td data-word="printed values">558</td>' in shown


def test_the_picture_is_whole_and_says_in_words_what_it_shows(card):
    picture = ElementTree.fromstring(scores.svg(card))
    name = "{http://www.w3.org/2000/svg}"
    assert picture.find(f"{name}title").text == card.sentence()
    bars = [r for r in picture.iter(f"{name}rect") if r.get("rx") is None]  # the legend's have one
    rows: dict[str, float] = {}
    for bar in bars:
        rows[bar.get("y")] = rows.get(bar.get("y"), 0) + float(bar.get("width"))
    assert len(rows) == 4 and list(rows.values()) == pytest.approx([690] * 4, abs=0.5)


def test_the_readmes_table_has_a_row_for_each_paper_and_one_for_all(card):
    lines = scores.markdown(card).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        *scorecard.PAPERS.values(),
        "all",
    ]
    assert "| all | 558 |" in lines[-1]
    assert len({line.count("|") for line in lines}) == 1


def test_the_readmes_scorecard_is_that_of_the_published_results(card):
    """Else: make scorecard."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.partition(scores.BEGIN)[2].partition(scores.END)[0] == scores.in_readme(card)
    assert (ROOT / scores.PICTURE).read_text(encoding="utf-8") == scores.svg(card)


def test_writing_the_scorecard_leaves_the_rest_of_a_readme_as_it_is(card, tmp_path):
    (tmp_path / "docs").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{scores.BEGIN}old\n{scores.END}after\n")
    scores.update_readme(tmp_path, card)
    text = f"before\n{scores.BEGIN}{scores.in_readme(card)}{scores.END}after\n"
    assert readme.read_text(encoding="utf-8") == text
    readme.write_text("no place")
    with pytest.raises(BadInput, match="has no lines '<!-- scorecard"):
        scores.update_readme(tmp_path, card)


def test_compare_prints_the_same_scorecard(card, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(scorecard, "scorecard", lambda store: card)
    argv = ["compare", "--results-dir", str(tmp_path), "--format"]
    assert main([*argv, "scorecard"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert card.sentence() in told and card.claims_sentence() in told
    for row in card.counts().to_dict("records"):
        assert " ".join(map(str, row.values())) in told
    assert main([*argv, "values"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 559
    assert main([*argv, "values", "--profile", "paper"]) == 2
    assert "is about all papers: leave --only, --method, --profile" in capsys.readouterr().err
