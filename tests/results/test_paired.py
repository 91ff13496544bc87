"""Paired differences and their confidence."""

import math

import pytest

from pfl_lib.results.paired import Paired, paired
from pfl_lib.results.summary import Ours


def ours(**by_seed: float) -> Ours:
    """Values by seed: `ours(s1=90.0)`."""
    return Ours(seeds=tuple(int(s[1:]) for s in by_seed), values=tuple(by_seed.values()))


def test_the_interval_is_students():
    """Differences 1, 2 and 3: mean 2, standard deviation 1, 1/sqrt(3) = 0.57735 of the mean; with
    two degrees of freedom t is 4.3027, so half the interval is 2.4842 and 0 lies within.  Of 1.9,
    2.0 and 2.1 it is a tenth of that, and 0 lies outside."""
    wide, narrow = Paired((1.0, 2.0, 3.0)), Paired((1.9, 2.0, 2.1))
    assert wide.mean == 2.0 and wide.half == pytest.approx(2.4842, abs=1e-4)
    assert wide.words == "undecided"
    assert narrow.half == pytest.approx(0.24842, abs=1e-5)
    assert narrow.words == "above" and Paired((-1.9, -2.0, -2.1)).words == "below"


def test_one_seed_decides_nothing():
    assert math.isnan(Paired((5.0,)).half) and Paired((5.0,)).words == "undecided"
    assert math.isnan(Paired(()).mean) and Paired(()).words == "undecided"


def test_only_seeds_that_both_finished_count():
    found = paired(ours(s1=90.0, s2=92.0, s3=80.0), ours(s2=91.0, s3=79.5, s4=10.0))
    assert found.values == (1.0, 0.5)


def test_a_difference_that_is_the_same_on_every_seed_says_nothing_of_its_spread():
    assert Paired((1.6, 1.6, 1.6)).half == 0 and Paired((1.6, 1.6, 1.6)).words == "undecided"
