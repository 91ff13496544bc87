"""Table 1 on CIFAR10, two baselines beside Table 1, the size-penalty study, printed settings."""

import numpy as np
import pytest
import torch

from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods.weight_erosion import erode, passes_in_batches
from pfl_lib.papers import overview, values, waffle, waffle_studies


def test_the_setting_is_section_3s_with_one_seed():
    specs = waffle_studies.CIFAR10_TABLE.runs(waffle_studies.CIFAR10_PROFILES["paper"])
    assert len(specs) == 5 * 6 and {spec.seed for spec in specs} == {1}
    sgd = {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
    schedule = Schedule(rounds=100, batch_size=128, augment="crop_flip", **sgd)
    assert {spec.schedule for spec in specs} == {schedule}
    told = {(spec.dataset, spec.images, spec.clients, spec.alice, spec.model) for spec in specs}
    assert told == {("cifar10", None, 10, 0, "dla")}
    shown = waffle_studies.CIFAR10_TABLE.description()
    assert set(shown["weight_decay"]) == {"0.0005"} and set(shown["momentum"]) == {"0.9"}


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
        printed = values.of_table("waffle", "table3")["CIFAR10", name, "WE", "p_d"].value
        assert printed >= 0.6 and 2 * printed * waffle_studies.DISTANCES[name] > 1


def test_only_sizes_in_batches_reach_the_penalty_within_the_studys_rounds():
    """1,500 images are 47 batches of 32: floor(29 32 / 47) = 19; 6,300 are 197: 4."""
    images = torch.tensor([1500, 6300])
    assert passes_in_batches(30, images, 32).tolist() == [19, 4]
    assert (29 * 32 // images).tolist() == [0, 0], "Eq. 5 as printed"


def test_printed_settings_are_used_but_for_weight_erosions_penalty_on_cifar10():
    used = overview.settings_used()
    replaced = used[used["status"] == "replaced"]
    assert set(zip(replaced["dataset"], replaced["metric"], strict=True)) == {("CIFAR10", "p_d")}
    by_paper = used["paper"].value_counts().to_dict()
    assert len(replaced) == 5 and by_paper == {"waffle": 120, "fedfomo": 6}
