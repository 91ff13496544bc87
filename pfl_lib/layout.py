"""Which columns of a row are which layer: a module's parameters and running statistics as one flat vector each."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Block:
    """One named tensor of a module and the columns [start, stop) that hold it."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """The columns of `theta` [P] (parameters) and of `statistics` [S] (BatchNorm's running means and variances).

    Running statistics are kept apart, so that distances, norms and clipping of parameter rows never see them.  Integer buffers
    (BatchNorm's batch counter) take part in neither.
    """

    parameters: tuple[Block, ...]
    statistics: tuple[Block, ...]

    @classmethod
    def of(cls, module: nn.Module) -> "Layout":
        running = ((name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point())
        return cls(_blocks(module.named_parameters()), _blocks(running))

    @property
    def P(self) -> int:
        """Number of parameters."""
        return self.parameters[-1].stop if self.parameters else 0

    @property
    def S(self) -> int:
        """Number of running statistics; 0 for a network without BatchNorm."""
        return self.statistics[-1].stop if self.statistics else 0

    def rows(self, module: nn.Module) -> dict[str, Tensor]:
        """The module's present values: {"theta": [P], "statistics": [S]}, detached copies."""
        values = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        some = next(iter(module.parameters()))

        def flat(blocks: tuple[Block, ...]) -> Tensor:
            parts = [values[block.name].detach().reshape(-1) for block in blocks]
            return torch.cat(parts) if parts else some.new_zeros(0)

        return {"theta": flat(self.parameters), "statistics": flat(self.statistics)}

    def named(self, theta: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """Views of rows by name: [..., P] and [..., S] give {name: [..., *shape]}."""
        return {**views(self.parameters, theta), **views(self.statistics, statistics)}


def views(blocks: tuple[Block, ...], row: Tensor) -> dict[str, Tensor]:
    """Views of a row's (or matrix's) columns by name: [..., width] gives {name: [..., *shape]}."""
    return {
        b.name: row[..., b.start : b.stop].unflatten(-1, b.shape or (1,)).reshape((*row.shape[:-1], *b.shape))
        for b in blocks
    }


def _blocks(named: Iterable[tuple[str, Tensor]]) -> tuple[Block, ...]:
    blocks, start = [], 0
    for name, tensor in named:
        stop = start + math.prod(tensor.shape)
        blocks.append(Block(name, tuple(tensor.shape), start, stop))
        start = stop
    return tuple(blocks)
