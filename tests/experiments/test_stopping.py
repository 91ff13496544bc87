"""Runs that end before their last round: a budget, Ctrl-C, SIGTERM, a parent that is killed.

Each saves its checkpoint, and resumed it gives the bits of an uninterrupted run.
"""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.experiments.spec import RunLeft, RunSpec
from pfl_lib.experiments.stopping import RESUMES, Interrupted, interruptible
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg
from pfl_lib.results.store import Store
from tests.common import ROOT
from tests.experiments.common import same_bits


@dataclass(frozen=True)
class Beating(FedAvg):
    """Writes its process and its round into a folder, a file a seed.

    With `together` 2 the runs of seeds 1 and 2 wait for each other: seed 2 finishes its second
    round after seed 1 has begun its third.
    """

    folder: str = ""
    together: int = 1
    name, title, version = "beating", "Beating", 1

    def round(self, fed, state, r):
        new = Path(self.folder) / f"new {fed.seed}"
        new.write_text(f"{os.getpid()} {r}")
        new.replace(Path(self.folder) / str(fed.seed))
        if r == 2 and fed.seed <= self.together == 2:
            other, least = (2, 2) if fed.seed == 1 else (1, 3)
            while beat(Path(self.folder), other)[1] < least:
                time.sleep(0.01)
        return super().round(fed, state, r)


def specs(folder: Path, rounds: int, seeds: int, together: int) -> list[RunSpec]:
    method, schedule = Beating(folder=str(folder), together=together), Schedule(rounds, lr=0.1)
    settings = {"model": "linear", "clients": 2, "evaluate_every": 1000}
    return [
        RunSpec(method, schedule, "digits", seed=seed, **settings) for seed in range(1, seeds + 1)
    ]


def beat(folder: Path, seed: int) -> tuple[int, int]:
    """The process and the last begun round of the run with that seed, as soon as it has one."""
    while not (folder / str(seed)).exists():
        time.sleep(0.01)
    process, r = (folder / str(seed)).read_text().split()
    return int(process), int(r)


@dataclass(frozen=True)
class AtRound3:
    """A time that has come as soon as the run of seed 1 has begun its third round."""

    folder: str

    def __le__(self, now: float) -> bool:
        beats = Path(self.folder) / "1"
        return beats.exists() and int(beats.read_text().split()[1]) >= 3


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_stopped_by_the_budget_resume_to_the_bits_of_uninterrupted_ones(jobs, tmp_path):
    """So many runs are at work as there are jobs; of three, the third was never begun."""
    some, store = specs(tmp_path, 6, 3, together=jobs), Store(tmp_path / "stopped", None)
    settings = {"jobs": jobs, "in_order": True, "checkpoint_seconds": 1e9}
    left = run_many(some, store, **settings, until=AtRound3(str(tmp_path)))
    assert left == [RunLeft(spec, started=place < jobs) for place, spec in enumerate(some)]
    done = [store.load_checkpoint(spec)["done"] for spec in some[:jobs]]
    assert done == [3, 2][:jobs]
    late = run_many(some, store, **settings, until=time.time())
    assert late == [RunLeft(spec, False) for spec in some]
    resumed = run_many(some, store, **settings)
    for spec, result in zip(some, resumed, strict=True):
        whole = run_one(spec, Store(tmp_path / "whole", None))
        assert same_bits(result, whole)
    assert all(store.load_checkpoint(spec) is None for spec in some)


def test_sigterm_is_taken_where_nobody_handles_it_and_given_back():
    before = signal.getsignal(signal.SIGTERM)
    try:
        for own, within in ((signal.SIG_DFL, signal.default_int_handler), (print, print)):
            signal.signal(signal.SIGTERM, own)
            with pytest.raises(Interrupted), interruptible():
                assert signal.getsignal(signal.SIGTERM) is within
                raise KeyboardInterrupt
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


