"""What is a user's own is stored under its name and version, and told from all else."""

import contextlib
import dataclasses
import linecache
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import pfl_lib
from pfl_lib import data, models, partitions, progress
from pfl_lib.experiments import own
from pfl_lib.experiments.runner import run_many, run_one, training
from pfl_lib.experiments.spec import FederationRun
from pfl_lib.federation.clients import from_arrays, from_partition
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg, Scaffold, short_name
from pfl_lib.methods.poisoned import Poisoned
from pfl_lib.partitions import Partition
from pfl_lib.partitions.label_skew import LabelSkew
from pfl_lib.results import files as files_of
from pfl_lib.results.store import Store
from tests.common import refusal, refused
from tests.experiments.common import FILE, Read, drawn, method_file, spec


def test_a_method_of_ones_own_is_stored_under_its_name_version_and_fields(tmp_path, store):
    method = own.load(method_file(tmp_path))
    result = run_one(spec(method), store)
    assert result.config["method"] == {"name": "shrunk", "version": 1, "times": 1}
    assert result.config["own"] == {"method": {}}
    assert spec(method).slug.startswith("shrunk-digits-C-seed1-")
    again = store.find(spec(method))
    assert again.metrics.equals(result.metrics)
    others = (own.load(method_file(tmp_path, version=2)), dataclasses.replace(method, times=2))
    assert [store.find(spec(other)) for other in others] == [None, None]
    poisoned = spec(Poisoned(method, clients=(1,))).config()
    assert poisoned["own"] == {"method": {}}
    assert poisoned["method"]["method"] == {"name": "shrunk", "version": 1, "times": 1}


def test_no_key_of_a_users_is_one_of_the_packages():
    """A subclass of FedAvg that differs by its name alone, and the description that FedAvg itself
    would have under that name."""

    class Renamed(FedAvg):
        name = "renamed"

    config = spec(Renamed()).config()
    assert config["own"] == {"method": {"fedavg": FedAvg.version}}
    assert "own" not in spec(FedAvg()).config()
    del config["own"]
    assert files_of.key_of(config) != spec(Renamed()).key


def test_a_subclasss_other_default_is_a_setting_of_its_own():
    @dataclass(frozen=True)
    class Clipped(Scaffold):
        clip: float | None = 0.01
        name, version = "clipped", 1

    assert "clip" not in spec(Scaffold()).config()["method"]
    assert spec(Clipped()).config()["method"]["clip"] == 0.01


def test_a_source_that_changed_under_the_same_version_is_refused_in_one_line(tmp_path, store):
    run_one(spec(own.load(method_file(tmp_path))), store)
    changed = spec(own.load(method_file(tmp_path, factor=0.25)))
    assert refusal(store.find, changed).startswith(
        f"{changed.slug} was stored with another source of the same version: raise the version of"
        " method, or remove "
    )
    run_one(spec(own.load(method_file(tmp_path, factor=0.25, version=2))), store)


def test_a_checkpoint_of_another_source_starts_from_round_one_and_is_told(tmp_path, store, capsys):
    begun = []
    for factor in (0.5, 0.5, 0.25):
        one = spec(own.load(method_file(tmp_path, factor)), rounds=4)
        with contextlib.closing(training(one, store)) as going:
            begun.append(next(going).done)
            next(going)
    assert begun == [0, 1, 0] and store.load_checkpoint(one)["source"] == one.source
    said = f"{store.checkpoint_path(one)} has another source: the run starts from round 1\n"
    assert capsys.readouterr().err == said


def test_a_version_and_a_constant_are_part_of_the_source_and_comments_and_layout_are_not(tmp_path):
    path = tmp_path / "longer.py"
    text = FILE.format(factor=0.5, version=1, comment="").replace("A method in", "Some words on")
    path.write_text(text.replace("theta * FACTOR", "(\n        theta * FACTOR\n    )"))

    def source(name: str) -> str:
        return own.source_of(type(own.load(name)))

    alike = {source(method_file(tmp_path, comment=c)) for c in ("half", "a half")}
    assert alike == {source(f"{path}:Shrunk")} and len(source(f"{path}:Shrunk")) == 16
    others = ({"factor": 0.25}, {"version": 2})
    assert len({*alike, *(source(method_file(tmp_path, **other)) for other in others)}) == 3


