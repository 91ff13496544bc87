"""Table 1 on CIFAR10, and two baselines beside Table 1."""

import numpy as np
import pytest

from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import APFL, Ditto, FedAvg, FineTuned, Local, Scaffold, Waffle
from pfl_lib.methods.weight_erosion import WeightErosion, erode
from pfl_lib.papers import values, waffle
from pfl_lib.papers.waffle import cifar10


def test_the_setting_is_section_3s_with_one_seed():
    specs = cifar10.TABLE.runs(cifar10.FULL)
    assert len(specs) == 5 * 6 and {spec.seed for spec in specs} == {1}
    for spec in specs:
        assert spec.schedule == Schedule(
            rounds=100,
            batch_size=128,
            lr=0.01,
            momentum=0.9,
            weight_decay=5e-4,
            augment="crop_flip",
        )
        assert (spec.dataset, spec.images, spec.clients, spec.alice, spec.model) == (
            "cifar10",
            None,
            10,
            0,
            "dla",
        )


def test_the_small_size_is_another_network_with_fewer_images_and_rounds_and_the_banner_says_so():
    specs = cifar10.TABLE.runs(cifar10.SMALL)
    assert {(s.model, s.images, s.schedule.rounds) for s in specs} == {("pfedla_cnn", 12_000, 25)}
    assert "121,182 parameters in place of DLA" in cifar10.SMALL.banner
    assert {spec.dataset for spec in cifar10.TABLE.runs(cifar10.QUICK)} == {"digits"}


def test_the_methods_are_table_1s_but_for_the_calibrated_penalty():
    methods = [spec.method for spec in cifar10.TABLE.only(["A*"]).runs(cifar10.FULL)]
    assert methods == [
        Local(),
        FedAvg("uniform"),
        Scaffold(),
        WeightErosion(p_d=cifar10.p_d("A*", 100), p_s=0.0),
        Waffle(slope=3.2),
        APFL(),
    ]


@pytest.mark.parametrize("rounds", [25, 100])
@pytest.mark.parametrize("name", waffle.DISTRIBUTIONS)
def test_at_the_pilots_distance_weights_are_gone_after_nine_tenths_of_the_rounds(name, rounds):
    weight, distance = np.ones(1), cifar10.DISTANCES[name]
    left = []
    for _ in range(rounds):
        weight = erode(weight, [distance], cifar10.p_d(name, rounds)).numpy()
        left.append(float(weight[0]))
    gone = left.index(0.0) + 1
    assert 0.9 * rounds - 1 <= gone <= 0.9 * rounds + 2


def test_the_printed_penalties_leave_no_weight_after_two_rounds():
    """Table 3: 0.6 to 1.1, with relative distances of about 1."""
    for name in waffle.DISTRIBUTIONS:
        printed = values.value("waffle", "table3", "CIFAR10", name, "WE", "p_d").value
        assert printed >= 0.6 and 2 * printed * cifar10.DISTANCES[name] > 1


def test_every_profile_runs_its_pilots_and_the_papers_are_those_of_the_small_one():
    """Ten times 1,200 images in each of five rounds; quick: C and A* on digits."""
    for profile in (cifar10.FULL, cifar10.SMALL.with_seeds(3)):
        pilots = cifar10.pilot_runs(profile)
        assert [run.partition for run in pilots] == list(waffle.DISTRIBUTIONS)
        assert {(run.model, run.images, run.seed) for run in pilots} == {("pfedla_cnn", 12_000, 1)}
    assert sum(pilot.examples() for pilot in pilots) == 5 * 5 * 12_000
    assert pilots[2].key.startswith("ce1e428d"), "a stored pilot is found again"
    quick = cifar10.pilot_runs(cifar10.QUICK)
    assert [(run.dataset, run.partition) for run in quick] == [("digits", "C"), ("digits", "A*")]
    assert {run.schedule.rounds for run in (*pilots, *quick)} == {cifar10.PILOT_ROUNDS}


def test_two_baselines_stand_beside_table_1_without_a_printed_value():
    own = waffle.BASELINES.runs(waffle.FULL)
    assert len(own) == 2 * 5 * 5 and waffle.BASELINES.printed() == {}
    assert {spec.method for spec in own} == {
        FineTuned(weighting="uniform"),
        Ditto(weighting="uniform"),
    }


def test_a_partition_that_table_1_does_not_have_gets_the_median_penalty():
    assert cifar10.p_d("Dirichlet", 25) == cifar10.p_d("B", 25), "B has the median distance"
