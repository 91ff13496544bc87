"""Keys: what a result's numbers depend on changes them, nothing else; stored ones stay valid."""

import dataclasses
import json

import pytest
import torch
from torch.nn.utils.parametrizations import weight_norm

from pfl_lib import DPSGD, Federation, Schedule, data, engine, models
from pfl_lib import methods as m
from pfl_lib.experiments import measures
from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.experiments.spec import FederationRun, RunSpec
from pfl_lib.pages.registry import pages
from pfl_lib.papers import PROFILES
from pfl_lib.partitions import PARTITIONS, ByColumn, LabelSkew
from pfl_lib.results.store import PUBLISHED, Published
from tests.common import refused
from tests.experiments.common import spec

CHANGES = {
    "the method": {"method": m.Scaffold()},
    "a hyper-parameter": {"method": m.FedAvg(weighting="uniform")},
    "the data set": {"dataset": "mnist"},
    "the partition": {"partition": "B"},
    "the draw of its labels": {"partition": LabelSkew("A*", draw=1)},
    "another draw of its labels": {"partition": LabelSkew("A*", draw=2)},
    "the share held out": {"validation": 0.2},
    "the model": {"model": "lenet5-relu"},
    "the number of clients": {"clients": 3},
    "the number of images": {"images": 1000},
    "the seed": {"seed": 2},
    "alice": {"alice": 1},
    "no alice": {"alice": None},
    "the loss": {"loss": "half_cross_entropy"},
    "what is measured": {"measures": ("start",)},
    "how often it is evaluated": {"evaluate_every": 2},
    "rounds": {"rounds": 3},
    "the learning rate": {"lr": 0.2},
    **{
        f"the schedule's {name}": {"schedule": {name: value}}
        for name, value in {
            "local_epochs": 2,
            "local_batches": 4,
            "order": "fixed",
            "batch_size": 16,
            "lr_decay": 0.5,
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "participation": 0.5,
            "availability": ((1, 1, 1),),
            "augment": "crop_flip",
            "private": DPSGD(noise=1.0, max_norm=1.0),
        }.items()
    },
}


def test_every_field_of_a_cell_and_its_schedule_is_tried_below():
    tried = {name for change in CHANGES.values() for name in change} | {"schedule"}
    assert {field.name for field in dataclasses.fields(RunSpec)} <= tried
    tried = {name for change in CHANGES.values() for name in change.get("schedule", ())}
    tried |= {"rounds", "lr"}
    assert {field.name for field in dataclasses.fields(Schedule)} == tried


@pytest.mark.parametrize("change", CHANGES)
def test_the_key_changes_with(change):
    changed = spec(**CHANGES[change])
    assert changed.key != spec().key and changed.slug != spec().slug
    assert spec(**CHANGES[change]).key == changed.key


@pytest.mark.parametrize(
    "of", ["method", "partition", "engine", "data", "dataset", "model", "measure"]
)
def test_the_key_changes_with_the_version_of_the(of, monkeypatch):
    measured = spec(measures=("start", "batch_accuracy"))
    before = measured.key
    digits, replace = data.DATASETS["digits"], dataclasses.replace
    other, changed = replace(digits, fingerprint="another"), replace(digits, version=2)
    patch, name, value = {
        "method": (monkeypatch.setattr, (m.FedAvg, "version"), m.FedAvg.version + 1),
        "partition": (monkeypatch.setattr, (LabelSkew, "version"), LabelSkew.version + 1),
        "engine": (monkeypatch.setattr, (engine, "VERSION"), engine.VERSION + 1),
        "data": (monkeypatch.setitem, (data.DATASETS, "digits"), other),
        "dataset": (monkeypatch.setitem, (data.DATASETS, "digits"), changed),
        "model": (monkeypatch.setitem, (models.VERSIONS, "lenet5"), 2),
        "measure": (monkeypatch.setitem, (measures.VERSIONS, "batch_accuracy"), 2),
    }[of]
    patch(*name, value)
    assert dataclasses.replace(measured).key != before


def test_another_parts_version_changes_no_key(monkeypatch):
    before = spec().key
    monkeypatch.setitem(models.VERSIONS, "linear", 2)
    monkeypatch.setitem(measures.VERSIONS, "batch_accuracy", 2)
    changed = dataclasses.replace(data.DATASETS["mnist"], version=2)
    monkeypatch.setitem(data.DATASETS, "mnist", changed)
    assert spec().key == before