HOLDS = """
from dataclasses import dataclass
import argparse, functools, math, os, types
import numpy as np
import pandas as pd
import torch

@dataclass
class Settings: mix: int

def made(inner):
    def outer(theta): return theta * inner
    return outer

def halved(theta): return theta / 2

def decorated(by):
    def decorate(method):
        @functools.wraps(method)
        def inner(*given): return method(*given) if by else {wrapper}
        return inner
    return decorate

@functools.cache
def remembered(): return {cached}

HELD = {held}
OUTER = made({closed})

@dataclass(frozen=True)
class Mine:
    name, version, own = "mine", 1, {own}

    @decorated({given})
    def start(self, fed): return fed.initial()
    @functools.cache
    def round(self, fed, state, r): return OUTER(state), {{"n": remembered()}}
    @torch.no_grad()
    def served(self, fed, state): return state + HELD
"""
VALUES = ["1", "2", "[1, 2]", "[1, [3]]", "{'a': [1]}", "{'a': [2]}", "{'b': [1]}", "{1, 2}"]
VALUES += ["np.ones(2)", "np.zeros(2)", "np.ones(2, 'int64')", "np.ones((2, 1))", "np.float32(1)"]
VALUES += ["torch.ones(2)", "torch.tensor(1j)", "torch.zeros(2)", "[torch.ones(3)]"]
VALUES += ["(1, [2])", "[halved]", "functools.partial(halved, 2)", "functools.partial(halved, 3)"]
VALUES += ["Settings(1)", "Settings(2)", "types.SimpleNamespace(a=1)", "argparse.Namespace(a=2)"]
VALUES += ["pd.Series([1])", "pd.DataFrame({'a': [2]})", "[pd.Series([3])]"]
PLACES = ("held", "closed", "own", "wrapper", "cached", "given")


def source_of_held(path, **places: str) -> str:
    path.write_text(HOLDS.format(**dict.fromkeys(PLACES, "1") | places))
    linecache.clearcache()
    return own.source_of(type(own.load(f"{path}:Mine")))


@pytest.mark.parametrize("place", ["held", "closed", "own"])
def test_what_a_function_a_closure_and_the_class_hold_is_part_of_the_source(place, tmp_path):
    found = {v: source_of_held(tmp_path / f"{n}.py", **{place: v}) for n, v in enumerate(VALUES)}
    assert len(set(found.values())) == len(VALUES) and "" not in found.values()
    again = "{'y': 1, 'x': {'q', 'p', 'o', 'n'}}", "{'x': {'n', 'o', 'p', 'q'}, 'y': 1}"
    one, other = (source_of_held(tmp_path / "again.py", **{place: value}) for value in again)
    assert one == other


def test_a_decorator_of_the_module_and_a_remembered_function_are_part_of_the_source(tmp_path):
    others = {source_of_held(tmp_path / "other.py", **{place: "2"}) for place in PLACES}
    assert len(others) == len(PLACES) and "" not in others


def test_a_default_that_its_text_does_not_tell_is_part_of_the_source(tmp_path):
    def source(rate: str, default: str) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        step = f"def step(theta, by={default}, *, more=(1, -2.0)):\n    return theta * by\n"
        body = FILE.replace(
            "halved(theta):", "halved(theta):\n    return step(theta)\n\n\ndef other(theta):"
        )
        text = body.format(factor=0.5, version=1, comment="").replace(
            "FACTOR = 0.5", f"RATE = {rate}\n{step}\nFACTOR = 0.5"
        )
        path.write_text(text)
        return own.source_of(type(own.load(f"{path}:Shrunk")))

    assert source("1.0", "RATE") != source("0.1", "RATE") == source("0.1", "RATE")
    assert source("1.0", "0.5") == source("0.1", "0.5") != source("0.1", "0.25")
    assert source("1.0", "dict(a=1 / 3)") == source("0.1", "dict(a=1 / 3)")


def test_a_value_said_again_is_part_of_the_source_where_another_parent_would_change_it(tmp_path):
    text, sources = FILE.format(factor=0.5, version=1, comment=""), []
    for n, again in enumerate(("x = 1", "x = True", "pass")):
        kinds = f"A(Shrunk): x = 1\nclass B(A): {again}\nclass C(A): x = 2\nclass D(B, C): pass\n"
        path = tmp_path / f"{n}.py"
        path.write_text(f"{text}\n\nclass {kinds}class E(B): pass\n")
        sources.append([own.source_of(type(own.load(f"{path}:{kind}"))) for kind in "DE"])
    by_two, by_one = zip(*sources, strict=True)
    assert len({*by_two}) == 3 and by_one[0] == by_one[2] != by_one[1]


