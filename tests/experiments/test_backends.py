"""Cells run in processes here or on a Dask cluster, to the same bits, whatever dies on the way."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib import BadInput, Schedule
from pfl_lib.__main__ import main
from pfl_lib.experiments import backends
from pfl_lib.experiments.runner import run_many
from pfl_lib.experiments.spec import RunFailure, RunSpec
from pfl_lib.methods import APFL, FedAvg, Waffle
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
# Dask's own: a socket that is closed a little later, an event loop that another thread still holds
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("cluster"),  # one for all
]


def spec(method=None, rounds: int = 2, **settings) -> RunSpec:
    return RunSpec(
        method or FedAvg(),
        Schedule(rounds, lr=0.05),
        **{"dataset": "digits", "clients": 2, **settings},
    )


def same_bits(one: Result, other: Result) -> bool:
    pd.testing.assert_frame_equal(one.metrics, other.metrics, check_exact=True)
    assert (one.weights is None) == (other.weights is None)
    assert one.weights is None or np.array_equal(one.weights, other.weights)
    assert all(result.config.pop("finished", "") for result in (one, other))
    return one.config == other.config and all(
        torch.equal(one.model[name], value) for name, value in other.model.items()
    )


class Cluster:
    """A scheduler and two workers, each in a process of its own as `dask scheduler` and `dask
    worker` start them.
    """

    def __init__(self, folder: Path) -> None:
        self.address_file, self.log = folder / "scheduler.json", (folder / "log").open("w")
        # A user may run the tests where the package is not installed.
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        self.processes = [
            self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
        ]
        self.workers = [
            self._start(
                "worker",
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--local-directory",
                str(folder),
            )
            for _ in range(2)
        ]

    def _start(self, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self.address_file)]
        return subprocess.Popen(
            command,
            cwd=self.address_file.parent,
            env=self.environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def address(self) -> str:
        """The scheduler's address, as soon as both workers are there."""
        from distributed import Client

        ended = time.monotonic() + 200
        while not self.address_file.is_file() and time.monotonic() < ended:
            time.sleep(0.1)
        with Client(
            scheduler_file=str(self.address_file), timeout=100, set_as_default=False
        ) as client:
            client.wait_for_workers(2, timeout=max(1.0, ended - time.monotonic()))
            return client.scheduler.address

    def worker_of(self, of: RunSpec) -> subprocess.Popen:
        """The process that runs a run now."""
        from distributed import Client

        with Client(
            scheduler_file=str(self.address_file), timeout=100, set_as_default=False
        ) as client:
            busy = [
                a
                for a, keys in client.processing().items()
                if any(str(key).startswith(of.slug) for key in keys)
            ]
            process_ids = client.run(os.getpid, workers=busy)
        (worker,) = (worker for worker in self.workers if worker.pid in process_ids.values())
        return worker

    def stop(self) -> None:
        for process in (*self.workers, *self.processes):
            process.kill()
            process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'pfl-lib[dask]'")
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield started
    finally:
        started.stop()


def test_a_dask_cluster_gives_the_bits_of_a_local_run_though_a_worker_is_killed_half_way(
    cluster, tmp_path
):
    """The worker that runs the long spec is killed after a checkpoint; the other one goes on from
    there.  Last of the tests that need both.
    """
    long = spec(Waffle(), 120, model="linear")
    specs = [long, spec(APFL(), 20, model="linear", alice=None), spec(Waffle(), alice=None)]
    store, address, found = Store(tmp_path / "dask", None), cluster.address(), []
    settings = {
        "backend": "dask",
        "scheduler": address,
        "progress": False,
        "checkpoint_seconds": 0.0,
    }
    thread = threading.Thread(target=lambda: found.extend(run_many(specs, store, **settings)))
    thread.start()
    while thread.is_alive() and store.load_checkpoint(long) is None:
        time.sleep(0.01)
    killed = cluster.worker_of(long)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert store.find(long) is None and 0 < store.load_checkpoint(long)["done"] < 120
    done = []
    while thread.is_alive():  # every round leaves a checkpoint
        done.append((store.load_checkpoint(long) or {"done": 120})["done"])
        thread.join(timeout=0.02)
    assert done == sorted(done), "it began again from round 1"

    (survivor,) = (worker for worker in cluster.workers if worker is not killed)
    assert survivor.poll() is None and len(found) == 3
    here = run_many(specs[:2], Store(tmp_path / "here", None), jobs=1, progress=False)
    assert all(same_bits(one, other) for one, other in zip(found[:2], here, strict=True))
    # A spec that fails stops no other, and says why.
    assert isinstance(found[2], RunFailure)
    assert (
        found[2].message.startswith("BadInput: WAFFLE makes one client's model")
        and "\n" not in found[2].message
    )


