"""Progress of many runs by rounds: what the bar says, and what it leaves behind."""

import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pfl_lib.experiments import backends, rounds
from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.experiments.spec import RunFailure, RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg, Local
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store


@dataclass(frozen=True)
class Patient(Local):
    """Its second round is not finished before the file is there."""

    seen: str = ""
    name, title, version = "patient", "Patient", 1

    def round(self, fed, state, r):
        ended = time.monotonic() + 60
        while r == 2 and not Path(self.seen).exists() and time.monotonic() < ended:
            time.sleep(0.01)
        return super().round(fed, state, r)


@dataclass(frozen=True)
class Stopped(Local):
    """Its second round fails, or is interrupted."""

    interrupted: int = 0
    name, title, version = "stopped", "Stopped", 1

    def round(self, fed, state, r):
        if r == 2:
            raise KeyboardInterrupt if self.interrupted else ValueError("no more")
        return super().round(fed, state, r)


class Recorded:
    """A bar that writes down what it is told, and makes a file when it first moves."""

    def __init__(self, moved: Path) -> None:
        self.total, self.labels, self.steps, self.moved = 0, [], [], moved

    @contextlib.contextmanager
    def progress(self, total, label, unit, shown=True):
        assert unit == "round"
        self.total, self.labels = total, [label]
        yield self

    def update(self, n: int = 1) -> None:
        self.steps.append((n, self.labels[-1]))
        self.moved.touch()

    def label(self, text: str) -> None:
        self.labels.append(text)


@pytest.fixture
def bar(tmp_path, monkeypatch) -> Recorded:
    monkeypatch.delenv("PFL_HEADLESS")
    monkeypatch.setattr(backends, "LOOK_SECONDS", 0.01)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    recorded = Recorded(tmp_path / "moved")
    monkeypatch.setattr(rounds, "progress", recorded.progress)
    return recorded


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "temporary").iterdir())


def spec(method=None, rounds: int = 3, seed: int = 1, **settings) -> RunSpec:
    schedule = Schedule(rounds, lr=settings.pop("lr", 0.1))
    return RunSpec(
        method or Local(),
        schedule,
        "digits",
        clients=2,
        seed=seed,
        **{"model": "linear", **settings},
    )


def moved(bar: Recorded) -> int:
    assert all(n > 0 for n, _ in bar.steps)
    return sum(n for n, _ in bar.steps)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_bar_counts_rounds_and_moves_before_a_run_has_ended(jobs, bar, results_dir, tmp_path):
    """A round that waits for the bar to move would wait for ever if only ended runs moved it."""
    method = Patient(seen=str(bar.moved))
    specs = [spec(method, 3), spec(method, 4, seed=2)]
    results = run_many(specs, Store(results_dir, None), jobs=jobs)
    if jobs == 2:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
    assert all(isinstance(result, Result) for result in results)
    assert bar.total == moved(bar) == 7
    assert bar.steps[0][1] == "training, 0 of 2 runs finished"
    assert bar.labels[-1] == "training, 2 of 2 runs finished"
    assert left(tmp_path) == []


def test_runs_that_diverge_or_fail_count_in_full_and_stored_ones_not_at_all(
    bar, results_dir, tmp_path
):
    store = Store(results_dir, None)
    run_one(spec(), store)
    diverged, failed = spec(FedAvg(), 9, lr=1e6, model="lenet5-relu"), spec(Stopped(), 5)
    results = run_many([spec(), diverged, failed], store, jobs=1)
    assert results[1].diverged < 9 and isinstance(results[2], RunFailure)
    assert bar.total == moved(bar) == 14 and left(tmp_path) == []


def test_one_run_that_was_interrupted_counts_the_rounds_it_has(bar, results_dir, tmp_path):
    store, going_on = Store(results_dir, None), spec(Patient(seen=str(tmp_path / "go")), 3)

    def interrupt(r: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_one(going_on, store, progress=interrupt)
    assert store.load_checkpoint(going_on)["done"] == 1
    (tmp_path / "go").touch()
    run_many([going_on], store, jobs=1)
    assert bar.total == moved(bar) == 3 and set(bar.labels) == {"training"}


def test_an_interrupted_run_leaves_no_file_of_counts(bar, results_dir, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_many([spec(Stopped(interrupted=1))], Store(results_dir, None), jobs=1)
    assert left(tmp_path) == []


@pytest.mark.parametrize("lost", ["no room for it", "vanished"])
def test_runs_go_on_without_the_file_of_counts(lost, bar, results_dir, tmp_path, monkeypatch):
    if lost == "vanished":
        progress = bar.progress

        def vanished(*asked):
            [shutil.rmtree(folder) for folder in left(tmp_path)]
            return progress(*asked)

        monkeypatch.setattr(rounds, "progress", vanished)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    results = run_many([spec(), spec(seed=2)], Store(results_dir, None), jobs=1)
    assert all(isinstance(result, Result) for result in results)
    assert [n for n, _ in bar.steps] == [3, 3] and left(tmp_path) == []


@pytest.mark.parametrize("quiet", ["headless", "not shown"])
def test_nothing_is_counted_where_nothing_is_shown(quiet, bar, tmp_path, monkeypatch):
    monkeypatch.setenv("PFL_HEADLESS", "1" if quiet == "headless" else "")
    with rounds.rounds_shown([spec()], shown=quiet == "headless") as shown:
        assert shown.writer(spec(), True) is None and left(tmp_path) == []
        shown.end(spec())