def test_what_cannot_be_told_as_text_leaves_the_source_as_it_was(tmp_path):
    values = ["object()", "math.inf", "[]", "os.environ", "[object()]"]
    values.append("torch.ones(1, device='meta')")
    assert len({source_of_held(tmp_path / "mine.py", held=value) for value in values}) == 1


def test_a_name_in_the_module_that_code_reads_as_an_attribute_alone_is_no_part_of_it(tmp_path):
    text, sources = FILE.format(factor=0.5, version=1, comment=""), set()
    for n, line in enumerate(("", "initial = 3\n")):  # as in fed.initial()
        path = tmp_path / f"{n}.py"
        path.write_text(text + line)
        sources.add(own.source_of(type(own.load(f"{path}:Shrunk"))))
    assert len(sources) == 1 and "" not in sources


def test_a_source_of_numbers_texts_and_functions_keeps_the_digits_that_are_stored(tmp_path):
    assert own.source_of(type(own.load(method_file(tmp_path)))) == "ebeab0f590be3c52"


def test_what_a_bare_interpreter_was_told_has_no_source_and_is_stored_all_the_same(store, capsys):
    names = {"__name__": "typed"}
    exec(FILE.format(factor=0.5, version=1, comment=""), names)  # as typed: no file
    typed = names["Shrunk"]()
    assert own.source_of(type(typed)) == ""
    assert "the source of Shrunk cannot be read" in capsys.readouterr().err
    assert "source" not in run_one(spec(typed), store).config
    assert store.find(spec(typed)) is not None


@pytest.mark.xdist_group("processes")
def test_the_source_of_an_open_notebooks_class_is_kept_though_no_other_process_can_read_it(store):
    text, names = FILE.format(factor=0.5, version=1, comment=""), {"__name__": "cell"}
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(keepends=True), "<cell>")
    exec(compile(text, "<cell>", "exec"), names)
    both = [spec(names["Shrunk"](), seed=seed) for seed in (1, 2)]
    sources = {result.config["source"] for result in run_many(both, store, jobs=2)}
    assert sources == {own.source_of(names["Shrunk"])} and "" not in sources


def test_results_of_one_recipe_are_compared_whether_they_are_stored_or_not(tmp_path):
    class Kept(FedAvg):
        name, version = "kept", None

    given = {"partition": Odd(), "dataset": "digits", "model": "linear", "rounds": 1, "alice": None}
    both = {
        n: pfl_lib.run(m, results_dir=tmp_path, **given)
        for n, m in (("a", "fedavg"), ("b", Kept()))
    }
    assert set(pfl_lib.compare(both).frame["method"]) == {"a", "b"}
    given["partition"] = Odd(reverse=True)
    both["b"] = pfl_lib.run(Kept(), results_dir=tmp_path, **given)
    refused("differ in partition", pfl_lib.compare, both)


@dataclass(frozen=True)
class Shaped:
    size: object = 1
    name, title, version = "shaped", "Shaped", 1


@dataclass
class Thawed:
    name, version = "thawed", 1


def test_what_cannot_be_described_is_told_in_one_line():
    kinds = "number, text or tuple of them (NumPy's need float or int)"
    for method, why in (
        (Thawed(), "make it a frozen dataclass"),
        *(
            (Shaped(size), f"its field 'size' is no {kinds}")
            for size in ([1], float("inf"), (1, torch), np.float32(0.5))
        ),
    ):
        told = refusal(own.check, "method", method, ["fedavg"])
        assert told == f"method {method!r} cannot be stored: {why}"


@pytest.mark.parametrize(("value", "taken"), [(True, ()), ("1", ()), (None, ()), (1, ("shaped",))])
def test_a_version_is_a_whole_number_and_a_name_is_ones_own(value, taken):
    kind = type("Shaped", (Shaped,), {"version": value})
    refused("name of the package's" if taken else "version = 1", own.check, "method", kind(), taken)


