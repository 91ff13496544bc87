"""Where specs are run: in this process, in processes of this machine (joblib's loky), or by the
workers of a Dask cluster.
"""

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pfl_lib.errors import BadInput

if TYPE_CHECKING:
    from distributed import Client, Future

    from pfl_lib.experiments.spec import RunSpec

BACKENDS = ("loky", "dask")
CONNECT_SECONDS = 10

Call = Callable[..., tuple[str, str | None]]
"""`call(spec, *settings)` runs one spec and returns its key and, where it failed, why, in one line.
"""


def completed(
    call: Call, specs: Iterable["RunSpec"], settings: tuple, workers: int
) -> Iterator[tuple[str, str | None]]:
    """What `call` returns for each spec, in the order in which they end: here one by one, or in so
    many processes.  A spec is asked for when it can be started, so that `specs` may end early.
    """
    if workers == 1:
        yield from (call(spec, *settings) for spec in specs)
        return
    import joblib
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    specs, left = iter(specs), set()

    def tasks() -> Iterator[tuple]:
        for spec in specs:
            left.add(spec.key)
            yield joblib.delayed(call)(spec, *settings)

    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(
            n_jobs=workers, return_as="generator_unordered", pre_dispatch=workers, batch_size=1
        )
        try:
            for key, message in parallel(tasks()):
                left.remove(key)
                yield key, message
        except BrokenProcessPool as error:
            if isinstance(error, TerminatedWorkerError):
                why = "a process was killed, most likely for want of memory: run it again, with"
                why += " fewer jobs"
            else:
                why = f"a process could not read its task ({_last_line(error)}): a method or a data"
                why += " set of your own must be importable there; or give jobs=1"
            for key in [*left, *(spec.key for spec in specs)]:
                yield key, why


def _last_line(error: BaseException) -> str:
    """What a broken pool of processes says of its cause, in one line."""
    return str(error.__cause__ or error).strip(' \n"').splitlines()[-1]


def completed_by_dask(
    call: Call, specs: Sequence["RunSpec"], settings: tuple, jobs: int | None, scheduler: str | None
) -> Iterator[tuple[str, str | None]]:
    """The same on a cluster: as many specs at a time as it has workers, or at most `jobs`.

    A spec whose worker dies is given to another one, which goes on from the spec's last checkpoint;
    a run that four workers died of counts as failed.  Not through joblib, which waits for ever for
    such a run.
    """
    with connected(scheduler) as client:
        from distributed import as_completed

        waiting, running, done = iter(specs), {}, as_completed(loop=client.loop)

        def start(spec: "RunSpec") -> None:
            future = client.submit(
                _one_at_a_time,
                call,
                spec,
                *settings,
                key=f"{spec.slug}-{uuid.uuid4().hex[:8]}",
                pure=False,
            )
            running[future.key] = spec
            done.add(future)

        for spec in itertools.islice(waiting, jobs):
            start(spec)
        for future in done:
            yield running.pop(future.key).key, _message(future)
            for spec in itertools.islice(waiting, 1):
                start(spec)


def workers_of(scheduler: str | None) -> int:
    """How many workers a Dask cluster has just now; BadInput, in one line, where its scheduler
    cannot be used.
    """
    with connected(scheduler) as client:
        return len(client.nthreads())


@contextlib.contextmanager
def connected(scheduler: str | None) -> Iterator["Client"]:
    """A connection to the Dask scheduler at this address; BadInput, in one line, where that cannot
    be.
    """
    if scheduler is None:
        raise BadInput(
            "backend 'dask' needs the address of a scheduler: give scheduler='tcp://HOST:8786'"
            " (--scheduler tcp://HOST:8786), as 'dask scheduler' prints it"
        )
    try:
        from distributed import Client
    except ImportError:
        raise BadInput(
            "backend 'dask' needs a package that is missing here: pip install 'pfl-lib[dask]'"
        ) from None
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop of its own
            thread.submit(asyncio.run, _answers(scheduler)).result()
    except (
        OSError,
        ValueError,
        TypeError,
        MemoryError,
    ):  # the last where "HTTP/1.1" is read as a length
        raise BadInput(
            f"no Dask scheduler answers at {scheduler!r}: start one with 'dask scheduler' and give"
            " the address that it prints"
        ) from None
    with Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False) as client:
        crowded = [address for address, threads in client.nthreads().items() if threads > 1]
        if crowded:
            raise BadInput(
                f"Dask worker {crowded[0]} would run several specs in one process: start workers"
                " with --nthreads 1"
            )
        yield client


async def _answers(address: str) -> None:
    """Connect once, within bounds.  A `Client` waits for ever for a server that accepts and says
    nothing, and complains when the program ends.
    """
    from distributed.core import connect

    connection = await asyncio.wait_for(
        connect(address, timeout=CONNECT_SECONDS), CONNECT_SECONDS + 1
    )
    await connection.close()


def _one_at_a_time(call: Call, spec: "RunSpec", *settings: object) -> tuple[str, str | None]:
    """What a Dask worker does.  Two specs in one process would change each other's number of torch
    threads, and so their last bits.
    """
    from distributed import get_worker

    if get_worker().state.nthreads > 1:
        return (
            spec.key,
            "this worker runs several specs in one process: start workers with --nthreads 1",
        )
    return call(spec, *settings)


def _message(future: "Future") -> str | None:
    try:
        return future.result()[1]
    except Exception as error:  # noqa: BLE001  a lost worker must not stop the other specs; its line is shown with the results
        return f"{type(error).__name__}: {error}".splitlines()[0]
