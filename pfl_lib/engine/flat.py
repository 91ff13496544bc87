"""A module whose parameters and running statistics are views of two rows: load them, run it."""

import copy
from collections.abc import Collection, Hashable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode

from pfl_lib.engine import Loss
from pfl_lib.engine.graphs import Played
from pfl_lib.engine.layout import Layout, holders_of, views
from pfl_lib.engine.recording import recordings
from pfl_lib.errors import BadInput
from pfl_lib.rows import Batch


class FlatModule:
    """One private copy of a network that reads its parameters from whatever row it is given.

    `recorded_as`: what its gradient is recorded under; equal for networks of the same code and
    settings alone.  None: it is never recorded.  `constant`: the buffers that no row carries.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        device: torch.device,
        dtype: torch.dtype,
        recorded_as: Hashable | None = None,
        constant: Collection[str] = (),
    ) -> None:
        # In training mode, all of it, as after every evaluation
        self.module = copy.deepcopy(module).to(device, dtype).train()
        self.loss = loss
        self.constant = constant
        self.layout = Layout.of(self.module, constant)
        self._theta, self._statistics = self.layout.rows(self.module).values()
        self._parameters = list(self.module.parameters())
        of_theta = views(self.layout.parameters, self._theta).values()
        for parameter, view in zip(self._parameters, of_theta, strict=True):
            parameter.data = view
        for name, view in views(self.layout.statistics, self._statistics).items():
            owner, _, leaf = name.rpartition(".")
            # By .data each has a version of its own: autograd reads one, while another is written
            self.module.get_submodule(owner)._buffers[leaf] = view.data
        kept = KeptBuffers(self.module, constant)
        self.network = kept if kept.places else self.module
        self.on_gpu = self._theta.is_cuda
        self.played: Played | None = None  # what a GPU has recorded of clients side by side
        self.recorded_as = recorded_as
        recorded = recorded_as is not None and not self.on_gpu
        self.recordings = recordings(recorded_as, loss, self.layout, dtype) if recorded else None

    def __reduce__(self) -> tuple[type, tuple]:
        # A copy member by member would have parameters that are no views of its row any more.
        where = self._theta.device, self._theta.dtype
        return FlatModule, (self.module, self.loss, *where, self.recorded_as, self.constant)

    def in_forward_order(self, x: Tensor) -> Layout:
        """The layout with its layers as an evaluation of x [b, ...] reaches them."""
        self._mode(train=False)
        watch = Reads(self.module)
        with torch.no_grad(), watch:
            self.module(x)
        return self.layout.in_order(watch.names)

    def gradient(self, theta: Tensor, batch: Batch, statistics: Tensor | None = None) -> Tensor:
        """The gradient [P] of the batch's mean loss at theta [P], 0 for what the forward pass does
        not use; updates `statistics` [S] in place where given.
        """
        self._mode(train=True)
        self.load(theta, statistics)
        play = self.recordings and self.recordings.of(self.module, batch.x, batch.y)
        if play:
            gradient = play(self._theta, self._statistics, batch.x, batch.y)
        else:
            gradient = self._computed(batch)
        if statistics is not None:
            statistics.copy_(self._statistics)
        return gradient

    def load(self, theta: Tensor, statistics: Tensor | None) -> None:
        """Take over a row's values."""
        self._theta.copy_(theta)
        if statistics is not None:
            self._statistics.copy_(statistics)

    def _computed(self, batch: Batch) -> Tensor:
        loss = self.loss(self.network(batch.x), batch.y).mean()
        parts = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in parts])

    @torch.no_grad()
    def losses(
        self, theta: Tensor, statistics: Tensor, x: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Per-example loss [b] and correctness (1 or 0) [b] of one model in evaluation mode."""
        self._mode(train=False)
        self.load(theta, statistics)
        logits = self.network(x)
        return self.loss(logits, y), (logits.argmax(-1) == y).to(logits.dtype)

    def _mode(self, train: bool) -> None:
        # Setting it walks the whole module: a tenth of a small model's step
        if self.module.training != train:
            self.module.train(train)


class Reads(TorchFunctionMode):
    """Notes in `names` the layers whose tensors operations are given, each once, in the order of
    first readings: some networks, the package's own too, read a weight without calling its module.

    Watching the operators below functions would load torch's compiler, two seconds a process.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.names: dict[str, None] = {}
        tensors, holders = [*module.named_parameters(), *module.named_buffers()], holders_of(module)
        self._owners = {id(t): holders[n] for n, t in tensors if t.is_floating_point()}

    def __torch_function__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for given in (*args, *kwargs.values()):
            for one in given if isinstance(given, list | tuple) else (given,):
                if id(one) in self._owners:
                    self.names[self._owners[id(one)]] = None
        return operation(*args, **kwargs)


class KeptBuffers(nn.Module):
    """The network `module`, whose buffers stay what the engine makes them: views of a client's row.

    A forward pass that puts another tensor in a view's place, or writes into a buffer of whole
    numbers or a `constant` one, would carry one client's statistics over to the next: BadInput.
    BatchNorm's counter of batches may change: it decides nothing where momentum is a number.
    """

    def __init__(self, module: nn.Module, constant: Collection[str]) -> None:
        super().__init__()
        self.module, self.constant = module, constant
        self.places = tuple(
            (part, leaf, name)
            for name, part, leaf, buffer in buffers(module)
            if buffer.is_floating_point() or not isinstance(part, _NormBase)
        )

    def forward(self, x: Tensor) -> Tensor:
        before = [part._buffers[leaf] for part, leaf, _ in self.places]
        versions = [buffer._version for buffer in before]
        logits = self.module(x)
        for (part, leaf, name), buffer, version in zip(self.places, before, versions, strict=True):
            if part._buffers.get(leaf) is not buffer:
                raise BadInput(
                    f"the model's forward replaces buffer {name} by another tensor, which would"
                    f" carry statistics from client to client: write self.{leaf}.copy_(...)"
                )
            whole = not buffer.is_floating_point()
            if buffer._version != version and (whole or name in self.constant):
                kind = "of whole numbers" if whole else "that no client's first batch changes"
                raise BadInput(
                    f"the model's forward writes into buffer {name} {kind}, which no row carries:"
                    " make it a buffer of fractions that each batch writes, or leave it as it is"
                )
        return logits


def buffers(module: nn.Module) -> Iterator[tuple[str, nn.Module, str, Tensor]]:
    """Each buffer's whole name, its owner, its name there and itself; shared ones at each place."""
    for name, part in module.named_modules():
        for leaf, buffer in part._buffers.items():
            if buffer is not None:
                yield f"{name}.{leaf}".lstrip("."), part, leaf, buffer


def constant_buffers(module: nn.Module, batches: Iterable[Tensor]) -> frozenset[str]:
    """The buffers of fractions, a norm's apart, that training leaves as they are on each of these
    batches [b, ...], as masks and tables of positions; none where the module cannot train on one.
    """
    if not _own_fractions(module):
        return frozenset()
    # Not of a FlatModule: views of one row count what is written into any of them.
    module = copy.deepcopy(module).train()
    before = {}
    try:
        for x in batches:
            if not before:
                module.to(x.device, x.dtype)
                before = {n: (id(b), b._version) for n, b in _own_fractions(module).items()}
            with torch.no_grad():
                module(x)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return frozenset()
    after = {n: (id(b), b._version) for n, b in _own_fractions(module).items()}
    return frozenset(name for name, state in before.items() if after.get(name) == state)


def _own_fractions(module: nn.Module) -> dict[str, Tensor]:
    return {
        name: buffer
        for name, part, _, buffer in buffers(module)
        if buffer.is_floating_point() and not isinstance(part, _NormBase)
    }
