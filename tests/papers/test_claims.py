"""Worked numbers for yes, no and undecided; then WAFFLE's own claims, answered by the paper's own
table.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pfl_lib.display.table_format import to_html
from pfl_lib.papers import values, waffle
from pfl_lib.papers.claims import (
    Claim,
    answer,
    answers,
    comparisons,
    every_pair,
    is_above,
    is_level,
    is_printed_above,
)
from pfl_lib.papers.verdicts import Printed
from pfl_lib.papers.waffle import claims
from pfl_lib.results.result import Result
from pfl_lib.results.summary import Ours


def seeds(*best: float) -> Ours:
    return Ours(tuple(range(1, len(best) + 1)), best)


DIVERGED = Ours(diverged=((1, 7),))


def test_one_contradicted_comparison_makes_the_answer_no_and_one_open_one_undecided():
    assert answer([True, True]) == "yes"
    assert answer([True, None, False]) == "no"
    assert answer([True, None]) == "undecided"
    assert answer([]) == "undecided"


@pytest.mark.parametrize(
    ("other", "holds"), [(98.0, True), (98.1, None), (99.0, None), (99.9, None), (100.0, False)]
)
def test_with_one_seed_a_whole_point_decides(other, holds):
    assert is_above(seeds(99.0), seeds(other)) is holds


@pytest.mark.parametrize(("other", "holds"), [(98.5, True), (98.6, None), (99.5, False)])
def test_with_three_seeds_four_tenths_of_a_point_decide(other, holds):
    assert is_above(seeds(*[99.0] * 3), seeds(*[other] * 3)) is holds


def test_one_that_may_be_level_holds_down_to_the_floor_with_its_uncertainty():
    """Differences -0.2, -0.1, 0.0: mean -0.1, two standard errors 0.2 / sqrt(3) = 0.115: at least
    -0.215.  Then -0.4, -0.3, -0.2: at least -0.415.
    """
    other = seeds(99.0, 99.0, 99.0)
    assert is_level(seeds(98.8, 98.9, 99.0), other) is True
    assert is_level(seeds(98.6, 98.7, 98.8), other) is None
    assert is_level(seeds(98.0, 98.1, 98.2), other) is False
    assert is_level(seeds(99.9, 99.9, 99.9), other) is True
    assert is_level(seeds(98.9), seeds(99.0)) is None  # one seed
    assert is_level(DIVERGED, seeds(99.0)) is False


def said(claim: Claim, printed: dict[str, float], **ours: float) -> tuple[str, str, str]:
    """The answer by three seeds of each method on C, by printed values, and what is not
    confirmed.
    """
    found = {("C", method): seeds(*[value] * 3) for method, value in ours.items()}
    values = {("C", method): Printed(value, 0.1) for method, value in printed.items()}
    row = answers([claim], replace(waffle.FULL, paper_seeds=3), found, values).iloc[0]
    return row["here"], row["by the paper's own numbers"], row["not confirmed here"]


def test_of_the_best_of_several_methods_the_best_of_both_sides_are_compared():
    claim = Claim("a or b is best", "4", every_pair("C", "ab", "cd"), best=True)
    printed = {"a": 90.0, "b": 50.0, "c": 80.0, "d": 60.0}
    assert said(claim, printed, **printed) == ("yes", "yes", "nothing")
    assert said(claim, printed, a=90.0, b=50.0, c=95.0, d=60.0) == (
        "no",
        "yes",
        "C: a above c (no)",
    )
    assert said(claim, printed, a=10.0, b=96.0, c=95.0, d=60.0) == ("yes", "yes", "nothing")
    assert said(claim, printed, a=90.0, b=50.0, c=90.2, d=60.0)[0] == "undecided"
    every = replace(claim, best=False)
    assert said(every, printed, **printed)[:2] == ("no", "no")


def test_a_method_that_was_not_run_could_be_the_best_and_one_that_diverged_is_not():
    claim = Claim("a or b is best", "4", every_pair("C", "ab", "cd"), best=True)
    printed = {("C", method): Printed(90.0 - ord(method), 0.1) for method in "abcd"}
    ours = {
        ("C", method): seeds(*[value] * 3)
        for method, value in zip("abd", (90, 50, 60), strict=True)
    }
    lost = Ours(diverged=((1, 7), (2, 7), (3, 7)))
    row = answers([claim], waffle.FULL, ours | {("C", "c"): lost}, printed).iloc[0]
    assert row["here"] == "yes (3 of 5 seeds)" and row["not confirmed here"] == "nothing"
    row = answers([claim], waffle.FULL, ours | {("C", "c"): Ours(missing=5)}, printed).iloc[0]
    assert row["here"] == "undecided (3 of 5 seeds)"
    assert row["not confirmed here"] == "2 of 3 comparisons, not run"


def test_a_claim_that_one_is_not_better_holds_where_both_are_level():
    claim = Claim("b is no better", "4", (("C", "a", "b"),), level=True)
    level = {"a": 90.0, "b": 90.05}
    assert said(claim, level, **level) == ("yes", "yes", "nothing")
    better = {"a": 90.0, "b": 91.0}
    assert said(claim, better, **better) == ("no", "no", "C: a above or level with b (no)")
    assert said(replace(claim, level=False), level, **level)[:2] == ("undecided", "undecided")
    wide = {("C", "a"): Printed(98.0, 3.0), ("C", "b"): Printed(100.0, 3.0)}
    same = {place: seeds(90.0, 90.0, 90.0) for place in wide}
    row = answers([claim], waffle.FULL, same, wide).iloc[0]
    assert row["by the paper's own numbers"] == "undecided"  # 2 points below, 3 tell nothing apart


def test_with_several_seeds_the_differences_seed_by_seed_decide():
    """Differences 0.5, 0.6, 0.7: mean 0.6 > 0.4 and > two standard errors, 0.2 / sqrt(3) = 0.115,
    although seeds differ by 10.
    """
    assert is_above(seeds(80.5, 90.6, 85.7), seeds(80.0, 90.0, 85.0)) is True
    assert is_above(seeds(80.0, 90.0, 85.0), seeds(80.5, 90.6, 85.7)) is False


def test_a_margin_below_the_floor_decides_nothing_however_little_it_scatters():
    """Five differences of 0.3 points, without any scatter."""
    assert is_above(seeds(*[80.3] * 5), seeds(*[80.0] * 5)) is None
    assert is_above(seeds(*[80.0] * 5), seeds(*[80.3] * 5)) is None


@pytest.mark.parametrize(("printed", "holds"), [(0.99, None), (-0.99, None), (1.0, True)])
def test_fewer_than_three_seeds_decide_nothing_that_is_less_than_a_point_in_the_paper(
    printed, holds
):
    for few in (seeds(99.0), seeds(99.0, 99.0)):
        low = Ours(few.seeds, tuple(value - 5 for value in few.values))
        assert is_above(few, low, printed) is holds
    assert is_above(seeds(99.0, 99.0, 99.0), seeds(90.0, 90.0, 90.0), printed) is True


def test_each_comparison_is_shown_with_the_margin_that_decides_it():
    """Differences 0.5, 0.6, 0.7 and two standard errors of 0.2 / sqrt(3); one seed has none."""
    ours = {
        ("C", "a"): seeds(80.5, 90.6, 85.7),
        ("C", "b"): seeds(80.0, 90.0, 85.0),
        ("B", "a"): seeds(90.0),
        ("B", "b"): Ours(missing=1),
        ("B", "c"): seeds(85.0),
    }
    printed = {place: Printed(90.0 + place[1].count("a"), 0.1) for place in ours}
    claim = Claim("a wins", "section 4", (("C", "a", "b"), ("B", "a", "b"), ("B", "a", "c")))
    rows = comparisons([claim], waffle.FULL, ours, printed)
    assert rows["claim"].tolist() == [1, 1, 1] and rows["paper"].tolist() == [1.0, 1.0, 1.0]
    assert rows["here"].tolist() == [pytest.approx(0.6), pytest.approx(math.nan, nan_ok=True), 5.0]
    assert rows["plus or minus"].iloc[0] == pytest.approx(0.2 / math.sqrt(3))
    assert rows["plus or minus"].iloc[1:].isna().all() and rows["seeds"].tolist() == [3, 0, 1]
    assert rows["holds"].tolist() == ["yes", "undecided", "yes"]
    assert set(comparisons([claim], waffle.QUICK, ours, printed)["holds"]) == {
        "no answer (quick profile)"
    }


def test_differences_that_scatter_more_than_their_mean_leave_it_open():
    """Differences 1, -1, 1: mean 0.333, standard error 1.155 / sqrt(3) = 0.667."""
    assert is_above(seeds(91.0, 89.0, 91.0), seeds(90.0, 90.0, 90.0)) is None


def test_only_seeds_that_both_methods_finished_are_compared():
    assert is_above(Ours((2,), (99.0,)), Ours((1,), (10.0,))) is None


def test_a_diverged_method_is_above_nothing_and_being_above_one_decides_nothing():
    assert is_above(DIVERGED, seeds(10.0)) is False
    assert is_above(seeds(99.0), DIVERGED) is None
    assert is_above(DIVERGED, DIVERGED) is None


def test_one_seed_that_diverged_denies_nothing_that_is_less_than_a_point_in_the_paper():
    assert is_above(DIVERGED, seeds(10.0), 0.99) is None
    assert is_above(DIVERGED, seeds(10.0), 1.0) is False
    thrice = Ours(diverged=((1, 7), (2, 7), (3, 7)))
    assert is_above(thrice, seeds(10.0, 10.0, 10.0), 0.99) is False


def test_a_seed_on_which_one_method_diverged_and_the_other_was_not_run_decides_nothing():
    lost = Ours((1, 2), (90.0, 91.0), ((3, 7),))
    assert is_above(lost, seeds(80.0, 81.0)) is True
    assert is_above(seeds(80.0, 81.0), lost) is False


def test_the_papers_own_numbers_are_compared_with_the_larger_printed_spread():
    assert is_printed_above(Printed(99.0, 0.08), Printed(98.77, 0.1)) is True
    assert is_printed_above(Printed(99.24, 0.17), Printed(99.36, 0.09)) is None
    assert is_printed_above(Printed(90.0, math.nan), Printed(91.0, math.nan)) is False
    assert is_printed_above(Printed(91.4, math.nan), Printed(91.0, math.nan)) is None


def test_the_table_of_answers_lists_the_numbers_best_first_and_what_is_not_confirmed():
    claim = Claim("a beats b and c", "section 9", (("C", "a", "b"), ("C", "a", "c")))
    ours = {("C", "a"): seeds(99.0), ("C", "b"): seeds(97.0), ("C", "c"): DIVERGED}
    printed = {place: Printed(9.0 if place[1] == "a" else 1.0, 0.1) for place in ours}
    row = answers([claim], waffle.SMALL, ours, printed).iloc[0]
    assert row["here"] == "undecided (1 of 5 seeds)"
    assert row["numbers here"] == "C: a 99.00, b 97.00, c diverged at round 7"
    assert row["not confirmed here"] == "C: a above c (undecided)"


def test_what_is_not_confirmed_of_one_method_stands_together_by_place_and_answer():
    """By three seeds: above b and c it is contradicted on B and C, above d open on C."""
    claim = Claim("a beats all", "section 9", every_pair("BC", "a", "bcd"))
    high, low = seeds(95.0, 96.0, 97.0), seeds(90.0, 91.0, 92.0)
    ours = {(where, method): high for where in "BC" for method in "bcd"}
    ours |= {(where, "a"): low for where in "BC"} | {("C", "d"): low}
    printed = {place: Printed(9.0, 0.1) for place in ours}
    row = answers([claim], waffle.FULL, ours, printed).iloc[0]
    assert row["not confirmed here"] == (
        "B: a above b or c or d (no); C: a above b or c (no); C: a above d (undecided)"
    )
    assert (
        answers([claim], waffle.QUICK, ours, printed).iloc[0]["here"] == "no answer (quick profile)"
    )


class Shelf:
    """A store whose runs reach `percent(method, distribution)` at once, with the weights
    `weights(method)`.

    `diverged`: method -> the round at which its run diverged.
    """

    def __init__(self, percent, weights=lambda method: None, rises=lambda method: 1, diverged=()):
        self.percent, self.weights, self.rises, self.diverged = (
            percent,
            weights,
            rises,
            dict(diverged),
        )
        profiles = (waffle.SMALL, waffle.QUICK)
        self.places = {
            waffle.spec(m, d, p, seed).key: (m, d, p.rounds)
            for m in waffle.METHODS
            for p in profiles
            for seed in (1, 2, 3)
            for d in waffle.run_on(p)
        }

    def find(self, spec):
        method, distribution, rounds = self.places[spec.key]
        curve = np.full(rounds, self.percent(method, distribution) / 100)
        curve[: self.rises(method) - 1] = 0.1
        diverged = self.diverged.get(method)
        series = pd.Series(curve, index=pd.RangeIndex(1, rounds + 1))[: diverged and diverged - 1]
        metrics = pd.DataFrame({"round": series.index, "client": 0, "accuracy": series.values})
        weights = self.weights(method)
        return Result({"alice": 0}, metrics, weights, diverged, 1.0)


def printed_percent(method: str, distribution: str) -> float:
    return values.value("waffle", "table1", "MNIST", distribution, method).value


def test_by_its_own_table_the_paper_contradicts_one_of_its_sentences():
    """On C, APFL has 98.45, the global methods 98.56 and 98.77: it is not better "except for the
    IID distribution".
    """
    frame = claims.accuracy_claims(waffle.SMALL, Shelf(printed_percent))
    own = dict(zip(frame["claim"], frame["by the paper's own numbers"], strict=True))
    assert [claim for claim, word in own.items() if word == "no"] == [
        "Regarding APFL, the method also performs better than global FL methods except for the IID"
        " distribution (A)"
    ]
    assert (
        own["On MNIST, WAFFLE and WE outperform the other methods for the label skews (B, C)"]
        == "yes"
    )


def test_runs_far_apart_answer_from_one_seed_only_where_the_papers_numbers_are_a_point_apart():
    """On A* and B* the paper's personalised methods lie 40 points and more above the global ones.
    On B and C all differ by less than a point, so one seed decides nothing.
    """
    order = {"WE": 99, "WAFFLE": 98, "Local": 97, "APFL": 96, "SCAFFOLD": 50, "FedAvg": 40}
    frame = claims.accuracy_claims(waffle.SMALL, Shelf(lambda method, distribution: order[method]))
    words = dict(zip(frame["claim"], frame["here"], strict=True))
    shift = (
        "For the concept shift distributions (A*, B*), all personalized FL methods improve accuracy"
        " compared to global FL methods"
    )
    assert words[shift] == "yes (1 of 5 seeds)"
    skews = "On MNIST, WAFFLE and WE outperform the other methods for the label skews (B, C)"
    assert words[skews] == "undecided (1 of 5 seeds)"
    iid = (
        "like with MNIST, global FL methods outperform personalized methods on the IID distribution"
    )
    assert words[iid] == "no (1 of 5 seeds)"  # APFL is printed 1.44 points below FedAvg


def test_an_answer_says_on_how_few_of_the_papers_seeds_it_rests():
    claim = Claim("a beats b", "section 9", (("C", "a", "b"),))
    printed = {("C", "a"): Printed(9.0, 0.1), ("C", "b"): Printed(1.0, 0.1)}

    def said(a: Ours, b: Ours) -> str:
        return answers([claim], waffle.FULL, {("C", "a"): a, ("C", "b"): b}, printed).iloc[0][
            "here"
        ]

    five = seeds(99.0, 99.1, 99.2, 99.1, 99.0)
    assert said(five, seeds(*(best - 1 for best in five.values))) == "yes"
    assert said(five, seeds(98.0, 98.1)) == "yes (2 of 5 seeds)"
    assert said(five, Ours(missing=5)) == said(Ours(missing=5), Ours(missing=5)) == "not run"


def test_what_was_not_run_is_counted_and_not_listed_comparison_by_comparison():
    """On A nothing was run, on C a and b but not c."""
    claim = Claim("a beats all", "section 9", (("C", "a", "b"), ("C", "a", "c"), ("A", "a", "b")))
    printed = {(where, method): Printed(9.0, 0.1) for where in "CA" for method in "abc"}
    ours = {("C", "a"): seeds(90.0, 91.0, 92.0), ("C", "b"): seeds(95.0, 96.0, 97.0)}
    none = {place: Ours(missing=5) for place in printed}
    row = answers([claim], waffle.FULL, none | ours, printed).iloc[0]
    assert row["numbers here"] == "C: b 96.00, a 91.00; C: c not run; A: not run"
    assert row["not confirmed here"] == "C: a above b (no); 2 of 3 comparisons, not run"


def test_an_answer_rests_on_the_seeds_that_the_compared_methods_have_in_common():
    """One of the two or three that each has; the numbers say whose seeds they are of.  On seed 3, a
    is 1.5 above b.
    """
    claim = Claim("a beats b", "section 9", (("C", "a", "b"),))
    printed = {("C", "a"): Printed(9.0, 0.1), ("C", "b"): Printed(1.0, 0.1)}
    a, b = Ours((1, 2, 3), (90.0, 91.0, 99.0)), Ours((3, 4), (97.5, 99.5))

    def row(**changed: Ours) -> pd.Series:
        ours = {("C", method): found for method, found in ({"a": a, "b": b} | changed).items()}
        return answers([claim], waffle.FULL, ours, printed).iloc[0]

    assert row()["here"] == "yes (1 of 5 seeds)"
    assert row()["numbers here"] == "C: b 98.50 (seeds 3 to 4), a 93.33 (seeds 1 to 3)"
    assert row(b=Ours((4,), (10.0,)))["here"] == "undecided (0 of 5 seeds)"
    assert row(a=Ours(diverged=((4, 7),)))["here"] == "no (1 of 5 seeds)"
    assert row(a=Ours(diverged=((5, 7),)))["here"] == "undecided (0 of 5 seeds)"


def test_a_claims_numbers_link_to_their_runs():
    ours = {("C", "a"): replace(seeds(99.0), run="a-C-1"), ("C", "b"): seeds(91.0)}
    printed = dict.fromkeys(ours, Printed(0, 0))
    told = answers([Claim("a is best", "4", (("C", "a", "b"),))], waffle.FULL, ours, printed)
    shown = to_html(told, "told")
    assert 'C: a <a class="of-run" href="#run-a-C-1">99.00</a>, b 91.00</td>' in shown
    assert told["numbers here"].tolist() == ["C: a 99.00, b 91.00"]
