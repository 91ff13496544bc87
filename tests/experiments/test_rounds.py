"""Progress of many runs by rounds: what the bar says, and what it leaves behind."""

import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pfl_lib.experiments import backends
from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.experiments.spec import RunFailure
from pfl_lib.methods import FedAvg, Local
from pfl_lib.progress import Bar
from pfl_lib.results.result import Result
from tests.experiments.common import spec


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
class Fails(Local):
    name, title, version = "fails", "Fails", 1

    def round(self, fed, state, r):
        if r == 2:
            raise ValueError("no more")
        return super().round(fed, state, r)


class Recorded(Bar):
    """A bar that writes down its labels, and makes a file when it first moves."""

    def __init__(self, moved: Path) -> None:
        self.total, self.labels, self.moved = 0, [], moved

    @contextlib.contextmanager
    def progress(self, total, label, unit):
        self.total = total
        yield self

    def update(self, n: int = 1) -> None:
        assert n >= 0
        super().update(n)
        if self.steps:
            self.moved.touch()

    def label(self, text: str) -> None:
        self.labels.append(text)


@pytest.fixture
def bar(tmp_path, monkeypatch) -> Recorded:
    monkeypatch.setattr(backends, "LOOK_SECONDS", 0.01)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    recorded = Recorded(tmp_path / "moved")
    monkeypatch.setattr(backends, "progress", recorded.progress)
    return recorded


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_bar_counts_rounds_and_moves_before_a_run_has_ended(jobs, bar, store, tmp_path):
    """A round that waits for the bar to move would wait for ever if only ended runs moved it."""
    method = Patient(seen=str(bar.moved))
    results = run_many([spec(method, 3), spec(method, 4)], store, jobs=jobs)
    assert all(isinstance(result, Result) for result in results)
    assert bar.total == bar.steps == 7
    assert [*dict.fromkeys(bar.labels)] == [
        f"training, {ended} of 2 runs finished" for ended in (0, 1, 2)
    ]
    assert not any((tmp_path / "temporary").iterdir())


def test_runs_that_diverge_or_fail_count_in_full_and_stored_ones_not_at_all(bar, store):
    run_one(spec(), store)
    diverged, failed = spec(FedAvg(), 9, lr=1e6, model="lenet5-relu"), spec(Fails(), 5)
    results = run_many([spec(), diverged, failed], store, jobs=1)
    assert results[1].diverged < 9 and isinstance(results[2], RunFailure)
    assert bar.total == bar.steps == 14


def test_an_interrupted_run_leaves_no_file_and_counts_the_rounds_it_has(bar, store, tmp_path):
    going_on = spec(Patient(seen=str(tmp_path / "go")), 3)
    reach = bar.reach

    def interrupt(steps: int) -> None:
        reach(steps)
        if steps:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(bar, "reach", interrupt)
        run_many([going_on], store, jobs=1)
    assert bar.steps == store.load_checkpoint(going_on)["done"] == 1
    assert not any((tmp_path / "temporary").iterdir())
    (tmp_path / "go").touch()
    bar.steps = 0
    run_many([going_on], store, jobs=1)
    assert bar.total == bar.steps == 3 and set(bar.labels) == {"training"}


def test_runs_go_on_where_their_counts_cannot_be_written(bar, store, tmp_path, monkeypatch):
    def vanished(*asked):
        [shutil.rmtree(folder) for folder in (tmp_path / "temporary").iterdir()]
        return bar.progress(*asked)

    monkeypatch.setattr(backends, "progress", vanished)
    assert isinstance(run_many([spec()], store, jobs=1)[0], Result)
    assert bar.steps == 2 and not any((tmp_path / "temporary").iterdir())
