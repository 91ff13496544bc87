"""One client at a time through one flat module; on several cores several clients, each in a module of its own.

The CPU's default.  A client's result does not depend on how many are trained at once, since each is trained whole by one
thread or process.  Threads start at once but wait for each other's turn in Python (two make 1.4 to 1.5 times one on LeNet-5);
processes forked for the round share nothing but the result (1.7 to 1.9 times) and cost some ten milliseconds.
"""

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
"""Seconds of one core's work in a round from which the next is shared among processes, not threads."""


class Loop:
    """Local training through `modules`, as many clients at once as there are modules."""

    def __init__(self, modules: Sequence[FlatModule]) -> None:
        self.modules = modules
        # A forked process cannot use autograd once CUDA's threads run; macOS's own libraries do not survive a fork.
        self.may_fork = sys.platform == "linux" and not torch.cuda.is_available()
        self.work = 0.0  # seconds of one core that the last call was worth, about

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
        began = time.perf_counter()
        at_once = min(len(self.modules), len(work))
        forking = at_once > 1 and self.may_fork and self.work > WORTH_FORKING
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

        if forking:
            _in_processes(at_once, [len(each.batches) for each in work], client)
        elif at_once > 1:
            with ThreadPoolExecutor(at_once) as threads:
                list(threads.map(client, range(len(work))))
        else:
            for i in range(len(work)):
                client(i)
        self.work = at_once * (time.perf_counter() - began)
        return out


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
    children = []
    try:
        for share in shares[1:]:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # other threads: the child computes, and takes no lock of theirs
                child = os.fork()
            if child == 0:
                try:
                    for i in share:
                        client(i)
                        finished[i] = 1
                finally:
                    os._exit(0)
            children.append(child)
        for i in shares[0]:
            client(i)
            finished[i] = 1
    except BaseException:
        for child in children:
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        for child in children:
            os.waitpid(child, 0)
    for i in (finished == 0).nonzero().flatten().tolist():
        client(i)


def _client(
    module: FlatModule, pool: Pool, rows: Rows, work: Work, step: Step, trained: Sequence[str], sgd: dict[str, float]
) -> Rows:
    if sgd["momentum"]:
        rows |= {velocity(name): torch.zeros_like(rows[name]) for name in trained}
    for number, positions in enumerate(work.batches):
        index: Tensor = work.index[positions]
        step(rows, module.gradient, Batch(pool.inputs(index), work.labels[positions], number, **sgd))
    return rows
