"""One client at a time through one flat module; on several cores several clients, each in a module of its own.

The CPU's default.  A client's result does not depend on how many are trained at once, since each is trained whole by one
thread or process.  Threads start at once but wait for each other's turn in Python (two make 1.4 to 1.5 times one on LeNet-5);
processes forked for the round share nothing but the result (1.7 to 1.9 times) and cost some ten milliseconds.
"""

import contextlib
import mmap
import os
import queue
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from pfl_lib.engine import Pool, Work
from pfl_lib.engine.flat import FlatModule
from pfl_lib.rows import Batch, Rows, Step, velocity

WORTH_FORKING = 0.3
"""Seconds of one core's work in a call from which its clients are shared among processes, not threads."""


class Loop:
    """Local training through `modules`, as many clients at once as there are modules.

    The first call takes them one by one: it tells how long a batch takes, and whether steps draw from torch's generator;
    such steps are never taken side by side, since their numbers would depend on who goes first.
    """

    def __init__(self, modules: Sequence[FlatModule]) -> None:
        self.modules = modules
        self.seconds_a_batch: float | None = None  # of one core
        self.random = False

    def train(
        self,
        pool: Pool,
        rows: Rows,
        work: Sequence[Work],
        step: Step,
        trained: Sequence[str],
        sgd: dict[str, float],
    ) -> Rows:
        """Take rows {name: [n, width]} of n clients through their work; returns the `trained` names only, in new matrices."""
        sizes = [len(each.batches) for each in work]
        at_once = 1 if self.random or self.seconds_a_batch is None else min(len(self.modules), len(work))
        forking = at_once > 1 and may_fork() and self.seconds_a_batch * sum(sizes) > WORTH_FORKING
        out = {name: (_shared if forking else _own)(rows[name]) for name in trained}
        idle: queue.SimpleQueue[FlatModule] = queue.SimpleQueue()
        for module in self.modules:
            idle.put(module)

        def client(i: int) -> None:
            module = idle.get()
            try:
                own = {name: matrix[i].clone() for name, matrix in rows.items()}
                done = _client(module, pool, own, work[i], step, trained, sgd)
                for name in trained:
                    out[name][i] = done[name]
            finally:
                idle.put(module)

        generator, began = torch.get_rng_state(), time.perf_counter()
        if forking:
            _in_processes(at_once, sizes, client)
        elif at_once > 1:
            with ThreadPoolExecutor(at_once) as threads:
                list(threads.map(client, range(len(work))))
        else:
            for i in range(len(work)):
                client(i)
        self.seconds_a_batch = at_once * (time.perf_counter() - began) / max(1, sum(sizes))
        self.random = self.random or not torch.equal(generator, torch.get_rng_state())
        return out


def may_fork() -> bool:
    """Whether a forked process can compute: on Linux (macOS's libraries do not survive a fork), without CUDA (autograd does not survive
    its threads), and with torch's own threads off, as `one_thread` has them (a forked process would wait for them for ever)."""
    return sys.platform == "linux" and not torch.cuda.is_available() and torch.get_num_threads() == 1


def _own(like: Tensor) -> Tensor:
    return torch.empty_like(like, memory_format=torch.contiguous_format)


def _shared(like: Tensor) -> Tensor:
    """As `_own`, in memory that forked processes write into."""
    if not like.numel():
        return _own(like)
    return torch.frombuffer(mmap.mmap(-1, like.numel() * like.itemsize), dtype=like.dtype).reshape(like.shape)


def _in_processes(count: int, sizes: Sequence[int], client: Callable[[int], None]) -> None:
    """Call `client(i)` for every i, in this process and in count - 1 forked ones, shared out by size.

    What a forked process did not finish, whatever the reason, is done again here: a client's error is then raised as always.
    """
    shares: list[list[int]] = [[] for _ in range(count)]
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        min(shares, key=lambda share: sum(sizes[k] for k in share)).append(i)
    finished = _shared(torch.zeros(len(sizes), dtype=torch.uint8))

    def go_through(share: Sequence[int]) -> None:
        for i in share:
            client(i)
            finished[i] = 1

    children: list[int] = []
    try:
        for share in shares[1:]:
            child = _fork()
            if child == 0:
                try:
                    go_through(share)
                finally:
                    os._exit(0)
            if child is not None:
                children.append(child)
        go_through(shares[0])
        while children:
            _wait(children[-1])
            children.pop()
    except BaseException:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            _wait(child)
        raise
    for i in (finished == 0).nonzero().flatten().tolist():
        client(i)


def _fork() -> int | None:
    """As `os.fork`; None where the system has no room for another process."""
    with warnings.catch_warnings():
        # Python warns where there are other threads: the child computes, and takes no lock of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError:
            return None


def _wait(child: int) -> None:
    with contextlib.suppress(ChildProcessError):  # a program that ignores SIGCHLD has nobody to wait for
        os.waitpid(child, 0)


def _client(
    module: FlatModule, pool: Pool, rows: Rows, work: Work, step: Step, trained: Sequence[str], sgd: dict[str, float]
) -> Rows:
    if sgd["momentum"]:
        rows |= {velocity(name): torch.zeros_like(rows[name]) for name in trained}
    for number, positions in enumerate(work.batches):
        index: Tensor = work.index[positions]
        step(rows, module.gradient, Batch(pool.inputs(index), work.labels[positions], number, **sgd))
    return rows
