"""Recorded values: what counts as the same, what is refused, and when nothing is compared."""

import math

import numpy as np
import pytest

from pfl_lib.pages import recorded
from tests.common import refused
from tests.pages.common import settings

VALUES = {"WAFFLE": [96.666, 1.0], "ended": "diverged at round 3", "gone": math.nan}


def usual(slope: float = 3.2, **changed):
    """The settings of a notebook that has a parameter of its own."""
    return settings({"slope": float}, slope=slope, **changed)


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Compare values of a page with the recorded `VALUES`."""
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setenv(recorded.RECORD, "1")
    recorded.compare_with_recorded("page", usual(), "accuracy", VALUES, within=1)
    monkeypatch.delenv(recorded.RECORD)

    def call(values, parameters=None, what="accuracy", **limits):
        return recorded.compare_with_recorded(
            "page", parameters or usual(), what, values, **{"within": 1, **limits}
        )

    return call


def test_values_within_the_tolerance_pass_and_the_line_names_only_it_and_their_number(
    compare, capsys
):
    capsys.readouterr()
    compare({**VALUES, "WAFFLE": [np.float64(97.6), 0.1]})
    assert capsys.readouterr().out == "accuracy: 4 values as recorded to within 1\n"


def test_a_value_further_off_another_word_and_another_name_are_failures(compare):
    for values, words in (
        ({"WAFFLE": [97.7, 1.0]}, ["1 of 4", "WAFFLE: 0 is 97.7, recorded 96.666"]),
        ({"ended": "diverged at round 4"}, ["ended is diverged at round 4"]),
        ({"gone": 1.0}, ["gone is 1.0, recorded nan"]),
        ({"WAFFLE": ["not run", 1.0]}, ["is not run, recorded"]),
        ({"more": 1.0}, ["found", "more"]),
    ):
        with pytest.raises(AssertionError) as failed:
            compare({**VALUES, **values})
        assert all(word in str(failed.value) for word in words)


@pytest.mark.parametrize(
    ("limits", "agrees", "differs"),
    [({"within": 0}, 96.666, 96.667), ({"within": 0, "relative": 0.01}, 97.5, 97.7)],
    ids=["none", "relative"],
)
def test_without_a_tolerance_values_are_equal_and_a_relative_one_is_a_share_of_the_recorded_value(
    compare, limits, agrees, differs
):
    compare({**VALUES, "WAFFLE": [agrees, 1.0]}, **limits)
    with pytest.raises(AssertionError, match=f"WAFFLE: 0 is {differs}, recorded 96.666"):
        compare({**VALUES, "WAFFLE": [differs, 1.0]}, **limits)


def test_of_other_profiles_or_parameters_and_what_is_only_drawn_nothing_is_compared(
    compare, capsys
):
    for changed, why in (
        ({"profile": "small"}, "those are the quick profile's"),
        ({"seeds": 2}, "those are for other seeds"),
        ({"plots_only": True}, "runs may be missing"),
        ({"slope": 10}, "those are for other slope"),
    ):
        compare({"another": 0}, usual(**changed))
        assert capsys.readouterr().out.endswith(f"not compared with recorded values ({why})\n")


def test_what_was_never_recorded_is_refused_in_one_line(compare):
    refused("nothing is recorded for 'loss' of page: run make", compare, {"loss": 1.0}, what="loss")
