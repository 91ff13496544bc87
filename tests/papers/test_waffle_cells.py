import dataclasses
import math

import pytest

from pfl_lib import papers
from pfl_lib.errors import BadInput
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import APFL, FedAvg, Local, Scaffold, Waffle, WeightErosion
from pfl_lib.pages import registry
from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import cifar10

KEYS = {
    id: {spec.key for spec in page.needed("paper").specs}
    for id, page in registry.pages().items()
    if page.paper == "WAFFLE"
}


def test_an_unknown_page_or_profile_is_refused():
    with pytest.raises(
        BadInput,
        match="table or figure 'waffle-table9' is not one of index, quickstart, scorecard, ",
    ):
        registry.page("waffle-table9")
    with pytest.raises(BadInput, match="profile 'huge' is not one of quick, small, paper"):
        registry.page("waffle-table1").needed("huge")


def test_the_paper_profile_is_the_papers_setting():
    """Section 3: all of MNIST, ten clients, rate 0.1, batches of 32, one local epoch, 100 rounds,
    five seeds.
    """
    profile = registry.page("waffle-table1").needed("paper").size
    specs = waffle.TABLE1.runs(profile)
    assert len(specs) == 5 * 6 * 5
    assert {spec.seed for spec in specs} == {1, 2, 3, 4, 5}
    for spec in specs:
        assert spec.schedule == Schedule(rounds=100, local_epochs=1, batch_size=32, lr=0.1)
        assert (spec.dataset, spec.images, spec.clients, spec.alice, spec.model) == (
            "mnist",
            None,
            10,
            0,
            "lenet5",
        )


def test_the_methods_stand_in_the_papers_order_with_the_papers_hyper_parameters():
    """Table 3, distribution B: p_d 0.0067 and slope 3.2."""
    methods = [spec.method for spec in waffle.TABLE1.only(["B"]).runs(waffle.FULL.with_seeds(1))]
    assert methods == [
        Local(),
        FedAvg(weighting="uniform"),
        Scaffold(),
        WeightErosion(p_d=0.0067, p_s=0.0),
        Waffle(slope=3.2),
        APFL(),
    ]


@pytest.mark.parametrize(
    ("distribution", "p_d"),
    {"A": 0.006, "B": 0.0067, "C": 0.006, "A*": 0.0088, "B*": 0.0088}.items(),
)
def test_the_paper_profile_uses_table_3_unchanged(distribution, p_d):
    assert waffle.p_d(distribution) == p_d


def test_with_a_fifth_of_the_rounds_p_d_is_five_times_the_papers():
    assert waffle.p_d("C", rounds=20) == pytest.approx(0.03)


@pytest.mark.parametrize("profile", [waffle.QUICK, waffle.SMALL])
def test_a_reduced_profile_says_by_how_much_p_d_is_multiplied(profile):
    factor = waffle.p_d("C", profile.rounds) / waffle.p_d("C")
    assert f"p_d is multiplied by {factor:g}," in profile.banner


def test_the_quick_profile_needs_no_download():
    assert {spec.dataset for spec in registry.page("waffle-table1").needed("quick").specs} == {
        "digits"
    }


def test_table_1_of_the_small_profile_trains_at_most_eight_million_examples():
    """At 5,000 examples a second and core that is 27 minutes of one core, half of it on two."""
    assert sum(spec.examples() for spec in waffle.TABLE1.runs(waffle.SMALL)) <= 8e6


def test_figures_share_their_runs_with_table_1():
    for id in ("waffle-table3", "waffle-fig3", "waffle-fig4", "waffle-fig6"):
        assert KEYS[id] and KEYS[id] <= KEYS["waffle-table1"]
    assert KEYS["waffle-fig6"] == {spec.key for spec in waffle.TABLE1.runs(waffle.FULL)}
    for name, profile in cifar10.PROFILES.items():
        runs = registry.page("waffle-fig7").needed(name).specs
        assert runs == cifar10.TABLE.runs(profile)


