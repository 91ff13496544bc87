"""How rows go through local training: `loop`, one client at a time, or `vmap`, side by side.

Both give the same numbers to float tolerance; no method knows which one runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from pfl_lib.engine.augment import moved

if TYPE_CHECKING:
    from pfl_lib.engine.private import Noising

VERSION = 1
"""Part of every key; raised by hand when training or evaluation changes beyond rounding."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits [b, classes] and labels [b] to the loss of each example [b]."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, reduction="none")


def half_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Weight Erosion's loss on the Titanic: the mean of -onehot * log p over both outputs.

    The L2 term beside it, 1e-3 ||theta||^2 / 2 with the bias, is the schedule's weight_decay=1e-3.
    """
    return cross_entropy(logits, labels) / 2


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "half_cross_entropy": half_cross_entropy}


@dataclass(frozen=True, eq=False)
class Work:
    """One client's local work in one round: its examples' place in the pool, their labels, and the
    batches as positions in both.

    `moves`: [b, 3] for each batch (`augment.draw_moves`) or None; `noising`: DP-SGD's, or None.
    """

    index: Tensor
    labels: Tensor
    batches: tuple[Tensor, ...]
    moves: tuple[Tensor, ...] | None = None
    noising: "Noising | None" = None

    def to(self, device: torch.device) -> "Work":
        """The same with its batches and moves there; its examples are where their pool is."""
        here = torch.cat(self.batches).to(device).split([len(batch) for batch in self.batches])
        there = self.moves and tuple(move.to(device) for move in self.moves)
        return replace(self, batches=here, moves=there)

    def placed(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Each batch's places in the pool and its labels, gathered at once to save operations."""
        sizes, positions = [len(batch) for batch in self.batches], torch.cat(self.batches)
        return self.index[positions].split(sizes), self.labels[positions].split(sizes)


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """A data set's examples, kept as stored (uint8 images, float32 tables), normalised by batches.

    x [n, C, H, W] or [n, F]; input = x * scale + shift, both of which broadcast over an example.
    """

    x: Tensor
    scale: Tensor
    shift: Tensor
    channels_last: bool = True

    def inputs(self, index: Tensor, moves: Tensor | None = None) -> Tensor:
        """The normalised examples at `index` [...], in the dtype of `scale`: [..., C, H, W] or
        [..., F].  `moves` [..., 3] says how each image is augmented.

        Images come channels-last, which makes every later activation channels-last too: the papers'
        colour networks then train 1.3 to 1.6 times as fast on a CPU.  With one channel it is a
        matter of strides and costs nothing.  `channels_last` False is for networks that `view` it.
        """
        x = self.x[index] if moves is None else moved(self.x[index], moves)
        x = x.to(self.scale.dtype).mul_(self.scale).add_(self.shift)
        if x.dim() != 4 or not self.channels_last:
            return x
        if x.shape[1] == 1:
            height, width = x.shape[2:]
            x = x.contiguous().as_strided(x.shape, (height * width, 1, width, 1))
        elif not x.is_cuda:
            x = x.contiguous(memory_format=torch.channels_last)
        return x

    def to(self, device: torch.device, dtype: torch.dtype) -> "Pool":
        scale, shift = (of.to(device, dtype) for of in (self.scale, self.shift))
        return replace(self, x=self.x.to(device), scale=scale, shift=shift)
