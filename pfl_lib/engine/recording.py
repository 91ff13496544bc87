"""A batch's gradient as a list of the library's operations, played without Python and autograd.

On the papers' small networks a third of a local step is Python and autograd's graph.  Recorded once
for batches of one shape and handed to the library's interpreter, the operations give the same bits
in less time (LeNet-5 1.4 times as fast, the linear model 2.3), and other threads may run meanwhile.

What the network's Python decides by looking at a batch is not in the list, so only the package's
networks, which look at none, are recorded (`model_checks.recorded_as`); and each recording has to
give the computed bits at another model and batch before it is played.
"""

import functools
import threading
import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pfl_lib.engine import Loss
from pfl_lib.engine.layout import Layout, views
from pfl_lib.randomness import generator

WORTH_RECORDING = 300
"""Batches of one shape after which recording, a few tenths of a second, is taken to pay."""

Play = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""theta [P], statistics [S] (in place), x [b, ...], y [b] to the mean loss's gradient [P]."""

_tracing = threading.RLock()  # tracing replaces parts of torch.nn for as long as it takes


@functools.cache
def recordings(name: Hashable, loss: Loss, layout: Layout, dtype: torch.dtype) -> "Recordings":
    """What this process has recorded of the networks of one name, which says code and settings."""
    return Recordings(loss, layout)


class Recordings:
    """Recordings by shape of batch; parameters and running statistics are inputs of each."""

    def __init__(self, loss: Loss, layout: Layout) -> None:
        self.loss, self.layout = loss, layout
        self._seen: dict[tuple, int] = {}
        self._made: dict[tuple, Play | None] = {}

    def of(self, module: nn.Module, x: Tensor, y: Tensor) -> Play | None:
        """The recording for batches like this one, once enough were seen; else None."""
        if torch.is_autocast_enabled("cpu"):
            return None
        like = (x.shape, x.stride(), x.dtype, y.shape, y.dtype)
        if like not in self._made:
            with _tracing:
                self._seen[like] = self._seen.get(like, 0) + 1
                if self._seen[like] >= WORTH_RECORDING and like not in self._made:
                    self._made[like] = self._record(module, x, y)
        return self._made.get(like)

    def _record(self, module: nn.Module, x: Tensor, y: Tensor) -> Play | None:
        """None where the library cannot record the network, for whatever reason, or what it
        recorded gives other bits: it is then computed as it always was.
        """
        # Half a second, for those who get here
        from torch.fx.experimental.proxy_tensor import make_fx

        def gradient(theta: Tensor, statistics: Tensor, x: Tensor, y: Tensor) -> Tensor:
            named = views(self.layout.parameters, theta)
            parameters = {name: view.detach().requires_grad_() for name, view in named.items()}
            held = {**parameters, **views(self.layout.statistics, statistics)}
            logits = functional_call(module, held, (x,))
            gradients = torch.autograd.grad(self.loss(logits, y).mean(), list(parameters.values()))
            return torch.cat([gradient.reshape(-1) for gradient in gradients])

        def play(theta: Tensor, statistics: Tensor, x: Tensor, y: Tensor) -> Tensor:
            # As recorded: the interpreter's own rewriting changes roundings and gains nothing here.
            with torch.no_grad(), torch.jit.optimized_execution(False):
                return scripted.forward(theta, statistics, x, y)

        theta, statistics = self.layout.rows(module).values()
        try:
            drawn = torch.randn(theta.shape, generator=generator(0, "recording"), dtype=theta.dtype)
            other = drawn / 10, torch.ones_like(statistics), -x.flip(0), y.flip(0)
            with warnings.catch_warnings():
                # It is marked as deprecated, but what is to replace it needs a user's compiler.
                warnings.simplefilter("ignore")
                # Copies, of the same strides: a network may write into its inputs.
                inputs = map(torch.clone, (theta, statistics, x, y))
                scripted = torch.jit.script(_plain(make_fx(gradient)(*inputs)))
            played, computed = ([*map(torch.clone, other)] for _ in range(2))
            same = torch.equal(play(*played), gradient(*computed))
            return play if same and torch.equal(played[1], computed[1]) else None
        except Exception:  # noqa: BLE001
            return None


def _plain(operations: Any) -> Any:
    """A traced graph under names that the interpreter knows, without what only autograd needs."""
    for node in list(operations.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            operations.graph.erase_node(node)
        elif isinstance(node.target, torch._ops.OpOverload):
            node.target = node.target.overloadpacket
            node.kwargs = {
                k: v.type if isinstance(v, torch.device) else v for k, v in node.kwargs.items()
            }
    operations.recompile()
    return operations
