"""The size-penalty study: its runs, the authors' numbers, and what is said of weights by size."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from pfl_lib.methods import WeightErosion
from pfl_lib.papers.waffle import size_figures, size_penalty
from pfl_lib.partitions import SizedSkew
from pfl_lib.results.result import Result

CLIENTS = size_penalty.CLIENTS


@dataclasses.dataclass
class Shelf:
    """By run: its weights [rounds, N]; every run's best accuracy is 0.9, with p_s above 0 0.91."""

    found: dict
    diverged: int | None = None

    def find(self, spec):
        if spec not in self.found:
            return None
        best = 0.91 if spec.method.p_s else 0.9
        rows = {"round": [1, 2], "client": spec.alice, "accuracy": [best, 0.1], "loss": 1.0}
        config = {"alice": spec.alice}
        return Result(config, pd.DataFrame(rows), self.found[spec], self.diverged, 1.0)


def spec(labels, sizes, penalty, profile=size_penalty.FULL):
    name = size_penalty.setting_name(labels, sizes)
    return size_penalty.TABLE.spec(name, penalty, profile, 1)


def weights(small: float, large: float, rounds: int = 30) -> np.ndarray:
    """Sizes B: Alice's weight is 1, the others' fall evenly to 0 within so many rounds."""
    lasts = np.array([large if i % 10 == 0 else small for i in range(CLIENTS)])
    r = np.arange(1, rounds + 1)[:, None]
    falling = np.clip(1 - r / lasts, 0, 1)
    falling[:, 0] = 1
    return falling


def test_the_study_has_twelve_runs_and_the_settings_of_the_authors_code():
    runs = size_penalty.runs(size_penalty.FULL)
    assert len(runs) == len(size_penalty.AUTHORS) == 12
    assert {(run.method.p_d, run.method.p_s, run.method.counting) for run in runs} == {
        (0.04, 0.0, "batches"),
        (0.005, 2.0, "batches"),
    }
    for run in runs:
        schedule = run.schedule
        assert (run.clients, run.alice, run.seed, run.model) == (20, 0, 1, "lenet5")
        assert (schedule.rounds, schedule.local_epochs) == (30, 1)
        assert (schedule.batch_size, schedule.lr) == (32, 0.1)
    assert {run.partition for run in runs} == {
        SizedSkew(letter, sizes) for letter in "AB" for sizes in size_penalty.SIZES.values()
    }
    assert all(sum(sizes) == 100 for sizes in size_penalty.SIZES.values())


def test_smaller_profiles_lower_p_s_as_their_batches_are_fewer():
    """A fifth of the images: a fifth of the batches, five times the passes, a fifth of p_s."""
    assert {run.method.p_s for run in size_penalty.runs(size_penalty.SMALL)} == {0.0, 0.4}
    quick = size_penalty.runs(size_penalty.QUICK)
    assert [run.method.p_s for run in quick] == [0.0, pytest.approx(2 * 1438 / 60_000)]


def test_two_seeds_run_nothing_more():
    assert size_penalty.runs(size_penalty.FULL.with_seeds(2)) == size_penalty.runs(
        size_penalty.FULL
    )


def test_the_authors_weights_end_with_alice_alone():
    for best, *means in size_penalty.AUTHORS.values():
        assert 98 < best < 100 and means == sorted(means, reverse=True) and means[-1] == 0.05


def test_only_sizes_in_batches_reach_the_penalty_within_the_studys_rounds():
    """1,500 images are 47 batches of 32: floor(29 32 / 47) = 19; 6,300 are 197: 4."""
    passes = size_penalty.passes().set_index("parts")
    assert passes.loc[5].tolist() == [1500, 29, 0, 19]
    assert passes.loc[21].tolist() == [6300, 29, 0, 4]


def test_ours_stand_beside_the_authors_and_a_missing_run_has_no_number():
    ran = spec("A", "B", "p_s = 2")
    beside = size_penalty.compare_with_authors(size_penalty.FULL, Shelf({ran: weights(10, 20)}))
    rows = beside.set_index(["labels", "sizes", "penalty"])
    row = rows.loc["A", "B", "p_s = 2"]
    assert len(rows) == 12 and row["status"] == "ran"
    assert (row["best accuracy"], row["best accuracy, authors"]) == (pytest.approx(91), 98.59)
    # Round 10: Alice 1, client 10 at one half, all others at 0.
    assert row["weight, round 10"] == pytest.approx(1.5 / 20)
    assert row["weight, round 30"] == row["weight, round 30, authors"] == 0.05
    missing = rows.loc["C", "A", "p_s = 0"]
    assert missing["status"] == "not run" and math.isnan(missing["best accuracy"])
    quick = size_penalty.compare_with_authors(size_penalty.QUICK, Shelf({}))
    assert quick["status"].value_counts().to_dict() == {"left out": 10, "not run": 2}


