"""Other draws of Alice's test images, and the readings side by side."""

import dataclasses
import math

import pandas as pd
import pytest
import torch

from pfl_lib import data, partitions
from pfl_lib.experiments.runner import run_one
from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import readings, sentences
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store

LABELS = torch.tensor([0] * 6 + [1] * 4 + [2] * 5)


def test_a_draw_holds_as_many_images_of_each_label_as_alice_does():
    """Right about all 1s and nothing else: every draw with two 1s among five images scores 2/5."""
    drawn = readings.draws(
        (LABELS == 1).double(), LABELS, torch.tensor([1, 0, 0, 1, 0]), 50, seed=1
    )
    assert torch.equal(drawn, torch.full((50,), 0.4, dtype=torch.float64))


def test_a_draw_of_every_image_is_the_accuracy_on_all_of_them():
    right = torch.tensor([1, 0, 1] * 5, dtype=torch.float64)
    assert readings.draws(right, LABELS, LABELS, 3, seed=1).tolist() == [10 / 15] * 3


def test_draws_scatter_around_the_share_of_right_answers_and_follow_the_seed():
    """Three of six 0s drawn, four of them right: mean 2/3; without replacement the variance of the
    mean is 2/9/3 * 3/5 = 2/45.
    """
    right = torch.tensor([1, 1, 1, 1, 0, 0] + [0] * 9, dtype=torch.float64)
    own = torch.tensor([0, 0, 0])
    drawn = readings.draws(right, LABELS, own, 4_000, seed=1)
    assert drawn.mean().item() == pytest.approx(2 / 3, abs=0.015)
    assert drawn.var().item() == pytest.approx(2 / 45, rel=0.1)
    assert torch.equal(drawn, readings.draws(right, LABELS, own, 4_000, seed=1))
    assert not torch.equal(drawn, readings.draws(right, LABELS, own, 4_000, seed=2))


def test_alices_own_images_give_the_accuracy_that_her_run_recorded(tmp_path):
    profile, store = waffle.QUICK, Store(tmp_path, published=None)
    spec = waffle.spec("APFL, by round", "C", profile, 1)
    result = run_one(spec, store)
    digits = data.load("digits")
    (row,) = readings.other_test_images(profile, store, digits, "C", ["APFL, by round"]).to_dict(
        "records"
    )
    assert row["her images"] == pytest.approx(100 * result.last_accuracy, abs=1e-9)
    assert row["images"] == len(partitions.make("C", digits, 10, 1, 0).test[0])
    assert row["paper"] == 98.45  # APFL's on C, Table 1


def test_both_readings_are_judged_on_their_mean_over_seeds_as_table_1_is():
    """A*: paper 97.99 with standard deviation 0.26.  Two seeds may lie 2 x 0.26 x sqrt(1/5 + 1/2) =
    0.435 points apart: 98.3 does, 96 does not.
    """
    shelf = Shelf({("mean", 1): 0.982, ("mean", 2): 0.984})
    shelf.accuracies |= {("literal", 1): 0.96, ("literal", 2): 0.96}
    read = readings.accuracies(waffle.FULL, shelf)
    rows = read.set_index(["distribution", "reading"])
    mean, literal = (rows.loc[("A*", reading)] for reading in readings.READINGS)
    assert (mean["seeds"], mean["paper"], mean["status"]) == (2, 97.99, "ran")
    assert mean["best round"] == pytest.approx(98.3) and mean["last round"] == pytest.approx(49.15)
    assert mean["apart"] == pytest.approx(0.31)
    assert mean["allowed"] == pytest.approx(2 * 0.26 * math.sqrt(0.7))
    assert literal["apart"] > literal["allowed"]
    assert rows.loc[("C", "WAFFLE"), "status"] == "not run"
    said = sentences.readings(read, waffle.FULL)
    assert said.endswith("Near enough to count as reproduced, with 2 seeds: *WAFFLE*.")
    only_mean = Shelf({("mean", 1): 0.98})
    read = readings.accuracies(waffle.FULL, only_mean)
    assert sentences.readings(read, waffle.FULL).startswith("Both readings have to be run on A*")


def test_other_data_than_the_papers_are_not_measured_by_its_values():
    shelf = Shelf({("mean", 1): 0.982, ("literal", 1): 0.96})
    for profile in (waffle.QUICK, waffle.SMALL):
        read = readings.accuracies(profile, shelf)
        assert read[["apart", "allowed"]].isna().all(axis=None)
        assert sentences.readings(read, profile).endswith(
            "Only the paper profile compares such numbers with the printed one."
        )


@dataclasses.dataclass
class Shelf:
    """WAFFLE on A*: by (control, seed) the best accuracy, half of it in the last round."""

    accuracies: dict

    def find(self, spec):
        best = self.accuracies.get((getattr(spec.method, "control", ""), spec.seed))
        if best is None or spec.partition != "A*":
            return None
        rounds = {"round": [1, 2], "client": 0, "accuracy": [best, best / 2], "loss": 1.0}
        return Result({"alice": 0}, pd.DataFrame(rounds), None, None, 1.0)
