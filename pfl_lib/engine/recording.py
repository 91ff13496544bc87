"""A batch's gradient as a fixed list of the library's own operations, recorded once and played back without Python or autograd.

On the papers' networks a third of a local step is not arithmetic but the way to it: Python and autograd's graph.  The operations of a
forward and a backward pass are the same for every batch of one shape; recorded and handed to the library's interpreter, they
give the same bits in less time (LeNet-5 1.4 times as fast, the linear model 2.3), and other threads may run meanwhile.
"""

import threading
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pfl_lib.engine import Loss
from pfl_lib.layout import Layout, views

WORTH_RECORDING = 300
"""Batches of one shape after which recording, a few tenths of a second, is taken to pay."""

Play = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""theta [P], statistics [S] (updated in place), x [b, ...] and y [b] to the gradient [P] of the mean loss."""


class Recordings:
    """What was recorded of one kind of module with one loss, for each shape of batch.

    A kind is all there is to a module but its weights, which are inputs of a recording: classes, settings and layout.  Recordings are kept
    for the life of the process and shared by all modules of a kind, in whatever thread or federation.
    """

    def __init__(self, loss: Loss, layout: Layout) -> None:
        self.loss, self.layout = loss, layout
        self._seen: dict[tuple, int] = {}
        self._made: dict[tuple, Play | None] = {}
        self._lock = threading.Lock()

    def of(self, module: nn.Module, x: Tensor, y: Tensor) -> Play | None:
        """The recording for batches like this one, made of `module` as soon as enough of them were seen; None where there is none."""
        like = (x.shape, x.stride(), x.dtype, y.shape, y.dtype)
        if like not in self._made:
            with self._lock:
                self._seen[like] = self._seen.get(like, 0) + 1
                if self._seen[like] >= WORTH_RECORDING and like not in self._made:
                    self._made[like] = self._record(module, x, y)
        return self._made.get(like)

    def _record(self, module: nn.Module, x: Tensor, y: Tensor) -> Play | None:
        """None where the library cannot record, or where what it recorded does not give the very bits of the pass itself."""
        from torch.fx.experimental.proxy_tensor import make_fx  # half a second, for those who get here

        def gradient(theta: Tensor, statistics: Tensor, x: Tensor, y: Tensor) -> Tensor:
            named = views(self.layout.parameters, theta)
            parameters = {name: view.detach().requires_grad_() for name, view in named.items()}
            logits = functional_call(module, {**parameters, **views(self.layout.statistics, statistics)}, (x,))
            gradients = torch.autograd.grad(self.loss(logits, y).mean(), list(parameters.values()))
            return torch.cat([gradient.reshape(-1) for gradient in gradients])

        rows = self.layout.rows(module)
        theta, before = rows["theta"], rows["statistics"]
        try:
            with warnings.catch_warnings():
                # The interpreter is marked as deprecated, but what is to replace it needs a compiler on the user's machine.
                warnings.simplefilter("ignore")
                scripted = torch.jit.script(_plain(make_fx(gradient)(theta, before.clone(), x, y)))
        except Exception:  # noqa: BLE001  what cannot be recorded, whatever the reason, is computed as it always was
            return None

        def play(theta: Tensor, statistics: Tensor, x: Tensor, y: Tensor) -> Tensor:
            # As recorded: the interpreter's own rewriting changes roundings and gains nothing here.
            with torch.no_grad(), torch.jit.optimized_execution(False):
                return scripted(theta, statistics, x, y)

        made, written = before.clone(), before.clone()
        with torch.enable_grad():
            same = torch.equal(play(theta, made, x, y), gradient(theta, written, x, y)) and torch.equal(made, written)
        return play if same else None


def _plain(operations: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same operations under names that the interpreter knows, without what only autograd needs."""
    for node in list(operations.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            operations.graph.erase_node(node)
        elif isinstance(node.target, torch._ops.OpOverload):
            node.target = node.target.overloadpacket
            node.kwargs = {k: v.type if isinstance(v, torch.device) else v for k, v in node.kwargs.items()}
    operations.recompile()
    return operations


_kinds: dict[tuple, Recordings] = {}


def recordings(module: nn.Module, loss: Loss, layout: Layout) -> Recordings | None:
    """The recordings for modules of this kind; None for a module that must not be recorded.

    A module's Python does not run when a recording is played.  So only modules whose Python is known are recorded: this package's and the
    library's own, on a CPU, without hooks.
    """
    some = next(module.parameters(), None)
    if some is None or some.device.type != "cpu" or not all(_known(part) for part in module.modules()):
        return None
    settings = tuple(
        (name, type(part), repr(sorted((key, value) for key, value in vars(part).items() if key[0] != "_")))
        for name, part in module.named_modules()
    )
    return _kinds.setdefault((settings, some.dtype, loss, layout), Recordings(loss, layout))


def _known(part: nn.Module) -> bool:
    return (
        type(part).__module__.partition(".")[0] in ("pfl_lib", "torch")
        and "forward" not in vars(part)
        and not (part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks)
    )
