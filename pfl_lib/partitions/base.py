"""What a partition is: who holds which examples, and under which labels."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import LongTensor, Tensor

from pfl_lib.data.source import Dataset


@dataclass(frozen=True, eq=False)
class Partition:
    """The examples of N clients.

    `train[i]`, `test[i]`: int64 positions of client i's examples in the data set's training and
    test pool; `validation[i]` likewise in the training pool, an empty tuple when no client has any.
    `relabel`: int64 [N, classes], the label that client i gives to class l, or None when every
    client uses the data set's labels; it holds for all of a client's examples.
    """

    name: str
    train: tuple[LongTensor, ...]
    test: tuple[LongTensor, ...]
    validation: tuple[LongTensor, ...] = ()
    relabel: LongTensor | None = None

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

    def own_labels(self, client: int, labels: Tensor) -> Tensor:
        """The data set's `labels` as `client` sees them (int64, any shape, same shape back)."""
        return labels if self.relabel is None else self.relabel[client][labels]

    def label_matrix(self, dataset: Dataset) -> LongTensor:
        """Training examples of each client and label, under the client's own labels, int64 [N,
        classes].
        """
        rows = [
            self.own_labels(client, dataset.train_y[indices])
            for client, indices in enumerate(self.train)
        ]
        return torch.stack([torch.bincount(labels, minlength=dataset.classes) for labels in rows])

    def checksum(self) -> str:
        """16 hex digits over all positions and labels: equal exactly when two partitions give every
        client the same.
        """
        digest = hashlib.sha256()
        parts = {"train": self.train, "test": self.test, "validation": self.validation}
        parts["relabel"] = () if self.relabel is None else tuple(self.relabel)
        for part, rows in parts.items():
            for client, row in enumerate(rows):
                digest.update(f"{part} {client} {len(row)}\n".encode())
                digest.update(row.numpy().astype("<i8").tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Recipe:
    """A row of `PARTITIONS`: `split(name, dataset, clients, seed)` makes the partition.

    `version` is part of every result's key and is raised by hand when the same arguments give other
    clients' data; `seeded` says whether the seed changes anything.  `agents` is the number of
    clients in the recipe's paper.  Where `personal`, who holds what depends on whose model is read:
    `split` is handed `alice` (or None) as a fifth argument.
    """

    title: str
    version: int
    split: Callable[..., Partition]
    seeded: bool = False
    agents: int = 10
    personal: bool = False
