"""Clocks and counters: medians of calls timed in turn, a process's peak memory, and the floor that
counting operations gives.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

MATRIX = 1024
"""Side of the square matrices whose product stands for the fastest that a core can compute."""


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


def matrix_product() -> Callable[[], object]:
    """A call that multiplies two matrices, 2 * MATRIX**3 operations."""
    a, b = torch.randn(2, MATRIX, MATRIX, generator=torch.Generator().manual_seed(0))
    out = torch.empty(MATRIX, MATRIX)
    return lambda: torch.mm(a, b, out=out)


def operations(make: Callable[[], nn.Module], shape: tuple[int, ...], batch: int) -> float:
    """Floating-point operations of one example's training step: matrix products and convolutions,
    forward and backward.

    Counted, not computed, on the network as textbooks write it; additions, activations and pooling
    cost nothing here.
    """
    with torch.device("meta"):
        module = make()
        x, labels = torch.empty(batch, *shape), torch.zeros(batch, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            nn.functional.cross_entropy(module(x), labels).backward()
    return counter.get_total_flops() / batch


def floor(seconds_a_product: float, operations_an_example: float) -> float:
    """Examples/s of a core that did nothing but matrix products, at the rate measured beside the
    workload.
    """
    return 2 * MATRIX**3 / seconds_a_product / operations_an_example
