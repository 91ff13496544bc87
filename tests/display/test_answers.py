"""The table of a paper's sentences with their answers, as a picture."""

import math

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from pfl_lib.display import answers

SENTENCES = pd.DataFrame(
    {
        "claim": ["A beats B", "B beats C", "C beats A " + "by very much " * 20],
        "here": ["yes (1 of 5 seeds)", "no (1 of 5 seeds)", "not run"],
        "by the paper's own numbers": ["yes", "undecided", "–"],
    }
)
BEHIND = pd.DataFrame(
    {
        "claim": [1, 1, 2, 3],
        "here": [2.0, 30.0, -0.5, math.nan],
        "holds": ["yes", "yes", "no", "undecided"],
    }
)


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def marks(axes) -> list[tuple[float, float, str]]:
    """Every marker's x, y and shape; the lines between rows have none."""
    return [
        (line.get_xdata()[0], line.get_ydata()[0], line.get_marker())
        for line in axes.get_lines()
        if line.get_marker() != "None"
    ]


def test_each_answer_has_its_own_marker_beside_its_word_and_what_was_not_run_has_none():
    figure, _ = answers.answered_sentences(SENTENCES)
    judged = figure.axes[0]
    shapes = [(int(x), y, shape) for x, y, shape in marks(judged)]
    assert shapes == [(0, 0, "o"), (0, 1, "X"), (1, 0, "o"), (1, 1, "D")]
    assert {"yes", "no", "undecided", "not run", "–"} <= set(words(judged))


def test_a_sentence_that_was_not_run_is_grey_and_a_long_one_is_cut():
    figure, _ = answers.answered_sentences(SENTENCES)
    colours = [to_hex(text.get_color()) for text in figure.axes[1].texts]
    assert colours == ["#000000", "#000000", answers.GREY]
    *_, long = words(figure.axes[1])
    assert long.startswith("3. C beats A") and long.endswith("…") and long.count("\n") == 1


@pytest.mark.parametrize(
    ("second", "heading", "below"),
    [
        ("no (1 of 5 seeds)", "by our runs\n(1 of 5 seeds)", "yes"),
        ("no (2 of 5 seeds)", "by our runs", "yes\n1 of 5 seeds"),
    ],
)
def test_seeds_stand_in_the_heading_where_all_answers_share_them(second, heading, below):
    given = SENTENCES.assign(here=["yes (1 of 5 seeds)", second, "not run"])
    figure, _ = answers.answered_sentences(given)
    assert {heading, below} <= set(words(figure.axes[0]))


def test_a_sentence_asked_of_several_data_sets_names_its_own():
    given = SENTENCES.assign(dataset=["MNIST", "CIFAR10", math.nan])
    figure, _ = answers.answered_sentences(given)
    first, second, third = words(figure.axes[1])
    assert (first, second) == ("1. MNIST: A beats B", "2. CIFAR10: B beats C")
    assert third.startswith("3. C beats A")


def test_comparisons_stand_in_the_row_of_their_sentence_at_their_difference():
    figure, alt = answers.answered_sentences(SENTENCES, BEHIND, floor=0.4)
    drawn = [(x, round(y), shape) for x, y, shape in marks(figure.axes[2])]
    assert sorted(drawn) == [(-0.5, 1, "X"), (2.0, 0, "o"), (30.0, 0, "o")]
    low, high = figure.axes[2].get_xlim()
    assert low < -0.5 and high > 30
    assert alt.endswith(
        "3 comparisons behind them, drawn as differences in points: 2 yes, 1 no;"
        " 1 more have no number."
    )


def test_an_answer_that_is_missing_is_a_dash():
    given = SENTENCES.assign(here=[math.nan, "no", "not run"])
    figure, alt = answers.answered_sentences(given)
    assert "–" in words(figure.axes[0]) and "By our runs: 1 no (2), 1 not run (3)." in alt


def test_the_alt_text_says_which_sentences_have_which_answer():
    _, alt = answers.answered_sentences(SENTENCES)
    assert alt == (
        "Table of 3 sentences and their answers. By our runs: 1 yes (1), 1 no (2), 1 not run (3)."
        " By the paper's numbers: 1 yes (1), 1 undecided (2)."
    )
