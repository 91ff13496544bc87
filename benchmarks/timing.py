"""Medians of calls timed in turn, fresh processes, and a process's peak memory."""

import contextlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any


def in_turn(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each call, timed in turn, A B C A B C ..., after one unrecorded run of
    each.

    On a shared machine times on their own say little: what disturbs one call disturbs its
    neighbours, and ratios stay.
    """
    times: list[list[float]] = [[] for _ in calls]
    for repeat in range(repeats + 1):
        for k, call in enumerate(calls):
            began = time.perf_counter()
            call()
            if repeat:
                times[k].append(time.perf_counter() - began)
    return [statistics.median(of_one) for of_one in times]


def in_fresh_process(call: Callable[[], Any]) -> Any:
    """What the call returns in a process that has done nothing before it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_quietly, call).result()


def _quietly(call: Callable[[], Any]) -> Any:
    with contextlib.redirect_stdout(sys.stderr):  # other libraries print lines of their own
        return call()


def peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    try:
        # getrusage counts what the parent held when it started this process; VmHWM begins with this
        # program.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")
        )
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
