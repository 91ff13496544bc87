"""Cells: what is refused, the same bits, interrupted or not, what failures leave behind."""

import math
import shutil
from pathlib import Path

import pytest

from pfl_lib import Federation, Schedule
from pfl_lib import methods as m
from pfl_lib.data import DATASETS
from pfl_lib.experiments import own
from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.experiments.spec import RunFailure
from pfl_lib.experiments.training import Run
from pfl_lib.results import store as stores
from pfl_lib.results.result import Result
from pfl_lib.results.store import NotStored, Store
from tests.common import no_room, refusal, refused
from tests.experiments.common import drawn, method_file, same_bits, spec
from tests.methods.conftest import normed
from tests.methods.test_differential import CASES

EVERY = {method.name: method for method in CASES}.values()
DATA = ", ".join(DATASETS)
ALICES = ("weight_erosion", "waffle")  # the methods that make one client's model


def test_a_cell_that_cannot_be_is_refused():
    for wrong, sentence in (
        ({"dataset": "minst"}, f"dataset 'minst' (did you mean mnist?) is not one of {DATA}"),
        ({"partition": "D"}, "distribution 'D' is not one of A, B, C, A*, B*"),
        ({"model": "resnet"}, "model 'resnet' is not one of lenet5, lenet5-relu"),
        ({"loss": "hinge"}, "loss 'hinge' is not one of cross_entropy"),
        ({"measures": ("speed",)}, "measure 'speed' is not one of start"),
        ({"measures": ("start", "start")}, "measures ('start', 'start'): give each of them"),
        ({"seed": "1"}, "seed '1': give a whole number"),
        ({"clients": 0}, "clients 0: give a whole number, 1 or more"),
        ({"images": "12"}, "images '12': give a whole number, 1 or more"),
        ({"evaluate_every": True}, "evaluate_every True: give a whole number, 1 or more"),
        ({"alice": 2}, "alice 2 is not one of the clients 0 to 1"),
        ({"validation": 1}, "validation 1: give a share from 0 up to below 1"),
        ({"validation": float("nan")}, "validation nan: give a share from 0 up to below 1"),
    ):
        assert refusal(spec, **wrong).startswith(sentence)


def small(alice: int | None = 0) -> Federation:
    data = drawn(4)
    schedule = Schedule(
        6, batch_size=3, momentum=0.9, participation=0.7, lr_decay=0.9, availability=((3, 3, 6),)
    )
    return Federation.from_arrays(
        data, data, normed, schedule, validation=data[::-1], alice=alice, device="cpu"
    )


