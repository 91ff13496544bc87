"""The third rule of verdicts, on numbers worked out by hand."""

import math

import pandas as pd
import pytest

from pfl_lib.papers import judge
from pfl_lib.papers.values import Printed


def seeds(*values: float) -> pd.Series:
    return pd.Series(values, range(1, len(values) + 1), dtype=float)


def test_a_level_is_allowed_twice_the_papers_own_standard_error_between_floor_and_cap():
    """s 0.47, five seeds and four: 2 * 0.47 * sqrt(1/5 + 1/4) = 0.6306; of s 0.1 the floor, of s
    10 the cap, and compatible to 2 * 10 * sqrt(9/20) = 13.4.
    """
    assert judge.allowed(Printed(96.9, 0.47), 5, 4) == pytest.approx((0.6306, 0.6306), abs=1e-4)
    assert judge.allowed(Printed(96.9, 0.1), 5, 4) == (0.4, 0.4)
    assert judge.allowed(Printed(76.5, 10.0), 5, 4) == pytest.approx((3.0, 13.416), abs=1e-3)
    assert judge.allowed(Printed(76.5, math.nan), 1, 1) == (0.4, 0.4)


@pytest.mark.parametrize(
    ("ours", "word"),
    [((80.0,), "compatible"), ((79.5,), "reproduced"), ((60.0,), "compatible"), ((), "not run")],
)
def test_a_printed_value_with_a_wide_spread_is_reproduced_within_the_cap_alone(ours, word):
    """76.5 ± 11.5: 2 * 11.5 * sqrt(2) = 32.5."""
    assert judge.level(Printed(76.5, 11.5), 1, seeds(*ours)) == word
    assert judge.level(Printed(76.5, 0.1), 1, seeds(60.0)) == "not reproduced"


def test_our_own_spread_never_widens_what_is_allowed():
    assert judge.level(Printed(50.0, 0.1), 3, seeds(40.0, 50.0, 63.0)) == "not reproduced"


def test_a_pair_counts_where_the_paper_separates_it_by_more_than_both_deviations():
    row = {"a": Printed(90, 1.0), "b": Printed(88.9, 0.5), "c": Printed(89.2, 0.1)}
    assert judge.clear_pairs(row) == [("a", "b")]
    bare = {"a": Printed(90, math.nan), "b": Printed(89.6, math.nan), "c": Printed(89, math.nan)}
    assert judge.clear_pairs(bare) == [("a", "c"), ("b", "c")]


def test_an_order_is_decided_beyond_the_floor_and_two_standard_errors():
    for higher, lower, word in (
        ((92.1,), (90.0,), "stands"),  # one seed decides beyond two points
        ((92.0,), (90.0,), "open"),
        ((89.99,), (90.0,), "open"),
        ((87.9,), (90.0,), "turned"),
        ((91.0, 91.1, 90.9), (90.0, 90.0, 90.0), "stands"),
        ((93.0, 91.0, 89.0), (90.0, 90.0, 90.0), "open"),  # 1 apart, two standard errors 2.3
        ((90.3, 90.3, 90.3), (90.0, 90.0, 90.0), "open"),  # below the floor
        ((90.5, 91.7), (90.0, 90.0), "open"),  # 1.1 apart; two errors 1.2, by n for n - 1 0.85
        ((), (90.0,), "open"),
    ):
        assert judge.order(seeds(*higher), seeds(*lower)) == word


def test_orders_are_read_on_common_seeds_alone():
    one, other = pd.Series({1: 95.0, 2: 80.0}), pd.Series({1: 90.0, 3: 99.0})
    assert judge.order(one, other) == "stands"


def test_wrong_pairings_that_pass_tell_what_the_tolerance_cannot():
    """Of two methods printed 0.2 apart each passes for the other; of three the third for none."""
    row = {"a": Printed(90, 0.1), "b": Printed(90.2, 0.1), "c": Printed(95, 0.1)}
    ours = {name: seeds(value.value) for name, value in row.items()}
    assert judge.wrong_pairings(row, 5, ours) == (2, 6)