# --- naming a method on the command line ---
def test_a_name_that_leads_to_no_method_is_told_in_one_line(tmp_path):
    for named, says in (
        ("mine.py", "give module:Class or path/to/file.py:Class"),
        ("/nowhere/mine.py:Mine", "method file /nowhere/mine.py does not exist"),
        ("{file}:Mine", "has no Mine; it has Shrunk"),
        ("no_such_module:Mine", "cannot be loaded: ModuleNotFoundError"),
        (
            "{broken}:Mine",
            "cannot be loaded: ZeroDivisionError: division by zero (broken.py, line 1)",
        ),
        ("{leaving}:Mine", "cannot be loaded: SystemExit: 0"),
        (3, "give module:Class or path/to/file.py:Class"),
    ):
        (tmp_path / "broken.py").write_text("1 / 0\n")
        (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
        places = {name: tmp_path / f"{name}.py" for name in ("broken", "leaving")}
        places["file"] = method_file(tmp_path).rpartition(":")[0]
        assert says in refusal(
            own.load, named.format(**places) if isinstance(named, str) else named
        )


def test_a_long_name_makes_a_folders_name_that_fits():
    one, other = (FederationRun(FedAvg(), federation(name="\u6f22" * n)).slug for n in (300, 301))
    assert len(one.encode()) < 255 and one != other


def test_a_file_given_as_a_module_is_told_with_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "servers.py").write_text("")
    monkeypatch.setattr("sys.path", [one for one in sys.path if one])
    refused(r"did you mean servers\.py:Mine\?", own.load, "servers:Mine")


def test_a_method_without_a_title_is_named_as_it_is_stored():
    bare = dataclass(frozen=True)(type("Bare", (), {"name": "bare"}))
    assert short_name(bare()) == "bare" and short_name(Shaped()) == "Shaped"


def test_a_module_may_be_named_and_leaves_no_trace_where_it_is_a_file(tmp_path):
    assert own.load("pfl_lib.methods.fedavg:FedAvg") == FedAvg()
    before = set(sys.modules)
    own.load(method_file(tmp_path))
    assert set(sys.modules) == before


@dataclass(frozen=True)
class Odd:
    """Client i holds every third example from i on; with `reverse`, in the other order."""

    reverse: bool = False
    name, title, version, default_clients = "odd", "Odd", 1, 3

    def split(self, dataset, clients, seed, alice):
        order = torch.arange(len(dataset.train_y))
        order = order.flip(0) if self.reverse else order
        train = tuple(order[i::clients] for i in range(clients))
        test = tuple(torch.arange(len(dataset.test_y))[i::clients] for i in range(clients))
        return Partition(self.name, train, test)


def test_a_partition_of_ones_own_is_stored_under_its_name_version_and_fields(store):
    described = spec(FedAvg(), partition=Odd())
    result = run_one(described, store)
    assert result.config["partition"] == {"name": "odd", "version": 1, "reverse": False}
    assert result.config["own"] == {"partition": {}}
    assert store.find(described).metrics.equals(result.metrics)
    assert store.find(spec(FedAvg(), partition=Odd(reverse=True))) is None


def test_a_recipe_without_a_version_runs_for_its_clients_and_is_not_stored(tmp_path, capsys):
    @dataclass(frozen=True)
    class Unversioned(Odd):
        version = None

    settings = {"dataset": "digits", "model": "linear", "rounds": 1, "alice": None}
    result = pfl_lib.run("local", partition=Unversioned(), results_dir=tmp_path, **settings)
    assert result.metrics["client"].tolist() == [0, 1, 2] and not any(tmp_path.iterdir())
    assert "give it version = 1" in capsys.readouterr().err
    assert spec(FedAvg(), partition=LabelSkew("C")).source == ""


