"""WAFFLE's Table 1 on MNIST and CIFAR10 and its profiles, printed settings, votes under concept
shift.
"""

import math

import numpy as np
import pytest
import torch

from pfl_lib import data, papers, partitions
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import APFL, FedAvg, Local, Scaffold, Waffle, WeightErosion
from pfl_lib.methods.weight_erosion import erode
from pfl_lib.pages import registry
from pfl_lib.papers import overview, waffle


def test_the_paper_profiles_are_the_papers_settings():
    """Section 3: all of MNIST, ten clients, one local epoch, 100 rounds, five seeds; all of CIFAR10
    with one seed.
    """
    mnist = waffle.TABLE1.runs(registry.page("waffle-table1").needed("paper").size)
    cifar = waffle.CIFAR10_TABLE.runs(waffle.CIFAR10_PROFILES["paper"])
    sgd = {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
    for specs, seeds, of, schedule in (
        (mnist, 5, ("mnist", "lenet5"), {"batch_size": 32, "lr": 0.1}),
        (cifar, 1, ("cifar10", "dla"), {"batch_size": 128, "augment": "crop_flip", **sgd}),
    ):
        assert len(specs) == 5 * 6 * seeds
        assert {spec.seed for spec in specs} == {*range(1, seeds + 1)}
        assert {spec.schedule for spec in specs} == {Schedule(100, local_epochs=1, **schedule)}
        told = {(one.dataset, one.model, one.images, one.clients, one.alice) for one in specs}
        assert told == {(*of, None, 10, 0)}
    shown = waffle.CIFAR10_TABLE.description()
    assert set(shown["weight_decay"]) == {"0.0005"} and set(shown["momentum"]) == {"0.9"}


def test_the_methods_stand_in_the_papers_order_with_the_papers_hyper_parameters():
    """Table 3, distribution B: p_d 0.0067 and slope 3.2."""
    methods = [spec.method for spec in waffle.TABLE1.only(["B"]).runs(waffle.FULL.with_seeds(1))]
    erosion, average = WeightErosion(p_d=0.0067, p_s=0.0), FedAvg(weighting="uniform")
    assert methods == [Local(), average, Scaffold(), erosion, Waffle(slope=3.2), APFL()]


def test_table_1_of_the_small_profile_trains_at_most_eight_million_examples():
    """At 5,000 examples a second and core that is 27 minutes of one core, half of it on two."""
    assert sum(spec.examples() for spec in waffle.TABLE1.runs(waffle.SMALL)) <= 8e6


def test_a_spread_is_looked_at_on_the_papers_seeds_or_on_more():
    for profile, seeds in (("quick", 2), ("small", 5), ("paper", 5)):
        made = waffle.ALL_PROFILES[profile]
        assert waffle.several(made) == tuple(range(1, seeds + 1))
        assert waffle.several(made.with_seeds(7)) == tuple(range(1, 8))


def test_the_quickstart_trains_what_the_readme_types_in_every_profile_and_three_runs_to_compare():
    """What the README types, ten rounds on distribution C, is the first, so it trains once."""
    typed = [
        RunSpec(method, Schedule(rounds=10), dataset="digits")
        for method in (Waffle(), Local(), FedAvg(), Waffle(slope=10))
    ]
    quickstart = registry.page("quickstart")
    for name in papers.PROFILES:
        assert quickstart.needed(name).specs == tuple(typed)
    seeds = [spec.seed for spec in quickstart.needed("quick", 2).specs]
    assert seeds == [1, 1, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("rounds", [25, 100])
@pytest.mark.parametrize("name", waffle.DISTRIBUTIONS)
def test_at_the_pilots_distance_weights_are_gone_after_nine_tenths_of_the_rounds(name, rounds):
    weight, distance = np.ones(1), waffle.DISTANCES[name]
    left = []
    for _ in range(rounds):
        weight = erode(weight, [distance], waffle.cifar10_p_d(name, rounds)).numpy()
        left.append(float(weight[0]))
    gone = left.index(0.0) + 1
    assert 0.9 * rounds - 1 <= gone <= 0.9 * rounds + 2


def test_printed_settings_are_used_but_for_weight_erosions_penalty_on_cifar10():
    used = overview.settings_used()
    replaced = used[used["status"] == "replaced"]
    assert set(zip(replaced["dataset"], replaced["metric"], strict=True)) == {("CIFAR10", "p_d")}
    by_paper = used["paper"].value_counts().to_dict()
    assert len(replaced) == 5 and by_paper == {"waffle": 120, "fedfomo": 6}


def test_a_class_has_the_label_of_most_examples_and_what_is_level_is_shared():
    """Class 0: hers has 10, another 30; class 1: all agree; class 2: three labels, 10 each (level);
    tests 2, 3 and 5 images.

    (2 * 0 + 3 * 1 + 5 / 3) / 10 = 0.4667.
    """
    held = torch.tensor([[10, 10, 10], [20, 10, 10], [10, 10, 10]])
    labels = torch.tensor([[0, 1, 2], [2, 1, 0], [2, 1, 1]])
    assert waffle.vote(held, labels, torch.tensor([2, 3, 5])) == pytest.approx((3 + 5 / 3) / 10)


def test_labels_with_nearly_as_many_examples_are_level():
    for others, share in ((100, 0.5), (105, 0.5), (106, 0.0), (95, 0.5), (94, 1.0)):
        held, labels = torch.tensor([[100.0, 1.0], [others, 1.0]]), torch.tensor([[0, 1], [1, 0]])
        assert waffle.vote(held, labels, torch.tensor([1, 0])) == share


def test_the_votes_are_those_of_the_labels_that_the_seeds_draw():
    digits = data.load("digits")
    split = partitions.make("B*", digits, 10, seed=3)
    held = torch.stack([torch.bincount(digits.train_y[own], minlength=10) for own in split.train])
    tested = torch.bincount(digits.test_y[split.test[0]], minlength=10)
    for seed in (3, 4):
        drawn = partitions.make("B*", digits, 10, seed).relabel
        expected = 100 * waffle.vote(held, drawn, tested)
        assert waffle.votes(digits, split, [seed]) == [expected]
    unshifted = partitions.make("B", digits, 10, seed=3)
    assert all(map(math.isnan, waffle.votes(digits, unshifted, [1, 2])))