def test_weights_by_size_leave_alice_out_and_need_both_runs():
    shelf = Shelf(
        {
            spec("A", "B", "p_s = 0"): weights(10, 10),
            spec("A", "B", "p_s = 2"): weights(5, 10),
            spec("A", "C", "p_s = 0"): weights(10, 10),
            spec("A", "A", "p_s = 0"): weights(10, 10),
            spec("A", "A", "p_s = 2"): weights(5, 10),
        }
    )
    sizes = size_penalty.by_size(size_penalty.FULL, shelf)
    assert set(zip(sizes["labels"], sizes["sizes"], strict=True)) == {("A", "B")}
    by_parts = sizes.set_index("parts")
    assert by_parts["clients"].to_dict() == {6: 10, 11: 6, 16: 2, 21: 1}
    # Falling to 0 in 10 rounds: 0.9 + ... + 0 = 4.5 of 30; in 5: 2.
    assert by_parts.loc[21, ["p_s = 0", "p_s = 2"]].tolist() == pytest.approx([4.5 / 30, 4.5 / 30])
    assert by_parts.loc[6, ["p_s = 0", "p_s = 2"]].tolist() == pytest.approx([4.5 / 30, 2 / 30])
    shelf.diverged = 7
    assert size_penalty.by_size(size_penalty.FULL, shelf).empty


@pytest.mark.parametrize(
    ("without", "with_it", "sooner"),
    [
        ((10, 10), (5, 10), "yes"),  # level without it
        ((20, 10), (15, 10), "no"),  # still slower: it may have grown for all alike
        ((5, 10), (8, 10), "no"),  # sooner in any case, and less so with it
        ((8, 10), (5, 10), "yes"),
    ],
)
def test_small_clients_lose_weight_sooner_if_below_the_large_ones_and_below_what_they_were(
    without, with_it, sooner
):
    places = {"p_s = 0": weights(*without), "p_s = 2": weights(*with_it)}
    shelf = Shelf({spec("A", "B", penalty): held for penalty, held in places.items()})
    (row,) = size_penalty.small_beside_large(
        size_penalty.by_size(size_penalty.FULL, shelf)
    ).to_dict("records")
    assert (row["least"], row["most"], row["sooner"]) == (6, 21, sooner)


def test_the_sentence_counts_settings_and_tells_how_accuracy_moves():
    full = size_penalty.FULL
    shelf = Shelf(
        {
            spec("A", "B", "p_s = 0"): weights(10, 10),
            spec("A", "B", "p_s = 2"): weights(5, 10),
        }
    )
    beside, sizes = (
        made(full, shelf) for made in (size_penalty.compare_with_authors, size_penalty.by_size)
    )
    assert size_penalty.answer(beside, sizes, full) == (
        "With the size penalty clients with little data lose weight sooner than those with much on"
        " 1 of 1 setting with uneven sizes (weight of the smallest over the run as a share of the"
        " largest clients', without and with it: labels A, sizes B 1.00 and 0.44). From p_s = 0"
        " with p_d = 0.04 to p_s = 2 with p_d = 0.005 Alice's best accuracy moves by +1.00 points,"
        " in the authors' runs by −0.31 to +0.71 points over 6 settings."
    )
    quick = size_penalty.answer(beside, sizes, size_penalty.QUICK)
    assert quick.endswith("The quick profile, on other data, says nothing about the study.")
    assert size_penalty.answer(beside, sizes.iloc[:0], full).startswith("No setting with uneven")


def test_pictures_have_a_panel_for_each_setting_and_say_their_numbers():
    shelf = Shelf(
        {
            spec("A", "B", "p_s = 0"): weights(10, 10),
            spec("A", "B", "p_s = 2"): weights(5, 10),
            spec("C", "A", "p_s = 2"): weights(5, 10),
        }
    )
    means = size_penalty.mean_weights(size_penalty.FULL, shelf)
    figure, alt = size_figures.mean_weights(means)
    assert len(figure.axes) == 2 and "labels A, sizes B, p_s = 0: 0.05 in round 10" in alt
    authors = [
        list(line.get_ydata())
        for line in figure.axes[0].get_lines()
        if line.get_label() == "p_s = 2, authors"
    ]
    assert authors == [[0.799, 0.221, 0.05]]
    sizes = size_penalty.by_size(size_penalty.FULL, shelf)
    figure, alt = size_figures.weight_by_size(sizes)
    assert len(figure.axes) == 1 and "labels A, sizes B, 6 parts: 0.15 without, 0.07 with" in alt
    low, high = figure.axes[0].get_ylim()
    assert low == 0 and high > sizes[["p_s = 0", "p_s = 2"]].to_numpy().max()
    assert (
        size_figures.mean_weights({}) is None
        and size_figures.weight_by_size(sizes.iloc[:0]) is None
    )


def test_every_runs_method_is_weight_erosion():
    assert {type(run.method) for run in size_penalty.runs(size_penalty.SMALL)} == {WeightErosion}
