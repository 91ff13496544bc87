"""What a data set is, and what is known of one before it is read."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

Channels = tuple[float, ...]  # a mean or a standard deviation of each
Arrays = tuple[Tensor, Tensor, Tensor, Tensor]  # train_x, train_y, test_x, test_y


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    `train_x`, `test_x`: uint8 [n, channels, height, width], or float32 [n, features] if tabular
    (then the two pools may be one tensor); `train_y`, `test_y`: int64 [n].  `mean` and `std`, one
    value per channel, apply to x / 255. `fingerprint` identifies the complete data set: it stays
    the same when only its first images are kept.  `columns`, of a table: what its rows may be split
    by, float64 [n] by name, nan where unknown.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    mean: Channels
    std: Channels
    fingerprint: str
    columns: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"train {len(self.train_y):,}, test {len(self.test_y):,}"
        return f"<Dataset {self.name}: {self.classes} classes, inputs {self.input_shape}, {sizes}>"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example: (channels, height, width) or (features,)."""
        return tuple(self.train_x.shape[1:])

    @functools.cached_property
    def pooled(self) -> "Dataset":
        """The data set with all of its examples in both pools: the training pool's, then the test
        pool's.  A table, whose two pools are one already, stays as it is.
        """
        if self.train_x is self.test_x:
            return self
        x, y = torch.cat([self.train_x, self.test_x]), torch.cat([self.train_y, self.test_y])
        return dataclasses.replace(self, train_x=x, train_y=y, test_x=x, test_y=y)


@dataclasses.dataclass(frozen=True)
class Source:
    """A row of `DATASETS`: what is known of a data set before it is read.

    `examples` and `classes` count the training examples and their labels.  `read(root)` returns the
    tensors; `folder`, below the root, holds `files` (name -> MD5), and `download(root)` writes
    them.  One of the files of `any_of` is enough; `read` then checks the content.  A table names
    its `inputs` and reads the `columns` it may be split by; `model` is what `run` trains on it.
    `version` is raised by hand when the same files give other inputs, by another mean, std or
    preparation, which the fingerprint does not hold.
    """

    title: str
    examples: int
    classes: int
    mean: Channels
    std: Channels
    fingerprint: str
    read: Callable[[Path], Arrays]
    folder: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    download: Callable[[Path], object] | None = None
    any_of: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    columns: Callable[[Path], Mapping[str, Tensor]] = lambda root: {}
    model: str = "lenet5"
    version: int = 1
