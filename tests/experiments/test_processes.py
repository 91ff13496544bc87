"""Runs in processes here or on a Dask cluster: the same bits, whatever dies on the way."""

import multiprocessing
import os
import pickle
import random
import signal
import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from pfl_lib.experiments import backends, own
from pfl_lib.experiments.runner import run_many, run_one
from pfl_lib.experiments.spec import RunFailure
from pfl_lib.methods import APFL, Waffle
from pfl_lib.results.store import Store
from tests.common import refused
from tests.experiments.common import method_file, same_bits, spec

pytestmark = pytest.mark.xdist_group("processes")  # started once


CHILD = """
@dataclass(frozen=True)
class Child(Shrunk):
    name, version, served = "child", 1, Shrunk.served
"""


def test_one_worker_and_two_give_the_same_bits_of_a_method_out_of_a_file_too(tmp_path):
    file = method_file(tmp_path).rpartition(":")[0]
    with open(file, "a") as text:
        text.write(CHILD)
    mine = own.load(f"{file}:Child")
    specs = [spec(Waffle(), clients=3), spec(APFL(), alice=None), spec(mine)]
    together, alone = (
        run_many(specs, Store(tmp_path / str(jobs), None), jobs=jobs) for jobs in (2, 1)
    )
    assert all(same_bits(one, two) for one, two in zip(alone, together, strict=True))
    assert len(alone[1].metrics) == 2 * 2
    assert together[2].config["source"] == own.source_of(type(mine))


def ended_in_processes(call, specs: list) -> dict:
    with backends.processes(call, 2) as submit:
        ended = [one for one in backends.completed(submit, specs, 2) if one is not None]
    return {spec.key: outcome for spec, outcome in ended}


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


class Unsent(Unreadable):
    """What cannot be pickled, as a function of a file that remembers its values."""

    def __reduce__(self):
        raise pickle.PicklingError("not the same object")


def test_runs_that_cannot_be_sent_to_a_process_say_why_and_what_to_do():
    [failure] = ended_in_processes(lambda of: None, [Unsent()]).values()
    assert failure.message.startswith(
        "its task cannot be sent to another process (_pickle.PicklingError: "
    )
    assert failure.message.endswith("give jobs=1 (--jobs 1)")


def test_runs_whose_process_is_killed_fail_in_one_line_and_the_others_go_on():
    def call(of) -> RunFailure | None:
        if of.key == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    ended = ended_in_processes(call, [SimpleNamespace(key=key) for key in "bcdef"])
    assert ended["b"].message.startswith("a process was killed, most likely for want of memory")
    # What ran beside it is lost with it; what had not begun is trained in new processes.
    assert ended["e"] is ended["f"] is None and ended.keys() == set("bcdef")


def test_a_run_killed_at_random_moments_gives_the_bits_of_an_uninterrupted_one(tmp_path):
    """SIGKILL twice, each some time after another round was finished; then the rest is run here."""
    chosen = spec(Waffle(), rounds=100, model="linear", schedule={"momentum": 0.5})
    whole = run_one(chosen, Store(tmp_path / "whole", None))
    store = Store(tmp_path / "killed", None)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pfl_lib.experiments.runner", "sklearn.datasets"])
    done, moments = 0, random.Random(1)
    for _ in range(2):
        process = context.Process(
            target=run_one, args=(chosen, store), kwargs={"checkpoint_seconds": 0.0}
        )
        process.start()
        while process.is_alive() and (store.load_checkpoint(chosen) or {"done": 0})["done"] <= done:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -9, "it had finished before it was killed"
        done = store.load_checkpoint(chosen)["done"]
        assert store.find(chosen) is None
    rounds = []
    resumed = run_one(chosen, store, progress=rounds.append)
    assert rounds == list(range(done + 1, 101)) and done >= 2
    assert same_bits(resumed, whole) and same_bits(store.find(chosen), whole)
    assert not any(path.suffix == ".pt" for path in (store.root / "checkpoints").iterdir())


# Dask's own: a socket that is closed a little later, an event loop that another thread still holds
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_dask_cluster_gives_the_bits_of_a_local_run_though_a_worker_is_killed(tmp_path):
    """The worker of the long one is killed after a checkpoint; another one goes on from there."""
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    long = spec(Waffle(), 120, model="linear")
    specs = [long, spec(APFL(), 20, model="linear", alice=None), spec(Waffle(), alice=None)]
    store, found = Store(tmp_path / "dask", None), []
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        settings = {"scheduler": cluster.scheduler_address, "checkpoint_seconds": 0.0}
        go = lambda: found.extend(run_many(specs, store, **settings))  # noqa: E731
        thread = threading.Thread(target=go)
        thread.start()
        while thread.is_alive() and store.load_checkpoint(long) is None:
            time.sleep(0.01)
        busy = client.processing().items()
        at = [worker for worker, keys in busy if any(long.slug in str(key) for key in keys)]
        [process] = client.run(os.getpid, workers=at).values()
        os.kill(process, signal.SIGKILL)
        assert store.find(long) is None and 0 < store.load_checkpoint(long)["done"] < 120
        done = []
        while thread.is_alive():  # every round leaves a checkpoint
            done.append((store.load_checkpoint(long) or {"done": 120})["done"])
            thread.join(timeout=0.02)
    assert done == sorted(done), "it began again from round 1"
    here = run_many(specs[:2], Store(tmp_path / "here", None), jobs=1)
    assert all(same_bits(one, other) for one, other in zip(found[:2], here, strict=True))
    # A run that fails stops no other, and says why.
    assert isinstance(found[2], RunFailure)
    assert found[2].message.startswith("BadInput: WAFFLE makes one client's model")


def test_a_worker_that_would_train_two_runs_in_one_process_is_refused(monkeypatch):
    pytest.importorskip("distributed", reason="needs Dask")
    worker = SimpleNamespace(state=SimpleNamespace(nthreads=4))
    monkeypatch.setattr("distributed.get_worker", lambda: worker)
    failure = backends._one_at_a_time(lambda spec: pytest.fail("it was trained"), spec())
    assert failure.message.endswith("start it with --nthreads 1")


def test_a_scheduler_that_is_not_there_is_told_in_one_line(monkeypatch, store):
    pytest.importorskip("distributed", reason="needs Dask")
    monkeypatch.setattr(backends, "CONNECT_SECONDS", 1)
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    for address in ("tcp://127.0.0.1:9", f"127.0.0.1:{port}", "tcp://x", "carrier-pigeon://x"):
        told = f"^no Dask scheduler answers at '{address}': start"
        refused(told, run_many, [spec()], store, scheduler=address)
    silent.close()
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused("Dask, .* is missing: pip install", run_many, [spec()], store, scheduler="tcp://x:1")
