"""Other draws of Alice's test images, and the readings side by side."""

import dataclasses

import pytest
import torch

from pfl_lib import data, partitions
from pfl_lib.display.tables import some_rounds
from pfl_lib.experiments.runner import run_one
from pfl_lib.methods import APFL
from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import readings
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

    read = readings.accuracies(profile, store).set_index(["distribution", "reading"])
    assert read.loc[("C", "APFL, by round"), "last round"] == pytest.approx(
        100 * result.last_accuracy
    )
    assert read["status"].value_counts().to_dict() == {
        "not run": 4 * len(waffle.READ_ON) - 1,
        "ran": 1,
    }
    mixture = readings.mixtures(profile, store, "C")["APFL, by round"]
    assert len(mixture) == 20 and mixture.iloc[0] == 0.5 and mixture.iloc[-1] > 0.5


def test_a_reading_that_diverged_says_so_and_other_data_than_the_papers_get_no_difference(tmp_path):
    run = run_one(waffle.spec("APFL", "C", waffle.QUICK, 1), Store(tmp_path, published=None))

    class Shelf:
        """APFL on C diverged in round 1, before anything was measured; its other reading in round
        7.
        """

        def find(self, spec):
            last = 6 if spec.method == APFL(mixture_step="round") else 0
            metrics = (
                run.metrics[run.metrics["round"] <= last] if last else run.metrics.iloc[:0, :4]
            )
            return dataclasses.replace(run, metrics=metrics, diverged=last + 1)

    mixtures = some_rounds(readings.mixtures(waffle.QUICK, Shelf(), "C"))
    assert mixtures.iloc[-1].tolist() == [7, "diverged at round 1", "diverged at round 7"]
    assert mixtures.loc[0, "APFL, by round"] == 0.5
    read = readings.accuracies(waffle.QUICK, Shelf())
    assert read["best round"].isna().all() and "diverged at round 7" in set(read["status"])
    assert read["difference"].isna().all() and read.attrs["banner"] == waffle.QUICK.banner
    finished = readings.accuracies(waffle.QUICK, Store(tmp_path, published=None))
    assert finished["best round"].notna().any() and finished["difference"].isna().all()
