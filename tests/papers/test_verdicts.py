"""Worked numbers; the row "C" is WAFFLE's Table 1, MNIST, distribution C, over five seeds."""

import math
from types import SimpleNamespace

import pytest

from pfl_lib.errors import BadInput
from pfl_lib.papers import values
from pfl_lib.papers.verdicts import (
    MEANINGS,
    PROFILES,
    Printed,
    clearly_ordered,
    judge,
    ranking,
    reach,
    tolerance,
    wrong_pairings,
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
TWO = {"high": Printed(90.0, 0.5), "low": Printed(80.0, 0.5)}


def of_distribution(name: str) -> dict[str, Printed]:
    """A row of WAFFLE's Table 1, MNIST."""
    table = values.of_table("waffle", "table1")
    return {
        method: printed
        for (dataset, setting, method, _), printed in table.items()
        if (dataset, setting) == ("MNIST", name)
    }


def seeds(*best: float) -> Ours:
    return Ours(tuple(range(1, len(best) + 1)), best, best)


def as_printed(row: dict[str, Printed], **ours: float) -> dict[str, Ours]:
    """One seed of each method at its printed value, or at the value given."""
    return {name: seeds(ours.get(name, printed.value)) for name, printed in row.items()}


def word(profile: str, method: str, row: dict[str, Printed], ours: dict[str, Ours]) -> str:
    return judge(profile, method, row, ours, paper_seeds=5).word


DIVERGED = Ours(diverged=((1, 7),))


# reproduced


def test_within_four_tenths_of_a_point_is_reproduced_in_the_paper_profile():
    """|98.41 - 98.56| = 0.15 <= max(0.4, 2 * 0.1 * sqrt(1/5 + 1) = 0.22)."""
    verdict = judge("paper", "FedAvg", C, {"FedAvg": seeds(98.41)})
    assert str(verdict) == "reproduced: 0.15 apart, 0.40 allowed (%)"


@pytest.mark.parametrize(("best", "reproduced"), [(98.96, True), (98.16, True), (98.97, False)])
def test_exactly_four_tenths_counts_as_within(best, reproduced):
    ours = as_printed(C, FedAvg=best)
    assert (word("paper", "FedAvg", C, ours) == "reproduced") == reproduced


def test_the_papers_spread_widens_the_tolerance_by_the_seeds_of_both_means():
    """FedAvg on A* prints 13.37 with 3.21 over five seeds.  Against one seed of ours
    2 * 3.21 * sqrt(1/5 + 1/1) = 7.033 points are allowed, against five seeds
    2 * 3.21 * sqrt(2/5) = 4.060.
    """
    row = of_distribution("A*")
    assert row["FedAvg"] == (13.37, 3.21)
    assert tolerance(row, "FedAvg", 1, 5) == pytest.approx(7.0328, abs=1e-4)
    assert tolerance(row, "FedAvg", 5, 5) == pytest.approx(4.0604, abs=1e-4)
    assert word("paper", "FedAvg", row, as_printed(row, FedAvg=20.4)) == "reproduced"
    assert word("paper", "FedAvg", row, as_printed(row, FedAvg=20.41)) != "reproduced"


@pytest.mark.parametrize("scatter", [0.0, 1.0, 30.0])
def test_our_own_spread_never_widens_the_tolerance(scatter):
    """Three seeds around 98.97, 0.41 above the printed 98.56, however far they scatter."""
    ours = as_printed(C) | {"FedAvg": seeds(98.97 - scatter, 98.97, 98.97 + scatter)}
    assert word("paper", "FedAvg", C, ours) != "reproduced"


def test_two_seeds_that_contradict_each_other_do_not_reproduce_a_value_between_them():
    """SCAFFOLD on A* prints 19.93; two seeds reached 75.5 and 25, mean 50.25, standard error 25."""
    row = of_distribution("A*")
    assert row["SCAFFOLD"].value == 19.93
    ours = as_printed(row) | {"SCAFFOLD": seeds(75.5, 25.0)}
    assert word("paper", "SCAFFOLD", row, ours) != "reproduced"


def test_a_value_printed_without_spread_has_the_floor_alone():
    row = {"a": Printed(77.1, math.nan), "b": Printed(60.0, math.nan)}
    assert tolerance(row, "a", 1, 5) == 0.4


@pytest.mark.parametrize("profile", ["small", "quick"])
def test_only_the_paper_profile_can_reproduce(profile):
    assert word(profile, "FedAvg", C, as_printed(C)) != "reproduced"


@pytest.mark.parametrize("gap", [0.0, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("std", [math.nan, 0.1, 2.0, 40.0])
def test_no_value_further_than_half_its_rows_range_is_reproduced_or_in_the_same_order(gap, std):
    """Or than one point, where the row's values lie closer; whatever spread the paper prints."""
    row = {"a": Printed(50.0, std), "b": Printed(50.0 - gap, std), "c": Printed(50.0 - gap, std)}
    limit = max(gap / 2, 1.0)
    assert reach(row) == limit
    for off in (-limit - 0.001, limit + 0.001):
        ours = as_printed(row, a=50.0 + off)
        assert word("paper", "a", row, ours) == "not reproduced"


# same order


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
    # 0.09999 or 0.10001 in binary
    assert clearly_ordered({"a": Printed(99.1, 0.1), "b": Printed(99.0, 0.1)}) == []
    without = {"a": Printed(99.4, math.nan), "b": Printed(99.0, math.nan)}
    assert clearly_ordered(without) == []  # the floor of an accuracy: 0.4 points
    assert clearly_ordered(without | {"c": Printed(98.9, math.nan)}) == [("a", "c")]
    assert clearly_ordered(without | {"a": Printed(99.4, 0.3)}) == [("a", "b")]
    assert clearly_ordered({"a": Printed(2.0, 0.5), "b": Printed(1.5, 0.1)}) == []
    assert clearly_ordered({"a": Printed(1.5, 0.1), "b": Printed(2.5, 0.5)}) == [("b", "a")]


def test_the_order_of_a_value_is_that_of_the_pairs_with_its_method_alone():
    """SCAFFOLD above WE turns one of the twelve pairs.  APFL, 0.9 off, is in no turned pair."""
    ours = as_printed(C, SCAFFOLD=99.2, APFL=97.55)
    row = ranking(C, ours)
    assert row.turned == (("WE", "SCAFFOLD"), ("WAFFLE", "SCAFFOLD")) and len(row.stand) == 10
    assert ranking(C, ours, "APFL").pairs == 4 and ranking(C, ours, "APFL").holds is True
    assert str(judge("paper", "APFL", C, ours, 5)) == (
        "same order (1 of 5 seeds): 0.90 apart, 0.40 allowed (%); 4 of 4 clear pairs in the paper's"
        " order"
    )
    assert str(judge("paper", "SCAFFOLD", C, ours, 5)) == (
        "not reproduced (1 of 5 seeds): 0.43 apart, 0.40 allowed (%); 3 of 5 clear pairs in the"
        " paper's order, turned here: the paper has WE above SCAFFOLD; WAFFLE above SCAFFOLD;"
        " reason unknown"
    )


def test_one_turned_pair_of_many_is_enough_to_lose_the_order():
    """75.5 against a printed 19.93 was once "the same ranking", because of pairs of others."""
    row = of_distribution("A*")
    ours = as_printed(row, SCAFFOLD=75.5)
    assert ranking(row, ours, "SCAFFOLD").holds is True  # 75.5 is further than half of 84.7
    assert word("paper", "SCAFFOLD", row, ours) == "not reproduced"
    near = as_printed(row, SCAFFOLD=45.0)
    assert word("paper", "SCAFFOLD", row, near) == "same order"
    assert word("paper", "SCAFFOLD", row, near | {"FedAvg": seeds(46.0)}) == "not reproduced"


def test_a_tie_is_not_the_papers_order_and_not_called_turned():
    tie = ranking(TWO, as_printed(TWO, low=90.0))
    assert tie.level == (("high", "low"),) and not tie.turned and tie.holds is False
    assert str(tie) == (
        "0 of 1 clear pairs in the paper's order, level here: the paper has high above low"
    )


def test_pairs_are_compared_on_the_seeds_that_both_methods_ran():
    """On seed 2, which both ran, low is above; on their other seeds it is far below."""
    ours = {"high": Ours((1, 2), (99.0, 85.0)), "low": Ours((2, 3), (86.0, 10.0))}
    found = ranking(TWO, ours)
    assert found.turned == (("high", "low"),) and found.seeds == 1


def test_a_higher_method_that_diverged_turns_its_pairs_and_a_lower_one_says_nothing():
    assert ranking(TWO, as_printed(TWO) | {"high": DIVERGED}).turned == (("high", "low"),)
    assert ranking(TWO, as_printed(TWO) | {"low": DIVERGED}).unknown == (("high", "low"),)
    assert ranking(TWO, dict.fromkeys(TWO, DIVERGED)).unknown == (("high", "low"),)
    of_low = ranking(TWO, as_printed(TWO) | {"high": DIVERGED}, "low")
    assert of_low.unknown == (("high", "low"),) and not of_low.turned
    assert ranking(TWO, as_printed(TWO) | {"low": Ours(diverged=((9, 1),))}).unknown


def test_methods_not_run_leave_the_order_open_unless_a_pair_is_turned_or_the_value_too_far():
    def said(**ours: float) -> str:
        run = {name: seeds(value) for name, value in ours.items()}
        return word("paper", "WE", C, run)

    assert said(WE=98.5, FedAvg=98.0) == "no verdict"
    assert said(WE=98.5, FedAvg=98.6) == "not reproduced"
    assert said(WE=97.9, FedAvg=97.0) == "not reproduced"
    found = ranking(C, {"WE": seeds(99.0), "FedAvg": seeds(98.0)})
    assert (len(found.stand), found.pairs, len(found.unknown)) == (1, 12, 11)
    assert str(found) == "1 of 12 clear pairs in the paper's order, 11 not compared"


def test_where_the_paper_separates_no_pair_there_is_no_order_to_be_the_same():
    row = {"a": Printed(50.0, 9.0), "b": Printed(52.0, 9.0)}
    assert word("paper", "a", row, as_printed(row, a=51.1)) == "not reproduced"
    assert word("small", "a", row, as_printed(row)) == "no verdict"


def test_the_small_profile_is_judged_by_its_order_alone():
    assert word("small", "low", TWO, as_printed(TWO, low=20.0)) == "same order"
    turned = judge("small", "low", TWO, as_printed(TWO, low=95.0))
    assert str(turned) == (
        "other order: 0 of 1 clear pairs in the paper's order, turned here: the paper has high"
        " above low"
    )
    told = judge("small", "low", TWO, as_printed(TWO, low=95.0), explained_by="waffle-shift")
    assert str(told) == f"{turned}; explained on page waffle-shift"


def test_a_diverged_run_of_the_small_profile_turns_pairs_in_which_it_should_be_higher():
    diverged = judge("small", "high", TWO, as_printed(TWO) | {"high": DIVERGED})
    assert str(diverged) == (
        "other order: diverged at round 7; 0 of 1 clear pairs in the paper's order, turned here:"
        " the paper has high above low"
    )
    for method, lost, became in (
        ("low", "low", "diverged at round 7; "),
        ("high", "low", ""),
        ("low", "high", ""),
    ):
        verdict = judge("small", method, TWO, as_printed(TWO) | {lost: DIVERGED})
        assert str(verdict) == (
            f"no verdict: {became}0 of 1 clear pairs in the paper's order, 1 not compared"
        )
    alone = judge("small", "low", {"low": TWO["low"]}, {"low": DIVERGED})
    assert str(alone) == ("no verdict: diverged at round 7; the paper separates no pair clearly")
    assert judge("paper", "low", TWO, {"low": DIVERGED}).word == "not reproduced"


def test_quick_pages_give_no_verdict():
    assert str(judge("quick", "WE", C, as_printed(C))) == "no verdict: quick profile"


# what the tolerance can tell apart


def test_wrong_pairings_within_the_tolerance_are_counted():
    """Ours at the printed 98.54, 98.56 and 99.00; allowed 0.4.  Of the six wrong pairings those of
    Local and FedAvg pass both ways; WE is 0.46 and 0.44 from the others.
    """
    row = {name: C[name] for name in ("Local", "FedAvg", "WE")}
    assert wrong_pairings(row, as_printed(row), 5) == (2, 6)


def test_only_methods_with_a_mean_are_paired():
    row = {name: C[name] for name in ("Local", "FedAvg", "WE")}
    ours = {"Local": seeds(98.5), "FedAvg": DIVERGED, "WE": Ours(missing=5)}
    assert wrong_pairings(row, ours, 5) == (1, 2)


# words


def test_a_diverged_run_is_a_word_never_a_number():
    assert DIVERGED.status == "diverged at round 7"
    assert math.isnan(DIVERGED.mean) and math.isnan(DIVERGED.std)
    verdict = judge("paper", "WAFFLE", C, as_printed(C) | {"WAFFLE": DIVERGED})
    assert str(verdict) == "not reproduced: diverged at round 7"


def test_one_diverged_seed_among_several_leaves_no_number_either():
    ours = Ours(seeds=(1,), best=(99.0,), last=(98.0,), diverged=((2, 9),))
    assert ours.status == "diverged at round 9 (seed 2)"
    assert math.isnan(ours.mean)


def test_a_verdict_on_fewer_seeds_than_the_paper_averages_says_on_how_many():
    def said(ours: Ours) -> str:
        return str(judge("paper", "FedAvg", C, as_printed(C) | {"FedAvg": ours}, 5))

    assert said(seeds(98.41)) == "reproduced (1 of 5 seeds): 0.15 apart, 0.40 allowed (%)"
    assert said(seeds(90.0)).startswith("not reproduced (1 of 5 seeds): 8.56 apart")
    assert said(DIVERGED) == "not reproduced (1 of 5 seeds): diverged at round 7"
    assert said(seeds(*[98.4] * 5)) == "reproduced: 0.16 apart, 0.40 allowed (%)"
    assert said(Ours(missing=5)) == "not run"


def test_an_order_that_rests_on_fewer_seeds_than_the_mean_says_so():
    row = of_distribution("A*")

    def said(scaffold: float, local: int) -> str:
        ours = {name: seeds(*[printed.value] * 5) for name, printed in row.items()}
        ours |= {"SCAFFOLD": seeds(*[scaffold] * 5), "Local": seeds(*[96.56] * local)}
        return str(judge("paper", "SCAFFOLD", row, ours, 5)).partition(":")[0]

    assert said(45.0, 3) == "same order (pairs on 3 of 5 seeds)"
    assert said(45.0, 5) == "same order"
    assert said(75.5, 3) == "not reproduced"  # too far, on all five seeds


def test_explained_is_said_of_values_that_are_not_reproduced_alone_and_names_the_page():
    far, near = as_printed(C, FedAvg=90.0), as_printed(C)
    assert str(judge("paper", "FedAvg", C, far, 5, explained_by="a-page")).endswith(
        "; explained on page a-page"
    )
    assert "explained" not in str(judge("paper", "FedAvg", C, near, 5, explained_by="a-page"))


def test_every_word_of_a_verdict_has_a_meaning():
    several = [as_printed(C, FedAvg=value) for value in (98.41, 98.1, 98.999, 90.0)]
    several += [{"FedAvg": DIVERGED}, {"FedAvg": seeds(98.1)}, {}]
    said = {judge(p, "FedAvg", C, ours).word for p in PROFILES for ours in several}
    said |= {judge("paper", "APFL", C, as_printed(C, APFL=97.9)).word}
    said |= {judge("quick", "FedAvg", C, {"FedAvg": Ours(left_out=True)}).word}
    assert said == set(MEANINGS)


def test_one_run_is_told_in_the_words_of_several():
    assert (status(None), status(SimpleNamespace(diverged=7))) == ("not run", "diverged at round 7")


def test_without_a_result_the_value_is_not_run():
    for profile in PROFILES:
        assert str(judge(profile, "WE", C, {"WE": Ours(missing=1)})) == "not run"


def test_an_unknown_profile_is_refused():
    with pytest.raises(BadInput, match="profile 'tiny' is not one of quick, small, paper"):
        judge("tiny", "WE", C, as_printed(C))


def test_differences_are_taken_seed_by_seed():
    one, other = Ours((1, 2), (90.0, 91.0)), Ours((2, 3), (89.0, 10.0))
    assert differences(one, other) == [2.0]


def test_results_are_gathered_in_percent_with_diverged_and_missing_runs_apart():
    finished = SimpleNamespace(diverged=None, best_accuracy=0.99, last_accuracy=0.98)
    broken = SimpleNamespace(diverged=7, best_accuracy=0.5, last_accuracy=0.1)
    ours = gather([(1, finished), (2, broken), (3, None)])
    assert (ours.seeds, ours.diverged, ours.missing) == ((1,), ((2, 7),), 1)
    assert ours.best == pytest.approx((99.0,)) and ours.last == pytest.approx((98.0,))