def test_the_key_is_known_without_the_data_and_its_config_is_json():
    mnist = RunSpec(m.Waffle(), Schedule(100))
    assert mnist.slug == f"waffle-mnist-C-seed1-{mnist.key[:10]}"
    assert json.loads(json.dumps(mnist.config()))["fingerprint"]
    shifted = RunSpec(m.Waffle(), Schedule(100), partition="A*")
    assert shifted.slug.startswith("waffle-mnist-Astar-seed1-")


def test_equal_values_give_equal_keys():
    for one, other in (
        ({"method": m.Waffle(slope=3)}, {"method": m.Waffle(slope=3.0)}),
        ({"method": m.WeightErosion(p_d=1, p_s=0)}, {"method": m.WeightErosion(p_d=1.0, p_s=0.0)}),
        ({"method": m.APFL(alpha=1)}, {"method": m.APFL(alpha=1.0)}),
        ({"method": m.Scaffold(clip=1)}, {"method": m.Scaffold(clip=1.0)}),
        ({"lr": 1}, {"lr": 1.0}),
        ({"schedule": {"lr_decay": 1, "participation": 1}}, {}),
        ({"schedule": {"private": DPSGD(1, 1)}}, {"schedule": {"private": DPSGD(1.0, 1.0)}}),
        ({"schedule": {"momentum": 0, "weight_decay": -0.0}}, {}),
        ({"validation": 0}, {"validation": 0.0}),
    ):
        assert spec(**one) == spec(**other) and spec(**one).key == spec(**other).key


def test_a_short_name_and_its_recipe_are_one_description():
    for name, recipe in PARTITIONS.items():
        one, other = spec(partition=name, clients=4), spec(partition=recipe, clients=4)
        assert one == other and one.key == other.key and one.slug == other.slug
        assert other.partition == name and other.recipe == recipe
        assert other.config()["partition"] == {"name": name, "version": recipe.version}


def test_a_recipe_without_a_short_name_enters_the_key_with_its_fields():
    recipe = ByColumn("age", [18], unknown=True)
    described = spec(partition=recipe, clients=3)
    told = {"name": "by_column", "version": 1, "column": "age", "bins": (18.0,)}
    assert described.config()["partition"] == told | {"mixed": False, "unknown": True}
    assert described.slug.startswith("fedavg-digits-by_column-seed1-")
    assert described.key == spec(partition=ByColumn("age", (18.0,), unknown=True), clients=3).key
    assert described.key != spec(partition=ByColumn("age", (21,), unknown=True), clients=3).key


@dataclasses.dataclass(frozen=True)
class Own(LabelSkew):
    """Goes by a name of the package's, which would be another recipe's key."""


def test_a_recipe_by_a_name_of_the_packages_has_no_key():
    own = spec(partition=Own("C"))
    assert own.partition == Own("C") and own != spec()
    refused("'label_skew' is a name of the package's: give it another", own.config)


class Tuned(m.FedAvg):
    """Goes by FedAvg's name."""


@pytest.mark.parametrize("method", [Tuned(), "fedavg"], ids=str)
def test_what_cannot_be_told_from_the_packages_is_neither_stored_nor_read(method, store):
    run_one(spec(rounds=1), store)
    for go in (lambda c: run_one(c, store), lambda c: run_many([c], store, jobs=1), store.find):
        refused(r"method .* cannot be stored: ", go, spec(method, rounds=1))
    assert len(list((store.root / "cells").iterdir())) == 1


SELDOM = Schedule(30, momentum=0.9, participation=0.5, availability=((1, 2, 3),))
RADII = {"dataset": "breast_cancer", "partition": "radius_some", "model": "linear", "clients": 4}
FIFTEEN = Schedule(20, local_epochs=5, batch_size=50, lr_decay=0.99, weight_decay=1e-4)
DIGITS = {"dataset": "digits", "clients": 15, "alice": None}

# Of what no page runs; the pages' keys stand in tests/papers/frozen.json.
GOLDEN = {
    "fedavg-mnist-C-seed1-895c08f3a2": RunSpec(m.FedAvg(), Schedule(100)),
    "local-breast_cancer-radius_some-seed1-3f94578038": RunSpec(
        m.Local(), SELDOM, alice=None, evaluate_every=5, **RADII
    ),
    "fedfomo_ma-digits-C-seed1-4c68b02b75": RunSpec(m.FedFomoMA(), FIFTEEN, **DIGITS),
}


@pytest.mark.parametrize("slug", GOLDEN)
def test_keys_are_those_of_results_stored_earlier(slug):
    assert GOLDEN[slug].slug == slug