@pytest.mark.parametrize(
    ("method", "alice"),
    [
        *((method, 1) for method in EVERY),
        *((method, None) for method in EVERY if method.name not in ALICES),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_run_restored_from_any_checkpoint_gives_the_same_bits(method, alice, store):
    """BatchNorm, momentum, partial participation, a newcomer, rounds that are not evaluated."""
    store.check_writable()
    whole, saved = Run(method, small(alice), evaluate_every=4), spec()
    for r in whole.rounds():
        if r < 6:
            store.save_checkpoint(saved, whole.checkpoint())
            resumed = Run(method, small(alice), evaluate_every=4)
            resumed.restore(store.load_checkpoint(saved))
            assert list(resumed.rounds()) == list(range(r + 1, 7))
            if r == 1:
                first = resumed
    assert all(same_bits(whole.result({}), of.result({})) for of in (first, resumed))


def test_a_damaged_checkpoint_starts_from_round_one_and_is_told_in_one_line(store, capsys):
    chosen = spec(m.Waffle(), rounds=3)
    whole = run_one(chosen, Store(store.root / "whole", None))
    store.check_writable()
    for content in (b"", b"not a checkpoint", b"PK\x03\x04" + bytes(5000)):
        store.checkpoint_path(chosen).write_bytes(content)
        rounds = []
        assert same_bits(run_one(chosen, store, progress=rounds.append), whole)
        assert rounds == [1, 2, 3]
        line = f"{store.checkpoint_path(chosen)} is damaged: the run starts from round 1\n"
        assert capsys.readouterr().err == line
        shutil.rmtree(store.folder(chosen))


def test_a_checkpoint_that_holds_something_else_starts_from_round_one():
    """Its checksum is right, so that nothing else tells."""
    chosen, first = m.Waffle(), Run(m.Waffle(), small())
    for r in first.rounds():
        if r == 2:
            break
    held = first.checkpoint()
    assert Run(chosen, small()).restore(held)
    rows = held["state"].items()
    wide, narrow = {n: row.double() for n, row in rows}, {n: row[:1] for n, row in rows}
    wrong = [{**held, "state": state} for state in ({}, wide, narrow)]
    for other in ({}, {"done": 2}, *wrong):
        run = Run(chosen, small())
        assert not run.restore(other) and run.done == 0, other


@pytest.mark.parametrize("name", ["metrics.csv", "model.pt"])
def test_a_damaged_entry_is_told_in_one_line_and_run_again_to_the_same_bits(store, name, capsys):
    chosen = spec(m.Scaffold())
    whole = run_one(chosen, store)
    path = store.folder(chosen) / name
    path.write_bytes(path.read_bytes()[:-20])
    rounds = []
    assert same_bits(run_one(chosen, store, progress=rounds.append), whole) and rounds == [1, 2]
    assert capsys.readouterr().err == f"{path.parent} is damaged and counts as not run\n"
    assert same_bits(store.find(chosen), whole)


def test_a_stored_cell_is_read_and_not_run_whatever_the_device_engine_or_threads(store):
    chosen, rounds = spec(), []
    first = run_one(chosen, store, device="cpu", engine="loop")
    again = run_one(chosen, store, device="auto", engine="vmap", threads=2, progress=rounds.append)
    assert rounds == [] and same_bits(first, again)
    assert again.seconds == pytest.approx(first.seconds, abs=1e-3)


@pytest.mark.parametrize(
    "run", [run_one, lambda c, s, **asked: run_many([c], s, jobs=1, **asked)[0]]
)
def test_a_cell_published_without_its_model_is_run_again_where_its_model_is_asked_for(
    run, tmp_path
):
    chosen, first = spec(), Store(tmp_path / "first", tmp_path / "published")
    whole = run_one(chosen, first)
    assert first.publish(chosen)
    other = Store(tmp_path / "other", tmp_path / "published")
    assert run(chosen, other).model is None and not (tmp_path / "other").exists()
    assert same_bits(run(chosen, other, with_model=True), whole)
    assert same_bits(other.find(chosen), whole)


def test_one_failed_cell_stops_no_other_and_says_why_in_one_line(store):
    bad = spec(images=500)  # too few for the partition
    results = run_many([bad, spec(m.Local()), bad], store, jobs=1)
    assert [type(result) for result in results] == [RunFailure, Result, RunFailure]
    assert results[0].spec == bad and "\n" not in results[0].message
    assert results[0].message.startswith("BadInput: distribution 'C' needs at least 99")


def test_an_error_in_a_method_of_ones_own_is_told_with_its_place(tmp_path, store):
    file = Path(method_file(tmp_path).partition(":")[0])
    file.write_text(file.read_text().replace("theta * FACTOR", "theta[FACTOR:, 0, 0]"))
    [failure] = run_many([spec(own.load(f"{file}:Shrunk"))], store, jobs=1)
    assert failure.message.startswith("IndexError: ")
    assert failure.message.endswith(f" ({file.name}, line 8)")


def test_a_results_folder_that_cannot_be_written_is_told_before_anything_is_trained(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "cells").write_text("")
    rounds = []
    for run in (
        lambda: run_one(spec(), Store(tmp_path / "results", None), progress=rounds.append),
        lambda: run_many([spec()], Store(tmp_path / "results", None)),
    ):
        refused(r"^results folder .*results cannot be written \(.*\): ", run)
    assert rounds == []


def test_results_come_in_the_order_of_the_cells_and_each_cell_is_run_once(store):
    first, second = spec(m.Local()), spec(m.FedAvg())
    results = run_many([second, first, second], store, jobs=1)
    assert [result.config["key"] for result in results] == [second.key, first.key, second.key]
    assert len(list((store.root / "cells").iterdir())) == 2


def test_a_device_or_engine_that_is_none_is_refused_for_a_stored_result_too(store):
    run_one(spec(rounds=1), store)
    for wrong in ({"device": "x"}, {"engine": "x"}):
        for go in (run_one, lambda one, *rest, **asked: run_many([one], *rest, **asked)):
            refused(" 'x' is not one of auto, ", go, spec(rounds=1), store, **wrong)


def test_runs_stop_at_the_first_result_that_cannot_be_stored(store, monkeypatch):
    """Three runs: the first is stored, the second is not, the third is not trained."""
    specs = [spec(m.Local(), rounds=rounds, model="linear") for rounds in (3, 2, 1)]
    trained, save = [], stores.write

    def write(result, folder):
        trained.append(result.config["key"])
        no_room() if trained[-1] != specs[0].key else save(result, folder)

    monkeypatch.setattr(stores, "write", write)
    with pytest.raises(NotStored) as refused:
        run_many(specs, store, jobs=1)
    assert str(refused.value).startswith(f"{specs[1].slug} could not be stored in {store.root} (")
    assert trained == [specs[0].key, specs[1].key]
    monkeypatch.undo()
    assert [store.find(one) is not None for one in specs] == [True, False, False]


def test_a_run_whose_checkpoint_cannot_be_written_goes_on(store, monkeypatch, capsys):
    monkeypatch.setattr(stores.Store, "save_checkpoint", no_room)
    one = spec(model="linear")
    result = run_one(one, store, checkpoint_seconds=0.0)
    assert result.metrics["round"].tolist() == [1, 2]
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"no checkpoint of {one.slug} (No space left on device): it goes on"


def test_a_diverged_run_is_recorded_and_reads_back(store):
    """ReLU, so that a learning rate of a million has no limit."""
    chosen = spec(m.FedAvg(), rounds=9, lr=1e6, model="lenet5-relu")
    rounds, again = [], []
    result = run_one(chosen, store, progress=rounds.append)
    assert result.diverged == rounds[-1] < 9
    assert result.metrics["round"].tolist() == list(range(1, result.diverged))
    found = run_one(chosen, store, progress=again.append)
    assert found.diverged == result.diverged and again == []
    assert found.metrics["loss"].tolist() == result.metrics["loss"].tolist()
    assert found.metrics["loss"].map(math.isfinite).all()