# --- data ---
class Net(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def federation(seed=1, name="three wards", version=1, shift=0.0, width=3, **schedule):
    pairs = [(x + shift, y) for x, y in drawn(3)]
    settings = {"seed": seed, "alice": 0, "name": name, "version": version, "device": "cpu"}
    schedule = Schedule(**{"rounds": 2, "batch_size": 4, **schedule})
    return pfl_lib.Federation.from_arrays(pairs, pairs, lambda: Net(width), schedule, **settings)


def test_runs_of_named_data_are_stored_and_read_again_one_for_each_seed(tmp_path):
    several = pfl_lib.run("local", federation=federation, seeds=2, results_dir=tmp_path / "two")
    assert several.seeds == (1, 2) and len(list((tmp_path / "two" / "cells").iterdir())) == 2
    result = pfl_lib.run("fedavg", federation=federation(), results_dir=tmp_path)
    (entry,) = (tmp_path / "cells").iterdir()
    assert entry.name.startswith("fedavg-three_wards-own_data-seed1-")
    assert result.config["own"] == {"data": {}} and len(result.config["source"]) == 16
    before = entry.stat().st_mtime_ns
    again = pfl_lib.run("fedavg", federation=federation(), results_dir=tmp_path)
    assert again.metrics.equals(result.metrics) and entry.stat().st_mtime_ns == before


def test_the_key_of_named_data_follows_all_that_its_numbers_depend_on():
    changes = [{}, {"name": "wards"}, {"version": 2}, {"shift": 1.0}, {"width": 4}, {"seed": 2}]
    changes += [{"lr": 0.2}, {"rounds": 3}]
    keys = [FederationRun(FedAvg(), federation(**change)).key for change in changes]
    keys.append(FederationRun(FedAvg(weighting="uniform"), federation()).key)
    assert len(set(keys)) == len(keys)
    assert FederationRun(FedAvg(), federation()).key == keys[0]


def test_the_key_of_pictures_that_are_moved_tells_what_fills_them_up():
    """Normalised before, they are filled up with the mean, where they are bytes with black."""
    digits = data.load("digits", None, None)
    clients = from_partition(digits, partitions.make(partitions.find("C"), digits, 4, 1))
    splits = [clients.splits[name] for name in ("train", "test")]
    pairs = [
        [(of.pool.inputs(i), y) for i, y in zip(of.index, of.labels, strict=True)] for of in splits
    ]
    for augment, alike in (("crop_flip", False), ("none", True)):
        given = (lambda: models.build("linear", (1, 28, 28), 10), Schedule(1, augment=augment))
        settings = {"name": "own", "dtype": torch.float64}
        ours = pfl_lib.Federation(clients, *given, **settings)
        theirs = pfl_lib.Federation(from_arrays(*pairs, classes=10), *given, **settings)
        keys = [FederationRun(FedAvg(), fed).key for fed in (ours, theirs)]
        assert (keys[0] == keys[1]) is alike


def test_the_key_of_data_in_double_precision_tells_numbers_apart_that_single_rounds():
    def key(x: float) -> str:
        pair = [(torch.tensor([[x], [0.0]], dtype=torch.float64), torch.tensor([0, 1]))]
        settings = {"name": "own", "dtype": torch.float64}
        made = pfl_lib.Federation.from_arrays(
            pair, pair, lambda: nn.Linear(1, 2), Schedule(1), **settings
        )
        return FederationRun(FedAvg(), made).key

    assert key(1e9) != key(1e9 + 1) and key(1e9) == key(1e9)


def test_a_federation_without_a_name_is_not_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PFL_RESULTS_DIR", str(tmp_path))
    progress.tell.cache_clear()
    pfl_lib.run("fedavg", federation=federation(name=None))
    assert not any(tmp_path.iterdir())
    assert "without a name is not stored: name='mine' in it" in capsys.readouterr().err
    given = {"federation": federation(name=None), "results_dir": tmp_path}
    refused("give it name='mine'", pfl_lib.run, "fedavg", **given)
    refused("name '': give a text", federation, name="")


def test_a_split_read_from_a_file_that_has_changed_is_refused_and_no_checkpoint_of_it_is_used(
    tmp_path, store, capsys
):
    path = tmp_path / "first"
    ours = [spec(partition=Read(str(path)), rounds=rounds) for rounds in (1, 3)]
    begun = []
    for first in "009":
        path.write_text(first)
        with contextlib.closing(training(ours[1], store)) as going:
            begun.append(next(going).done)
            next(going)
    assert begun == [0, 1, 0]
    kept = store.checkpoint_path(ours[1])
    told = f"{kept} has another split: the run starts from round 1\n"
    assert capsys.readouterr().err == told
    stored = run_one(ours[0], store)
    assert run_one(ours[0], store).metrics.equals(stored.metrics)
    path.write_text("0")
    cure = "raise the version of partition, or remove"
    words = f"{ours[0].slug} was stored with another split of the same version: {cure}"
    for again in (run_one, lambda run, store: run_many([run], store)):
        assert refusal(again, ours[0], store).startswith(words)
    other = run_one(ours[0], Store(tmp_path / "other"))
    told = refusal(pfl_lib.compare, {"before": stored, "after": other})
    assert "split" in told and stored.config["split"] in told
    path.unlink()
    told = f"the partition of {ours[0].slug}, which is stored, fails: FileNotFoundError"
    assert refusal(run_one, ours[0], store).startswith(told)
