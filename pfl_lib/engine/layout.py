"""Which columns of a row are which layer of a module."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

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
    """The columns [start, stop) of parameters and running statistics that one module holds itself,
    also through `torch.nn.utils.parametrizations` (`weight_norm`) where it has no other children.

    `name` is the module's name in the network, "" for the network's own bare parameters.  `norm`
    says whether the module normalises (BatchNorm, GroupNorm, LayerNorm, InstanceNorm, RMSNorm), by
    its type.  A BatchNorm without learnt scales is a layer of size 0, with statistics alone.
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
    """The columns of `theta` [P] (parameters), `statistics` [S] (BatchNorm's means and variances).

    Distances, norms and clipping of parameter rows never see running statistics.  In neither are
    integer buffers (BatchNorm's batch counter) and those that training leaves as they are (a mask).

    Columns follow each other as the network registers its tensors.  Each column belongs to exactly
    one of `layers`; a federation's `layout` lists these as the forward pass reaches them.
    """

    parameters: tuple[Block, ...]
    statistics: tuple[Block, ...]
    layers: tuple[Layer, ...] = ()

    @classmethod
    def of(cls, module: nn.Module, constant: Collection[str] = ()) -> "Layout":
        """A module's columns; the buffers `constant` take part in neither row."""
        buffers = [(name, b) for name, b in module.named_buffers() if name not in constant]
        parameters = blocks_of({name: tensor.shape for name, tensor in module.named_parameters()})
        statistics = blocks_of({name: b.shape for name, b in buffers if b.is_floating_point()})
        return cls(parameters, statistics, _layers(module, parameters, statistics))

    def layer(self, name: str) -> Layer:
        """The layer of that name; BadInput listing the layers where there is none."""
        names = [layer.name for layer in self.layers]
        return self.layers[names.index(choose("layer", name, names))]

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

    def in_order(self, reached: Iterable[str]) -> "Layout":
        """The same columns with `layers` in the order of the names `reached`; layers that are not
        among them come first, as they stand, so that the last is the network's head.
        """
        layers = {layer.name: layer for layer in self.layers}
        used = [layers.pop(name) for name in dict.fromkeys(reached) if name in layers]
        return replace(self, layers=(*layers.values(), *used))


def views(blocks: tuple[Block, ...], row: Tensor) -> dict[str, Tensor]:
    """Views of a row's (or matrix's) columns by name: [..., width] gives {name: [..., *shape]}."""
    return {b.name: row[..., b.start : b.stop].reshape((*row.shape[:-1], *b.shape)) for b in blocks}


def blocks_of(shapes: Mapping[str, tuple[int, ...]]) -> tuple[Block, ...]:
    """The columns of a row that hold tensors of these shapes, one after the other."""
    found, start = [], 0
    for name, shape in shapes.items():
        found.append(Block(name, tuple(shape), start, start + math.prod(shape)))
        start = found[-1].stop
    return tuple(found)


def holders_of(module: nn.Module) -> dict[str, str]:
    """The layer (`Layer.name`) of each parameter and buffer, by name."""
    holders, whole = {}, parametrized(module)
    for name in (*dict(module.named_parameters()), *dict(module.named_buffers())):
        head, inner, _ = name.partition("parametrizations.")
        outer = head.removesuffix(".")
        holders[name] = outer if inner and outer in whole else name.rpartition(".")[0]
    return holders


def parametrized(module: nn.Module) -> list[str]:
    """The modules whose tensors `torch.nn.utils.parametrize` computes, without other children."""
    parts = module.named_modules()
    return [name for name, part in parts if is_parametrized(part) and len(part._modules) == 1]


NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def _layers(
    module: nn.Module, parameters: tuple[Block, ...], statistics: tuple[Block, ...]
) -> tuple[Layer, ...]:
    """A layer for each module with parameters or statistics, in the order of registration."""
    holders, layers, start, statistics_start = holders_of(module), [], 0, 0
    for name, part in module.named_modules():
        stop, statistics_stop = (
            max((b.stop for b in blocks if holders[b.name] == name), default=before)
            for blocks, before in ((parameters, start), (statistics, statistics_start))
        )
        if (start, statistics_start) != (stop, statistics_stop):
            norm = isinstance(part, NORMS)
            layers.append(Layer(name, start, stop, statistics_start, statistics_stop, norm))
        start, statistics_start = stop, statistics_stop
    return tuple(layers)
