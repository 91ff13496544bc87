"""The floor: what a core could train that did nothing but the network's arithmetic, at the best
rate that any of it reaches.

Arithmetic is matrix products and convolutions, forward and backward.  On some processors one kind
is twice as fast as the other, and the rate depends on shapes and on the order in memory.  So the
rate is the best over the operations that a round of the network calls, in its own shapes, and over
one large matrix product.  No training is faster than the floor, except by noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import flop_registry

MATRIX = 1024  # side of the large product's matrices
SECONDS = 0.02  # that one timing lasts, at least


@dataclass(frozen=True, eq=False)
class Operation:
    """A call of the library and its floating-point operations: a multiply-add counts two."""

    call: Callable[[], Any]
    count: int

    def rate(self) -> float:
        """Floating-point operations a second, on one thread."""
        timer = Timer("call()", globals={"call": self.call})
        return self.count / timer.blocked_autorange(min_run_time=SECONDS).median

    def repeated(self) -> "Operation":
        """As often as lasts `SECONDS`, for a clock."""
        times = max(1, round(SECONDS * self.rate() / self.count))

        def call() -> None:
            for _ in range(times):
                self.call()

        return Operation(call, times * self.count)


class Recorder(TorchDispatchMode):
    """Within it, matrix products and convolutions are counted, and the first of each shape and
    order in memory is kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.operations: dict[tuple, Operation] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        if counter := flop_registry.get(function.overloadpacket):
            count = counter(*args, **kwargs, out_val=out)
            self.total += count
            like = (function, *map(_like, args))
            if like not in self.operations and count:
                self.operations[like] = _again(function, args, kwargs, count)
        return out


def fastest(operations: list[Operation]) -> Operation:
    """Of these and a large matrix product the one with the best rate."""
    a, b = torch.randn(2, MATRIX, MATRIX, generator=torch.Generator().manual_seed(0))
    product = Operation(lambda: torch.mm(a, b), 2 * MATRIX**3)
    return max([*operations, product], key=Operation.rate)


def _again(function, args: tuple, kwargs: dict, count: int) -> Operation:
    # Copies, with the same strides: training goes on to write into what it computed with.
    kept = [arg.detach().clone() if isinstance(arg, Tensor) else arg for arg in args]
    return Operation(lambda: function(*kept, **kwargs), count)


def _like(arg: object) -> object:
    return (arg.shape, arg.stride()) if isinstance(arg, Tensor) else str(arg)
