"""Rows split by a column: the authors' order of shuffling, halves, and what is refused."""

import random

import numpy as np

from pfl_lib.partitions import by_column
from tests.common import refused

AGES = np.array([20.0, 20.5, 35, 36, np.nan, 3, 80, np.nan, 35, 12])


def test_unknown_values_are_shuffled_first_then_each_bin_as_the_authors_do():
    """Written as in the authors' utils.py, over the interpreter's own generator."""
    ages = np.where(np.arange(300) % 7 == 0, np.nan, np.arange(300) % 80)
    state = random.getstate()
    try:
        random.seed(278)
        unknown = np.isnan(ages).nonzero()[0]
        random.shuffle(unknown)
        expected = []
        for low, high in ((-0.01, 20), (20, 35), (35, 150)):
            rows = ((low < ages) & (ages <= high)).nonzero()[0]
            random.shuffle(rows)
            expected.append(rows.tolist())
    finally:
        random.setstate(state)
    assert by_column.by_bins(ages, (20, 35), seed=278) == [*expected, unknown.tolist()]


def test_mixed_halves_the_first_two_bins_joined_and_leaves_the_global_generator_alone():
    before = random.getstate()
    first, second, third, unknown = by_column.by_bins(AGES, (20, 35), seed=1, mixed=True)
    assert random.getstate() == before
    assert sorted(first + second) == [0, 1, 2, 5, 8, 9] and len(first) == len(second) == 3
    assert (sorted(third), sorted(unknown)) == ([3, 6], [4, 7])


def test_each_value_of_a_column_is_a_group_in_ascending_order():
    rows = by_column.by_value(["north", "east", "north"], seed=0)
    assert [sorted(group) for group in rows] == [[1], [0, 2]]


def held_out(rows, alice) -> tuple[list, list]:
    made = by_column.hold_out("made", rows, alice)
    return [part.tolist() for part in made.train], [part.tolist() for part in made.test]


def test_alice_is_tested_on_her_first_half_and_one_more_the_others_train_on_everything():
    train, test = held_out([[7, 3, 5, 1], [2, 4, 6], [0, 8]], alice=0)
    assert test == [[7, 3, 5], [], []] and train == [[1], [2, 4, 6], [0, 8]]


def test_without_an_alice_everybody_is_halved():
    train, test = held_out([[7, 3, 5, 1, 9], [2, 4, 6]], alice=None)
    assert test == [[7, 3, 5], [2, 4]] and train == [[1, 9], [6]]


def test_a_client_without_rows_to_train_or_to_test_on_is_refused():
    told = "half would be empty.*needs 3 or more"
    refused(told, by_column.hold_out, "made", [[1, 2], [3, 4, 5]], 0)
    refused(told, by_column.hold_out, "made", [[1, 2, 3], [4]], None)
    refused("client 1 has no rows", by_column.hold_out, "made", [[1, 2, 3], []], 0)
