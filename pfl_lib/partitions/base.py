"""What a recipe and a partition are: who holds which examples, under which labels."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import LongTensor, Tensor

from pfl_lib.data.source import Dataset


@dataclass(frozen=True, eq=False)
class Partition:
    """The examples of N clients.

    `train[i]`, `test[i]`: int64 positions of client i's examples in the data set's training and
    test pool; `validation[i]` in the training pool, an empty tuple when no client has any.
    `relabel`: int64 [N, classes], the label that client i gives to class l in all of its examples,
    or None when every client uses the data set's labels.  `pooled`: all positions are those of
    `Dataset.pooled`, the training pool with the test pool behind it.  `targets`: client i is
    tested and validated on data like those of client `targets[i]`, or like its own (None); `test`
    says so already, `validation` is drawn from that client.
    """

    name: str
    train: tuple[LongTensor, ...]
    test: tuple[LongTensor, ...]
    validation: tuple[LongTensor, ...] = ()
    relabel: LongTensor | None = None
    pooled: bool = False
    targets: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        sizes = (("train", self.train), ("test", self.test), ("validation", self.validation))
        held = ", ".join(f"{name} {sum(map(len, indices)):,}" for name, indices in sizes if indices)
        return f"<Partition {self.name}: {self.clients} clients, {held}>"

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.train)

    @property
    def sizes(self) -> LongTensor:
        """Training examples of each client, int64 [N]."""
        return torch.tensor([len(indices) for indices in self.train])

    def of(self, dataset: Dataset) -> Dataset:
        """The data set whose pools the positions count: the pooled one, or the data set itself."""
        return dataset.pooled if self.pooled else dataset

    def own_labels(self, client: int, labels: Tensor) -> Tensor:
        """The data set's `labels` as `client` sees them (int64, any shape, same shape back)."""
        return labels if self.relabel is None else self.relabel[client][labels]

    def label_matrix(self, dataset: Dataset) -> LongTensor:
        """Training examples of each client by its own labels, int64 [N, classes]."""
        labels = self.of(dataset).train_y
        rows = [self.own_labels(client, labels[mine]) for client, mine in enumerate(self.train)]
        return torch.stack([torch.bincount(row, minlength=dataset.classes) for row in rows])

    def checksum(self) -> str:
        """16 hex digits, equal exactly when every client has the same positions and labels."""
        digest = hashlib.sha256(b"pooled\n" if self.pooled else b"")
        parts = {"train": self.train, "test": self.test, "validation": self.validation}
        parts["relabel"] = () if self.relabel is None else tuple(self.relabel)
        for part, rows in parts.items():
            for client, row in enumerate(rows):
                digest.update(f"{part} {client} {len(row)}\n".encode())
                digest.update(row.numpy().astype("<i8").tobytes())
        return digest.hexdigest()[:16]


class Recipe(Protocol):
    """How a data set is split over clients: a frozen dataclass whose fields are its settings.

    `name` is the family's; `version` is part of every result's key and is raised by hand when the
    same settings give other clients' data.  `default_clients`: the number of clients in the
    recipe's paper.  A recipe that also goes by a short name, such as "C", has it as `short`.
    """

    name: str
    version: int
    title: str
    default_clients: int

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """The examples of each client; BadInput where the recipe cannot serve this data set or
        number of clients.  `alice` is the client whose model is read.
        """


def called(recipe: Recipe) -> str:
    """The recipe's short name where it has one, else the recipe as Python writes it."""
    return getattr(recipe, "short", None) or repr(recipe)


def of_each_class(labels: Tensor, classes: int) -> list[LongTensor]:
    """The positions of each class's examples, ascending."""
    return [torch.nonzero(labels == label).flatten() for label in range(classes)]


def cut(held: Sequence[LongTensor], ends: Tensor | np.ndarray) -> tuple[LongTensor, ...]:
    """N parts, one after the other, of each class's examples held[l]; part i ends before number
    ends[i, l].
    """
    parts = [
        [of[first:end] for first, end in pairwise([0, *of_class])]
        for of, of_class in zip(held, ends.T.tolist(), strict=True)
    ]
    return tuple(map(torch.cat, zip(*parts, strict=True)))