def test_a_field_that_came_later_is_in_the_key_only_where_it_is_not_at_its_default():
    assert spec(m.APFL(mixture_step="first batch")).config()["method"].keys() == {
        "name", "version", "alpha", "adaptive"
    }  # fmt: skip
    assert spec(m.APFL(mixture_step="round")).config()["method"]["mixture_step"] == "round"
    assert "validation" not in spec(validation=0).config()
    assert "augment" not in spec(schedule={"augment": "none"}).config()["schedule"]
    assert spec(schedule={"augment": "crop_flip"}).config()["schedule"]["augment"] == "crop_flip"
    for described in (Schedule, *m.METHODS.values()):
        names = {field.name for field in dataclasses.fields(described)}
        assert set(getattr(described, "later", ())) <= names


def test_every_published_result_has_the_key_of_a_pages_run():
    wanted = {
        spec.slug
        for page in pages().values()
        for profile in PROFILES
        for spec in page.needed(profile).specs
    }
    published = set(Published(PUBLISHED).places())
    assert published <= wanted
    stored = {slug.partition("-")[0] for slug in (*published, *GOLDEN)}
    assert set(m.METHODS) <= stored, "every method has a key that was stored earlier"


@pytest.mark.parametrize("method", [m.APFL(), m.PFedLA()], ids=["apfl", "pfedla"])
def test_mixtures_have_a_version_of_their_own_where_the_network_has_running_statistics(method):
    assert "versions" not in RunSpec(method, Schedule(2)).config()
    normed = RunSpec(method, Schedule(2), dataset="cifar10", model="pfedla_cnn-norm")
    version = 3 if method == m.PFedLA() else 2
    assert normed.config()["versions"] == {"statistics of the mixture": version}
    plain = RunSpec(m.FedAvg(), Schedule(2), dataset="cifar10", model="pfedla_cnn-norm")
    assert "versions" not in plain.config()


def test_a_parametrized_network_has_a_version_of_its_own():
    """What its layers are has changed; other networks' runs keep their keys."""
    pairs = [(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))]
    for network, versions in (
        (torch.nn.Linear(2, 2), None),
        (weight_norm(torch.nn.Linear(2, 2)), {"parametrized layers": 2}),
    ):
        fed = Federation.from_arrays(pairs, pairs, network, Schedule(1), name="zeros")
        assert FederationRun(m.FedAvg(), fed).config().get("versions") == versions


def test_c_as_printed_has_a_version_of_its_own_where_not_all_clients_take_part():
    def versions(control: str, participation: float) -> dict | None:
        method = m.Waffle(control=control)
        return (
            spec(method=method, schedule={"participation": participation}).config().get("versions")
        )

    history = {"history where clients are absent": 2}
    assert versions("literal", 0.5) == {"literal control under participation": 2} | history
    assert versions("mean", 0.5) == history and versions("literal", 1.0) is None


def test_a_runs_length_counts_what_its_method_computes():
    """1,438 digits, two epochs, three rounds; ten clients, of whom Alice is one."""
    local = 1438 * 2 * 3

    def examples(method, **settings) -> int:
        schedule = Schedule(3, local_epochs=2)
        return RunSpec(method, schedule, dataset="digits", **settings).examples()

    assert examples(m.FedAvg()) == examples(m.Scaffold()) == examples(m.Waffle()) == local
    assert examples(m.Local()) == pytest.approx(local / 10, abs=1)
    assert examples(m.Local(), alice=None) == local
    assert examples(m.FedAvg(), validation=0.25) == pytest.approx(0.75 * local, abs=60)
    assert examples(m.APFL()) == pytest.approx(local * 1.1, abs=1)
    assert examples(m.APFL(), alice=None) == 2 * local
    assert examples(m.Scaffold("I")) == examples(m.Waffle(option="I")) == local * 3 / 2
    batches = Schedule(3, local_batches=5)
    assert RunSpec(m.FedAvg(), batches, dataset="digits", clients=2).examples() == 2 * 5 * 32 * 3
    batches = Schedule(3, local_batches=100)  # of clients' 8 or 9 examples each takes all
    given = {"dataset": "digits", "images": 83, "clients": 10}
    assert RunSpec(m.FedAvg(), batches, **given).examples() == 100 * 83 * 3
    refused("measures 'start': give a tuple", RunSpec, m.Local(), Schedule(3), measures="start")
    refused("schedule 3: give a Schedule, such as Schedule\\(20\\)$", RunSpec, m.Local(), 3)
