"""Where runs train, in processes here (joblib's loky) or a Dask cluster, and how far they are."""

import contextlib
import itertools
import os
import pickle
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from uuid import uuid4

from pfl_lib.errors import BadInput, needs, said
from pfl_lib.experiments.spec import RunFailure, RunLeft, RunSpec
from pfl_lib.progress import progress
from pfl_lib.results.store import NotStored

Outcome = RunFailure | RunLeft | None  # what became of a run; None: its result is stored
Call = Callable[[RunSpec], Outcome]
Submit = Callable[[RunSpec], Future]

CONNECT_SECONDS = 10
LOOK_SECONDS = 0.5  # between two looks at runs that train elsewhere
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextlib.contextmanager
def rounds_shown(specs: Sequence[RunSpec]) -> Iterator[tuple[Path, Callable[..., None]]]:
    """One bar over the rounds of all runs: the folder in which each writes how many it has
    finished, into a file named by its slug, and what moves the bar on, given the runs that have
    ended: these count in full, also where their file cannot be read, as from another machine.
    """
    done, running = dict.fromkeys(specs, 0), set(specs)
    with (
        tempfile.TemporaryDirectory(prefix="pfl-", ignore_cleanup_errors=True) as folder,
        progress(sum(spec.schedule.rounds for spec in specs), "training", "round") as bar,
    ):

        def look(*ended: RunSpec) -> None:
            running.difference_update(ended)
            done.update((spec, spec.schedule.rounds) for spec in ended)
            for spec in running:
                with contextlib.suppress(OSError, ValueError):
                    done[spec] = int(Path(folder, spec.slug).read_text())
            several = f", {len(done) - len(running)} of {len(done)} runs finished" * (len(done) > 1)
            bar.label("training" + several)
            bar.reach(max(bar.steps, sum(done.values())))

        look()
        yield Path(folder), look


def completed(
    submit: Submit, specs: Iterable[RunSpec], at_once: int | None
) -> Iterator[tuple[RunSpec, Outcome] | None]:
    """Each spec and what became of it, as they end; None about twice a second meanwhile.  At most
    `at_once` are submitted at a time.  Raises what no other run would survive: NotStored, and
    KeyboardInterrupt where somebody told a process to end.
    """
    waiting, running = iter(specs), {}
    while True:
        free = None if at_once is None else at_once - len(running)
        running |= {submit(spec): spec for spec in itertools.islice(waiting, free)}
        if not running:
            return
        ended, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
        if not ended:
            yield None
        for future in ended:
            spec = running.pop(future)
            yield spec, _outcome(spec, future)


def _outcome(spec: RunSpec, future: Future) -> Outcome:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    try:
        return future.result()
    except NotStored:
        raise
    except TerminatedWorkerError:
        why = "a process was killed, most likely for want of memory: run it again, with fewer jobs"
    except BrokenProcessPool as error:
        told = f"a process could not read its task ({_cause(error)})"
        why = f"{told}: a method or a data set of your own must be importable there; or give jobs=1"
    except pickle.PicklingError as error:
        told = f"its task cannot be sent to another process ({_cause(error)})"
        why = f"{told}, as where a function of yours remembers: give jobs=1 (--jobs 1)"
        return RunFailure(spec, why, unsent=True)
    except Exception as error:  # noqa: BLE001  a lost worker must not stop the other runs
        why = said(error)
    return RunFailure(spec, why)


def _cause(error: Exception) -> str:
    """The last line of the traceback, a text, that loky gives as an error's cause."""
    return str(error.__cause__ or error).strip(' \n"').splitlines()[-1]


@contextlib.contextmanager
def processes(call: Call, workers: int) -> Iterator[Submit]:
    """What submits a run to so many processes, which stay for the next call.

    Left by an exception, also by Ctrl-C, it interrupts what runs and waits until that has saved
    its checkpoint.  A process that is killed takes the runs beside it along; those that were not
    started yet get new processes.
    """
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    def pool() -> Executor:
        return get_reusable_executor(workers, timeout=300, initializer=_start, env=ONE_THREAD)

    def submit(spec: RunSpec) -> Future:
        try:
            return pool().submit(_in_process, call, spec)
        except BrokenProcessPool as error:  # it broke just now
            failed = Future()
            failed.set_exception(error)
            return failed

    try:
        yield submit
    except BaseException:
        running = pool()
        try:
            for process in list(running._processes.values()):
                process.terminate()
            running.shutdown(wait=True)
        except KeyboardInterrupt:  # asked again
            running.shutdown(wait=False, kill_workers=True)
            raise
        raise


# In a process Ctrl-C is left to the parent, which sends one SIGTERM: during a run it ends the run
# as Ctrl-C would; before or after it is kept in mind, as SIG_IGN.


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _keep_in_mind)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """Where the parent was killed: end a run as Ctrl-C would, and a process without one at once."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    if signal.getsignal(signal.SIGTERM) is not _interrupt:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _keep_in_mind(*_) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupt(*_) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not disturb the checkpoint
    raise KeyboardInterrupt


def _in_process(call: Call, spec: RunSpec) -> Outcome:
    parent = os.getppid()
    try:
        if signal.signal(signal.SIGTERM, _interrupt) is signal.SIG_IGN:
            raise KeyboardInterrupt
        return call(spec)
    finally:
        if signal.getsignal(signal.SIGTERM) is _interrupt:
            signal.signal(signal.SIGTERM, _keep_in_mind)
        if os.getppid() != parent:
            os._exit(1)  # nobody is left to tell


@contextlib.contextmanager
def cluster(call: Call, scheduler: str) -> Iterator[Submit]:
    """What submits a run to the workers of the Dask cluster whose scheduler has this address;
    BadInput where none answers.

    A run whose worker dies goes on at another one; one that four workers died of counts as failed.
    """
    with needs("a Dask cluster needs Dask, here too", "distributed"):
        from distributed import Client
    try:
        kind, _, place = scheduler.rpartition("://")
        host, _, port = place.rpartition(":")
        if kind in ("", "tcp"):  # schedulers speak at once; Client would wait on
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as probe:
                probe.recv(1)
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, OverflowError, MemoryError):  # the last: by what is no Dask
        why = "start one with 'dask scheduler' and give the address that it prints"
        raise BadInput(f"no Dask scheduler answers at {scheduler!r}: {why}") from None
    with client:
        pool = client.get_executor(pure=False)
        # A name of its own each time: Dask would remember what became of the last one.
        yield lambda spec: pool.submit(_one_at_a_time, call, spec, key=f"{spec.slug}-{uuid4()}")


def _one_at_a_time(call: Call, spec: RunSpec) -> Outcome:
    """Two runs in one process would change each other's number of threads, and so their bits."""
    from distributed import get_worker

    if get_worker().state.nthreads > 1:
        why = "its Dask worker would train several at once: start it with --nthreads 1"
        return RunFailure(spec, why)
    return call(spec)
