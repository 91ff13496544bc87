"""Which columns of a row are which layer: a module's parameters and running statistics as one flat
vector each.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import LongTensor, Tensor, nn

from pfl_lib.errors import choose


@dataclass(frozen=True)
class Block:
    """One named tensor of a module and the columns [start, stop) that hold it."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Layer:
    """The parameters and running statistics of one module (weight and bias together): columns
    [start, stop) of each.

    `norm` says whether the module normalises (BatchNorm, GroupNorm, LayerNorm, InstanceNorm), by
    its type.
    """

    name: str
    start: int
    stop: int
    statistics_start: int
    statistics_stop: int
    norm: bool = False

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.stop - self.start


@dataclass(frozen=True)
class Layout:
    """The columns of `theta` [P] (parameters) and of `statistics` [S] (BatchNorm's running means
    and variances).

    Running statistics are kept apart, so that distances, norms and clipping of parameter rows never
    see them.  Integer buffers (BatchNorm's batch counter) take part in neither.
    """

    parameters: tuple[Block, ...]
    statistics: tuple[Block, ...]
    layers: tuple[Layer, ...] = ()

    @classmethod
    def of(cls, module: nn.Module) -> "Layout":
        running = (
            (name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()
        )
        parameters, statistics = _blocks(module.named_parameters()), _blocks(running)
        return cls(parameters, statistics, _layers(module, parameters, statistics))

    def layer(self, name: str) -> Layer:
        """The layer of that name; BadInput listing the layers where there is none."""
        names = [layer.name for layer in self.layers]
        return self.layers[names.index(choose("layer", name, names))]

    def columns(self, names: Iterable[str], of: str = "theta") -> LongTensor:
        """The columns of `theta` (or, `of` "statistics", of the running statistics) that hold the
        named layers, ascending.
        """
        layers = [self.layer(name) for name in names]
        if of == "theta":
            ranges = [torch.arange(layer.start, layer.stop) for layer in layers]
        else:
            ranges = [
                torch.arange(layer.statistics_start, layer.statistics_stop) for layer in layers
            ]
        return torch.cat(ranges).sort().values if ranges else torch.zeros(0, dtype=torch.int64)

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
        b.name: row[..., b.start : b.stop]
        .unflatten(-1, b.shape or (1,))
        .reshape((*row.shape[:-1], *b.shape))
        for b in blocks
    }


def _blocks(named: Iterable[tuple[str, Tensor]]) -> tuple[Block, ...]:
    blocks, start = [], 0
    for name, tensor in named:
        stop = start + math.prod(tensor.shape)
        blocks.append(Block(name, tuple(tensor.shape), start, stop))
        start = stop
    return tuple(blocks)


NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.LocalResponseNorm)


def _layers(
    module: nn.Module, parameters: tuple[Block, ...], statistics: tuple[Block, ...]
) -> tuple[Layer, ...]:
    """One layer for each module that holds parameters of its own, in the order in which the network
    registers them.
    """
    layers = []
    for name in dict.fromkeys(block.name.rpartition(".")[0] for block in parameters):
        mine = [block for block in parameters if block.name.rpartition(".")[0] == name]
        running = [block for block in statistics if block.name.rpartition(".")[0] == name]
        bounds = (running[0].start, running[-1].stop) if running else (0, 0)
        norm = isinstance(module.get_submodule(name), NORMS)
        layers.append(Layer(name, mine[0].start, mine[-1].stop, *bounds, norm))
    return tuple(layers)
