"""Worked numbers; the row "C" is WAFFLE's Table 1, MNIST, distribution C."""

import math
from types import SimpleNamespace

import pytest

from pfl_lib.errors import BadInput
from pfl_lib.papers.verdicts import (
    MEANINGS,
    PROFILES,
    Printed,
    Ranking,
    clearly_ordered,
    judge,
    ranking,
    tolerance,
)
from pfl_lib.results.summary import Ours, differences, gather, status

C = {
    "Local": Printed(98.54, 0.1),
    "FedAvg": Printed(98.56, 0.1),
    "SCAFFOLD": Printed(98.77, 0.1),
    "WE": Printed(99.0, 0.08),
    "WAFFLE": Printed(99.0, 0.08),
    "APFL": Printed(98.45, 0.08),
}
HOLDS, FAILS, NO_PAIRS = Ranking(11, 11), Ranking(7, 11), Ranking(0, 0)


def once(best: float) -> Ours:
    return Ours(seeds=(1,), best=(best,), last=(best - 0.2,))


def seeds(*best: float) -> Ours:
    return Ours(tuple(range(1, len(best) + 1)), best, best)


DIVERGED = Ours(diverged=((1, 7),))


# reproduced


def test_within_four_tenths_of_a_point_is_reproduced_in_the_paper_profile():
    """|98.41 - 98.56| = 0.15 <= max(0.4, 2 * 0.1)."""
    verdict = judge("paper", C["FedAvg"], once(98.41), FAILS)
    assert str(verdict) == "reproduced: 0.15 points apart, 0.40 allowed"


@pytest.mark.parametrize(
    ("best", "word"), [(98.96, "reproduced"), (98.16, "reproduced"), (98.97, "not reproduced")]
)
def test_exactly_four_tenths_counts_as_within(best, word):
    assert judge("paper", C["FedAvg"], once(best), FAILS).word == word


def test_a_wide_spread_in_the_paper_widens_the_tolerance():
    """FedAvg on A* prints 13.37 with 3.21: 2 * 3.21 = 6.42 points are allowed."""
    printed = Printed(13.37, 3.21)
    assert tolerance(printed, once(19.0)) == pytest.approx(6.42)
    assert judge("paper", printed, once(19.7), FAILS).word == "reproduced"
    assert judge("paper", printed, once(19.8), FAILS).word == "not reproduced"


def test_our_own_standard_error_widens_the_tolerance():
    """Seeds 10, 12, 14: standard deviation 2, standard error 2 / sqrt(3) = 1.1547, so 2.3094
    points.
    """
    ours = seeds(10.0, 12.0, 14.0)
    assert ours.std == pytest.approx(2)
    assert tolerance(Printed(14.0, 0.1), ours) == pytest.approx(2.3094, abs=1e-4)
    assert judge("paper", Printed(14.0, 0.1), ours, FAILS).word == "reproduced"


def test_one_seed_has_no_standard_error_and_the_tolerance_stays_at_its_floor():
    assert math.isnan(once(98.0).standard_error)
    assert tolerance(Printed(98.56, 0.1), once(98.0)) == 0.4


def test_a_value_printed_without_spread_is_judged_with_spread_zero():
    assert tolerance(Printed(77.1, math.nan), once(77.0)) == 0.4


@pytest.mark.parametrize("profile", ["small", "quick"])
def test_only_the_paper_profile_can_reproduce(profile):
    assert judge(profile, C["FedAvg"], once(98.56), HOLDS).word != "reproduced"


# same ranking


def test_a_pair_is_clearly_ordered_when_it_differs_by_more_than_both_spreads():
    """SCAFFOLD - FedAvg = 0.21 > 0.1 counts; FedAvg - Local = 0.02 and APFL's 0.09 below Local do
    not.

    WE and WAFFLE each stand above Local, FedAvg, SCAFFOLD and APFL (8), SCAFFOLD above Local,
    FedAvg and APFL (3), and FedAvg 0.11 above APFL with spreads 0.1 and 0.08 (1): 12 pairs.
    """
    pairs = clearly_ordered(C)
    assert len(pairs) == 12
    assert ("SCAFFOLD", "FedAvg") in pairs and ("FedAvg", "APFL") in pairs
    assert {"FedAvg", "Local"} not in [set(pair) for pair in pairs]


def test_a_difference_equal_to_a_spread_is_not_clear():
    assert (
        clearly_ordered({"a": Printed(99.1, 0.1), "b": Printed(99.0, 0.1)}) == []
    )  # 0.09999 or 0.10001 in binary
    assert clearly_ordered({"a": Printed(2.0, 0.5), "b": Printed(1.5, 0.1)}) == []
    assert clearly_ordered({"a": Printed(1.5, 0.1), "b": Printed(2.5, 0.5)}) == [("b", "a")]