def test_a_worker_that_would_train_two_runs_in_one_process_is_refused(monkeypatch):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'pfl-lib[dask]'")
    worker = SimpleNamespace(state=SimpleNamespace(nthreads=4))
    monkeypatch.setattr("distributed.get_worker", lambda: worker)
    failure = backends._one_at_a_time(lambda spec: pytest.fail("it was trained"), spec())
    assert failure.message.endswith("start it with --nthreads 1")


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:9", "nowhere.invalid:8786", "tcp://127.0.0.1", "carrier-pigeon://x"],
)
def test_a_scheduler_that_cannot_be_reached_is_told_in_one_line(address, monkeypatch, results_dir):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'pfl-lib[dask]'")
    monkeypatch.setattr(backends, "CONNECT_SECONDS", 1)
    with pytest.raises(BadInput) as refused:
        run_many(
            [spec()], Store(results_dir, None), backend="dask", scheduler=address, progress=False
        )
    assert str(refused.value).startswith(
        f"no Dask scheduler answers at '{address}': start one with 'dask scheduler'"
    )
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("answered", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_server_that_is_no_scheduler_is_told_in_one_line(answered, monkeypatch):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'pfl-lib[dask]'")
    monkeypatch.setattr(backends, "CONNECT_SECONDS", 5 if answered else 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted = []

        def answer() -> None:
            accepted.append(server.accept()[0])  # kept open
            accepted[0].sendall(answered)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(BadInput, match="^no Dask scheduler answers at 'tcp://127.0.0.1:"):
            backends.workers_of(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_dask_without_an_address_or_without_the_package_is_told_in_one_line(
    monkeypatch, results_dir
):
    store = Store(results_dir, None)
    with pytest.raises(
        BadInput,
        match="^backend 'dask' needs the address of a scheduler: give scheduler='tcp://HOST:8786' ",
    ):
        run_many([spec()], store, backend="dask", progress=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        BadInput,
        match=(
            r"^backend 'dask' needs a package that is missing here: pip install 'pfl-lib\[dask\]'"
        ),
    ):
        run_many([spec()], store, backend="dask", scheduler="tcp://127.0.0.1:8786", progress=False)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--backend", "dask"], "backend 'dask' needs the address of a scheduler"),
        (["--scheduler", "tcp://127.0.0.1:9"], "--scheduler is for --backend dask"),
    ],
)
def test_the_command_line_refuses_half_a_choice(words, line, capsys, results_dir):
    assert main(["reproduce", "--results-dir", str(results_dir), *words]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"pfl-lib: {line}") and printed.count("\n") == 1


def ended_in_processes(call, specs: list) -> dict:
    with backends.processes(call, 2) as submit:
        ended = [one for one in backends.completed(submit, specs, 2) if one is not None]
    return {spec.key: outcome for spec, outcome in ended}


def test_runs_whose_process_is_killed_fail_in_one_line_and_the_others_go_on():
    def call(of) -> RunFailure | None:
        if of.key == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    ended = ended_in_processes(call, [SimpleNamespace(key=key) for key in "bcdef"])
    assert ended["b"].message.startswith("a process was killed, most likely for want of memory")
    # What ran beside it is lost with it; what had not begun is trained in new processes.
    assert ended["e"] is ended["f"] is None and ended.keys() == set("bcdef")


class Unreadable:
    """What a process cannot read, as a class of a module that is not there."""

    key = "b"

    def __reduce__(self):
        return __import__, ("no_such_module",)


def test_runs_that_a_process_cannot_read_say_so_and_not_that_memory_was_short():
    [failure] = ended_in_processes(lambda of: None, [Unreadable()]).values()
    assert failure.message == (
        "a process could not read its task (ModuleNotFoundError: No module named"
        " 'no_such_module'): a method or a data set of your own must be importable there; or give"
        " jobs=1"
    )