def test_figure_3_shows_seed_1_of_the_two_methods_with_weights_on_distribution_c():
    specs = registry.page("waffle-fig3").needed("paper").specs
    assert [(type(spec.method), spec.partition, spec.seed) for spec in specs] == [
        (WeightErosion, "C", 1),
        (Waffle, "C", 1),
    ]


@pytest.mark.parametrize(("profile", "seeds"), [("quick", 2), ("small", 5), ("paper", 5)])
def test_equation_1_is_read_both_ways_for_several_seeds_on_a_star_and_for_one_elsewhere(
    profile, seeds
):
    specs = registry.page("waffle-readings").needed(profile).specs
    both = (Waffle(), Waffle(control="literal"))
    expected = [("A*", seed, method) for method in both for seed in range(1, seeds + 1)]
    elsewhere = ("C",) if profile == "quick" else ("A", "C")
    expected += [(name, 1, method) for name in elsewhere for method in both]
    assert [(spec.partition, spec.seed, spec.method) for spec in specs] == expected
    if profile == "paper":
        assert {spec.key for spec in specs if spec.method == Waffle()} <= KEYS["waffle-table1"]


@pytest.mark.parametrize(("profile", "seeds"), [("quick", 2), ("small", 5), ("paper", 5)])
def test_a_spread_is_looked_at_on_the_papers_seeds_or_on_more(profile, seeds):
    made = waffle.ALL_PROFILES[profile]
    assert waffle.several(made).seeds == tuple(range(1, seeds + 1))
    assert waffle.several(made.with_seeds(7)).seeds == tuple(range(1, 8))


def test_more_seeds_keep_the_runs_of_fewer():
    one, three = (waffle.TABLE1.runs(waffle.SMALL.with_seeds(count)) for count in (1, 3))
    assert {spec.key for spec in one} < {spec.key for spec in three}


def test_the_quickstart_trains_what_the_readme_types_in_every_profile_and_two_runs_to_compare():
    """`pfl_lib.run("waffle", dataset="digits", partition="C", rounds=10, seed=1)` is the first of
    them, so it trains once.
    """
    typed = [
        RunSpec(method, Schedule(rounds=10), dataset="digits")
        for method in (Waffle(), Local(), Waffle(slope=10))
    ]
    quickstart = registry.page("quickstart")
    for name in papers.PROFILES:
        assert quickstart.needed(name).specs == tuple(typed)
    assert [spec.seed for spec in quickstart.needed("quick", 2).specs] == [1, 1, 1, 2, 2, 2]


def test_every_accuracy_that_table_1_prints_is_described_and_those_on_mnist_have_runs():
    table = waffle.TABLE1
    printed = table.printed()
    assert len(printed) == 30 and not any(math.isnan(value.value) for value in printed.values())
    assert printed["MNIST", "C", "WE", "accuracy_percent"] == (99.0, 0.08)
    assert len(table.only(datasets=["MNIST"]).runs(waffle.FULL)) == 30 * 5
    assert len(cifar10.TABLE.printed()) == 30
    place = table.only(["C"], ["WE"], ["MNIST"]).runs(waffle.FULL)
    assert {(spec.partition, spec.method.name) for spec in place} == {("C", "weight_erosion")}


def test_results_are_read_by_method_in_the_papers_order_and_methods_without_any_are_left_out():
    profile = waffle.QUICK.with_seeds(2)
    there = {
        waffle.spec("WAFFLE", "C", profile, 2).key: "second",
        waffle.spec("FedAvg", "C", profile, 1).key: "first",
    }

    @dataclasses.dataclass
    class Shelf:
        def find(self, spec):
            return there.get(spec.key)

    assert waffle.results(Shelf(), profile, "C") == {"FedAvg": ["first"], "WAFFLE": ["second"]}
    assert list(waffle.results(Shelf(), profile, "C")) == ["FedAvg", "WAFFLE"]
