"""Pathological shards: each client has a few pieces of one class each (FedFomo, section 4)."""

from dataclasses import dataclass

import torch
from torch import LongTensor, Tensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_settings, setting, whole
from pfl_lib.partitions.base import Partition, called, of_each_class
from pfl_lib.randomness import permutation


@dataclass(frozen=True)
class Shards:
    """FedFomo's pathological setup, in the order of its code (NVlabs/FedFomo, client_noniid).

    Every class is cut into N `per_client` / classes shards, in the data set's order; what is left
    over goes to the first shards, one example each.  The list of classes, each as often as it has
    shards, is shuffled by (seed, "shards") and dealt, `per_client` to a client: a client may get
    two shards of one class.  A class's shards go to those that drew it in the order of clients.
    Test examples are cut alike and go to the same clients.

    Of CIFAR-10, 15 clients have 3,333 and 667 examples, give or take one; 100 have 500 and 100.
    """

    name, version, default_clients = "shards", 1, 15
    __post_init__ = check_settings

    per_client: int = setting(2, whole, 1, 1000)

    @property
    def title(self) -> str:
        return f"{self.per_client} shards of one class each"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        of_each, rest = divmod(clients * self.per_client, dataset.classes)
        if rest or not of_each:
            raise BadInput(
                f"clients {clients} with {self.per_client} shards each make"
                f" {clients * self.per_client} shards, which {dataset.classes} classes cannot share"
                " evenly: give another number of clients"
            )
        deck = torch.arange(dataset.classes).repeat(of_each)
        deck = deck[permutation(len(deck), seed, "shards")]
        drawn = deck.reshape(clients, self.per_client).tolist()
        pools = (("training", dataset.train_y), ("test", dataset.test_y))
        train, test = (_dealt(pool, labels, dataset, drawn, of_each) for pool, labels in pools)
        return Partition(called(self), train, test)


def _dealt(
    pool: str, labels: Tensor, dataset: Dataset, drawn: list[list[int]], of_each: int
) -> tuple[LongTensor, ...]:
    shards = []
    for label, held in enumerate(of_each_class(labels, dataset.classes)):
        if len(held) < of_each:
            raise BadInput(
                f"class {label} of {dataset.name} has {len(held)} {pool} examples for {of_each}"
                " shards: use fewer clients, or more images"
            )
        size = len(held) // of_each
        left_over = held[size * of_each :]
        pieces = enumerate(held[: size * of_each].split(size))
        shards.append(iter([torch.cat([own, left_over[i : i + 1]]) for i, own in pieces]))
    return tuple(torch.cat([next(shards[label]) for label in mine]) for mine in drawn)