def test_nine_pairs_in_ten_in_the_same_order_are_the_same_ranking():
    assert Ranking(9, 10).holds is True
    assert Ranking(8, 9).holds is False  # 0.889
    assert Ranking(11, 12).holds is True  # 0.917


def test_one_of_twelve_pairs_the_other_way_round_is_still_the_same_ranking():
    """SCAFFOLD one tenth above WE turns one pair; both WE and WAFFLE below it turn two, 10 of 12 =
    0.83.
    """
    found = {
        "Local": 97.0,
        "FedAvg": 97.5,
        "SCAFFOLD": 98.6,
        "WE": 98.5,
        "WAFFLE": 98.7,
        "APFL": 96.0,
    }
    row = ranking(C, {name: once(value) for name, value in found.items()})
    assert (row.same, row.pairs, row.holds) == (11, 12, True)
    assert judge("small", C["WE"], once(98.5), row).word == "same ranking"
    row = ranking(C, {name: once(value) for name, value in (found | {"SCAFFOLD": 98.9}).items()})
    assert (row.same, row.holds) == (10, False)
    verdict = judge("small", C["WE"], once(98.5), row)
    assert (
        str(verdict)
        == "other ranking: 10 of 12 pairs in the paper's order, not WE above SCAFFOLD or WAFFLE"
        " above SCAFFOLD"
    )
    assert judge("paper", C["WE"], once(98.5), row).word == "not reproduced"


def test_a_pair_is_compared_on_the_seeds_that_both_ran():
    """On seed 1, a is above b; b's second seed lifts its mean above a's, and counts for nothing."""
    row = {"a": Printed(2.0, 0.1), "b": Printed(1.0, 0.1)}
    assert ranking(row, {"a": once(5.0), "b": seeds(4.0, 9.0)}) == Ranking(1, 1, seeds=1)
    assert ranking(
        row, {"a": once(5.0), "b": Ours(seeds=(2,), best=(4.0,), last=(4.0,))}
    ) == Ranking(0, 1, unknown=1)
    assert differences(
        seeds(4.0, 9.0), Ours(seeds=(2,), best=(5.0,), last=(5.0,), diverged=((1, 3),))
    ) == [4.0]


def test_a_pair_with_a_run_that_diverged_is_not_in_the_papers_order_either_way():
    row = {"a": Printed(2.0, 0.1), "b": Printed(1.0, 0.1)}
    for found in (
        {"a": once(5.0), "b": DIVERGED},
        {"a": DIVERGED, "b": once(1.0)},
        {"a": DIVERGED, "b": DIVERGED},
    ):
        assert ranking(row, found) == Ranking(0, 1, 0, 1, (("a", "b"),))


def test_a_run_that_diverged_on_a_seed_that_the_other_method_never_ran_counts_for_nothing():
    row, second = {"a": Printed(2.0, 0.1), "b": Printed(1.0, 0.1)}, Ours((2,), (4.0,), (4.0,))
    both = Ours((2,), (5.0,), (5.0,), diverged=((1, 7),))
    assert ranking(row, {"a": DIVERGED, "b": second}) == Ranking(0, 1, unknown=1)
    assert ranking(row, {"a": both, "b": second}) == Ranking(1, 1, seeds=1)


def test_a_ranking_says_on_how_few_seeds_some_pair_of_it_rests():
    row = {"a": Printed(3.0, 0.1), "b": Printed(2.0, 0.1), "c": Printed(1.0, 0.1)}
    found = {"a": seeds(9.0, 9.0, 9.0), "b": seeds(8.0, 8.0), "c": once(7.0)}
    order = ranking(row, found)
    assert order == Ranking(3, 3, seeds=1)
    assert str(judge("paper", row["a"], found["a"], order, paper_seeds=3)).startswith(
        "same ranking (1 of 3 seeds): 3 of 3"
    )
    assert str(judge("paper", Printed(9.0, 0.1), found["a"], order, paper_seeds=3)).startswith(
        "reproduced: 0.00"
    )


def test_of_many_pairs_that_are_turned_two_are_named():
    turned = (("a", "b"), ("a", "c"), ("b", "c"))
    assert (
        str(Ranking(1, 4, turned=turned))
        == "1 of 4 pairs in the paper's order, not a above b or a above c or 1 more"
    )
    assert (
        str(Ranking(1, 3, unknown=1, turned=turned[:1]))
        == "1 of 3 pairs in the paper's order, 1 not compared, not a above b"
    )


def test_a_tie_here_is_not_the_papers_order():
    row = {"a": Printed(2.0, 0.1), "b": Printed(1.0, 0.1)}
    assert ranking(row, {"a": once(5.0), "b": once(5.0)}).same == 0


def test_outside_the_tolerance_the_paper_profile_can_still_have_the_same_ranking():
    assert judge("paper", C["FedAvg"], once(97.0), HOLDS).word == "same ranking"