PROGRAM = """
import signal, sys
from pathlib import Path
from tests.experiments.test_stopping import specs
from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.results.store import Store

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started by
alone = sys.argv[2] == "run_one"
some = specs(Path(sys.argv[1]), 1_000_000, 1 if alone else 2, together=1 if alone else 2)
if sys.argv[2] == "command line":
    from pfl_lib.__main__ import main
    from pfl_lib.pages import registry
    from pfl_lib.pages.collect import Needed
    registry.NotebookPage.needed = lambda *_: Needed("quick", tuple(some))
    registry.pages = lambda: {"endless": registry.NotebookPage("endless", "", "", "", Path())}
    words = "reproduce --train-only --only endless --jobs 2 --results-dir"
    sys.exit(main([*words.split(), sys.argv[1] + "/results"]))
store = Store(sys.argv[1] + "/results", None)
if alone:
    run_one(some[0], store, checkpoint_seconds=1e9)
run_many(some, store, jobs=2, checkpoint_seconds=1e9)
"""

IDLE = """
import os, signal, sys, time
from pathlib import Path
from pfl_lib.experiments.backends import completed, processes

with processes(lambda task: (time.sleep(0.2), os.getpid())[1], 2) as submit:
    pids = [ended[1] for ended in completed(submit, range(4), 2) if ended]
    Path(sys.argv[1] + ".new").write_text(" ".join(map(str, pids)))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    signal.pause()
"""


# Of `python -c`, since 3.14 the signal's own
INTERRUPTED = 1 if sys.version_info < (3, 14) else -signal.SIGINT


def ended(process: int) -> bool:
    """Whether a process is gone, or left as a zombie that nobody asks for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    ("how", "number", "to_all", "status"),
    [
        ("command line", signal.SIGTERM, True, 130),
        ("run_one", signal.SIGTERM, False, INTERRUPTED),
        ("run_many", signal.SIGTERM, False, INTERRUPTED),
        ("run_many", signal.SIGINT, True, INTERRUPTED),
        ("run_many", signal.SIGKILL, False, -signal.SIGKILL),
    ],
)
def test_what_runs_is_saved_and_ends_with_one_line_when_its_program_is_told_to_end(
    how, number, to_all, status, tmp_path
):
    """In the program itself (`run_one`) or in two processes: by a signal to the parent alone, or to
    all, as Ctrl-C in a terminal sends it.  A parent that cannot handle it is gone at once, and its
    processes notice by themselves.
    """
    seeds = (1,) if how == "run_one" else (1, 2)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), how]
    with (tmp_path / "printed").open("w") as printed:
        parent = subprocess.Popen(
            command, cwd=ROOT, stdout=printed, stderr=printed, start_new_session=True
        )
    before = [beat(tmp_path, seed) for seed in seeds]
    while min(r for _, r in before) < 3:
        before = [beat(tmp_path, seed) for seed in seeds]
    (os.killpg if to_all else os.kill)(parent.pid, number)
    assert parent.wait() == status, (tmp_path / "printed").read_text()
    for process, _ in before:
        while not ended(process):
            time.sleep(0.01)
    store = Store(tmp_path / "results", None)
    asked = specs(tmp_path, 1_000_000, len(seeds), together=len(seeds))
    for spec, (_, r) in zip(asked, before, strict=True):
        assert store.load_checkpoint(spec)["done"] >= r - 1
    told = [] if number == signal.SIGKILL else [RESUMES]
    printed = (tmp_path / "printed").read_text()
    assert re.findall("interrupted[:;] (.*)", printed) == told
    assert "Traceback" not in printed


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_processes_that_wait_for_work_end_with_a_parent_that_is_killed(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", IDLE, str(tmp_path / "ended")], cwd=ROOT)
    while not (tmp_path / "ended").exists():
        assert parent.poll() is None
        time.sleep(0.01)
    processes = [int(word) for word in (tmp_path / "ended").read_text().split()]
    assert not any(map(ended, processes))
    parent.kill()
    began = time.monotonic()
    while not all(map(ended, processes)):
        assert time.monotonic() - began < 60  # they would wait for 300 seconds
        time.sleep(0.01)
    assert parent.wait() == -signal.SIGKILL
