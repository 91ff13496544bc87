"""Table 1 on CIFAR10, two baselines beside Table 1, the size-penalty study, printed settings."""

import numpy as np
import pytest
import torch

from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import APFL, FedAvg, Local, Scaffold, Waffle
from pfl_lib.methods.weight_erosion import WeightErosion, erode, passes_in_batches
from pfl_lib.pages import registry
from pfl_lib.papers import overview, values, waffle, waffle_studies
from pfl_lib.partitions import SizedSkew


def runs_of(profile: str, *settings: str):
    part = waffle_studies.CIFAR10_TABLE.only(settings or None)
    return part.runs(waffle_studies.CIFAR10_PROFILES[profile])


def test_the_setting_is_section_3s_with_one_seed():
    specs = runs_of("paper")
    assert len(specs) == 5 * 6 and {spec.seed for spec in specs} == {1}
    sgd = {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
    schedule = Schedule(rounds=100, batch_size=128, augment="crop_flip", **sgd)
    assert {spec.schedule for spec in specs} == {schedule}
    told = {(spec.dataset, spec.images, spec.clients, spec.alice, spec.model) for spec in specs}
    assert told == {("cifar10", None, 10, 0, "dla")}
    shown = waffle_studies.CIFAR10_TABLE.description()
    assert set(shown["weight_decay"]) == {"0.0005"} and set(shown["momentum"]) == {"0.9"}


def test_the_small_size_is_another_network_with_fewer_images_and_rounds():
    sizes = {(s.model, s.images, s.schedule.rounds) for s in runs_of("small")}
    assert sizes == {("pfedla_cnn", 12_000, 25)}
    assert {spec.dataset for spec in runs_of("quick")} == {"digits"}


def test_the_methods_are_table_1s_but_for_the_calibrated_penalty():
    erosion = WeightErosion(p_d=waffle_studies.cifar10_p_d("A*", 100), p_s=0.0)
    methods = [spec.method for spec in runs_of("paper", "A*")]
    expected = [Local(), FedAvg("uniform"), Scaffold(), erosion, Waffle(slope=3.2), APFL()]
    assert methods == expected


@pytest.mark.parametrize("rounds", [25, 100])
@pytest.mark.parametrize("name", waffle.DISTRIBUTIONS)
def test_at_the_pilots_distance_weights_are_gone_after_nine_tenths_of_the_rounds(name, rounds):
    weight, distance = np.ones(1), waffle_studies.DISTANCES[name]
    left = []
    for _ in range(rounds):
        weight = erode(weight, [distance], waffle_studies.cifar10_p_d(name, rounds)).numpy()
        left.append(float(weight[0]))
    gone = left.index(0.0) + 1
    assert 0.9 * rounds - 1 <= gone <= 0.9 * rounds + 2


def test_the_printed_penalties_leave_no_weight_after_two_rounds():
    """Table 3: 0.6 to 1.1, with relative distances of about 1."""
    for name in waffle.DISTRIBUTIONS:
        printed = values.value("waffle", "table3", "CIFAR10", name, "WE", "p_d").value
        assert printed >= 0.6 and 2 * printed * waffle_studies.DISTANCES[name] > 1


def test_a_partition_that_table_1_does_not_have_gets_the_penalty_of_the_median_distance():
    assert waffle_studies.cifar10_p_d("Dirichlet", 25) == waffle_studies.cifar10_p_d("B", 25)


# --- the size-penalty study ---


def of_study(profile: str):
    return registry.page("waffle-size-penalty").needed(profile).specs


def test_the_study_has_twelve_runs_and_the_settings_of_the_authors_code():
    runs = of_study("paper")
    assert len(runs) == 12
    assert {(run.method.p_d, run.method.p_s, run.method.counting) for run in runs} == {
        (0.04, 0.0, "batches"),
        (0.005, 2.0, "batches"),
    }
    for run in runs:
        assert (run.clients, run.alice, run.seed, run.model) == (20, 0, 1, "lenet5")
        assert run.schedule == Schedule(rounds=30, local_epochs=1, batch_size=32, lr=0.1)
    even, middling = (10,) * 10, (10, 10, 10, 10, 20, 5, 5, 10, 10, 10)
    sizes = (even, SizedSkew.sizes, middling)
    assert {run.partition for run in runs} == {SizedSkew(x, of) for x in "AB" for of in sizes}
    assert all(sum(of) == 100 for of in sizes)


def test_smaller_profiles_lower_p_s_as_their_batches_are_fewer():
    """A fifth of the images: a fifth of the batches, five times the passes, a fifth of p_s."""
    assert {run.method.p_s for run in of_study("small")} == {0.0, 0.4}
    assert [run.method.p_s for run in of_study("quick")] == [0.0, pytest.approx(2 * 1438 / 60_000)]


def test_only_sizes_in_batches_reach_the_penalty_within_the_studys_rounds():
    """1,500 images are 47 batches of 32: floor(29 32 / 47) = 19; 6,300 are 197: 4."""
    images = torch.tensor([1500, 6300])
    assert passes_in_batches(30, images, 32).tolist() == [19, 4]
    assert (29 * 32 // images).tolist() == [0, 0], "Eq. 5 as printed"


# --- printed settings ---


def test_printed_settings_are_used_but_for_weight_erosions_penalty_on_cifar10():
    used = overview.settings_used(waffle_studies.settings_used())
    replaced = used[used["status"] == "replaced"]
    assert set(zip(replaced["dataset"], replaced["metric"], strict=True)) == {("CIFAR10", "p_d")}
    by_paper = used["paper"].value_counts().to_dict()
    assert len(replaced) == 5 and by_paper == {"waffle": 120, "fedfomo": 6}