def test_a_row_without_clearly_ordered_pairs_gives_no_ranking():
    """Then only the distance to the printed value can speak, and only in the paper profile."""
    row = {"a": Printed(2.0, 3.0), "b": Printed(1.0, 3.0)}
    assert ranking(row, {"a": once(9.0), "b": once(1.0)}) == NO_PAIRS
    assert judge("small", row["a"], once(9.0), NO_PAIRS).word == "no verdict"
    assert judge("paper", Printed(2.0, 0.1), once(9.0), NO_PAIRS).word == "not reproduced"


# not reproduced, not run, no verdict


def test_a_known_reason_is_given_in_place_of_reason_unknown():
    assert str(judge("paper", C["FedAvg"], once(97.0), FAILS)).endswith("; reason unknown")
    explained = judge("paper", C["FedAvg"], once(97.0), FAILS, known_reason="another network")
    assert (
        explained.reason
        == "1.56 points apart, 0.40 allowed; 7 of 11 pairs in the paper's order; another network"
    )


def test_a_diverged_run_is_a_word_never_a_number():
    assert DIVERGED.status == "diverged at round 7"
    assert math.isnan(DIVERGED.mean) and math.isnan(DIVERGED.std)
    assert (
        str(judge("paper", C["WAFFLE"], DIVERGED, HOLDS)) == "not reproduced: diverged at round 7"
    )


def test_one_diverged_seed_among_several_leaves_no_number_either():
    ours = Ours(seeds=(1,), best=(99.0,), last=(98.0,), diverged=((2, 9),))
    assert ours.status == "diverged at round 9 (seed 2)"
    assert math.isnan(ours.mean) and math.isnan(ours.last_mean)


def test_a_verdict_on_fewer_seeds_than_the_paper_averages_says_on_how_many():
    def said(ours: Ours) -> str:
        return str(judge("paper", C["FedAvg"], ours, FAILS, paper_seeds=5))

    assert said(once(98.41)) == "reproduced (1 of 5 seeds): 0.15 points apart, 0.40 allowed"
    assert said(once(90.0)).startswith("not reproduced (1 of 5 seeds): 8.56 points apart")
    assert said(DIVERGED) == "not reproduced (1 of 5 seeds): diverged at round 7"
    assert (
        said(seeds(98.4, 98.4, 98.4, 98.4, 98.4)) == "reproduced: 0.16 points apart, 0.40 allowed"
    )
    assert said(Ours(missing=5)) == "not run"


def test_every_word_of_a_verdict_has_a_meaning():
    results = {once(98.41), once(90.0), DIVERGED, Ours(missing=1)}
    rows = (HOLDS, FAILS, NO_PAIRS, Ranking(10, 12, unknown=1))
    said = {
        judge(p, C["FedAvg"], ours, row).word for p in PROFILES for ours in results for row in rows
    }
    assert said == set(MEANINGS)


def test_one_run_is_told_in_the_words_of_several():
    assert (status(None), status(SimpleNamespace(diverged=7))) == ("not run", "diverged at round 7")


def test_without_a_result_the_value_is_not_run():
    assert {str(judge(profile, C["WE"], Ours(missing=1), HOLDS)) for profile in PROFILES} == {
        "not run"
    }


def test_pairs_not_run_leave_the_ranking_open_only_while_they_could_decide_it():
    assert Ranking(10, 12, unknown=1).holds is None
    assert Ranking(9, 12, unknown=1).holds is False
    assert judge("small", C["WE"], once(99.0), Ranking(10, 12, unknown=1)).word == "no verdict"
    assert judge("paper", C["WE"], once(90.0), Ranking(10, 12, unknown=1)).word == "no verdict"


def test_methods_not_run_are_counted_as_unknown_pairs():
    row = ranking(C, {"WE": once(99.0), "FedAvg": once(98.0)})
    assert (row.same, row.pairs, row.unknown) == (1, 12, 11)


def test_quick_pages_give_no_verdict():
    assert str(judge("quick", C["WE"], once(99.0), HOLDS)) == "no verdict: quick profile"


def test_an_unknown_profile_is_refused():
    with pytest.raises(BadInput, match="profile 'tiny' is not one of quick, small, paper"):
        judge("tiny", C["WE"], once(99.0), HOLDS)


def test_results_are_gathered_in_percent_with_diverged_and_missing_runs_apart():
    finished = SimpleNamespace(diverged=None, best_accuracy=0.99, last_accuracy=0.98)
    broken = SimpleNamespace(diverged=7, best_accuracy=0.5, last_accuracy=0.1)
    ours = gather([(1, finished), (2, broken), (3, None)])
    assert (ours.seeds, ours.diverged, ours.missing) == ((1,), ((2, 7),), 1)
    assert ours.best == pytest.approx((99.0,)) and ours.last == pytest.approx((98.0,))
