"""Clients whose classes overlap by a known number: what pFedLA's Figures 5 and 6 look at."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, whole
from pfl_lib.partitions.base import Partition, called
from pfl_lib.partitions.classes import check_even, equal_parts
from pfl_lib.partitions.dealing import (
    EXAMPLES,
    TRAIN_SHARE,
    check_sizes,
    deal,
    training_examples,
)
from pfl_lib.randomness import generator


@dataclass(frozen=True)
class Neighbours:
    """pFedLA's Figure 6: client j has the classes j to j + `per_client` - 1, counted round the
    classes, so that "clients with adjacent IDs" share all but one.

    Each has `examples` of both pools together, in equal parts, as in `Classes`; which ones, the
    seed decides.
    """

    name: ClassVar[str] = "neighbours"
    version: ClassVar[int] = 1
    default_clients: ClassVar[int] = 8
    seeded: ClassVar[bool] = True
    personal: ClassVar[bool] = False

    per_client: int = 4
    examples: int = EXAMPLES
    train_share: float = TRAIN_SHARE

    def __post_init__(self) -> None:
        _check(self)

    @property
    def title(self) -> str:
        return f"{self.per_client} classes each, all but one of them the next client's too"

    @property
    def training_examples(self) -> int:
        return training_examples(self.examples, self.train_share)

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """Raises `BadInput` for more classes or examples than there are."""
        whole("clients", clients, 1)
        _check_classes(self.per_client, dataset.classes, dataset)
        held = [
            [(client + k) % dataset.classes for k in range(self.per_client)]
            for client in range(clients)
        ]
        wanted = equal_parts(held, self.examples // self.per_client, dataset)
        return deal(called(self), dataset, wanted, self.train_share, seed)


@dataclass(frozen=True)
class Relatives:
    """pFedLA's Figure 5: client 0 is the target, client 1 has the same classes, client 2 all but
    one of them and one other, and every further client random ones.

    Classes are drawn by (seed, "relatives", client).  Each client has `examples` of both pools
    together, in equal parts, as in `Classes`.
    """

    name: ClassVar[str] = "relatives"
    version: ClassVar[int] = 1
    default_clients: ClassVar[int] = 8
    seeded: ClassVar[bool] = True
    personal: ClassVar[bool] = False

    per_client: int = 4
    examples: int = EXAMPLES
    train_share: float = TRAIN_SHARE

    def __post_init__(self) -> None:
        _check(self)

    @property
    def title(self) -> str:
        return f"{self.per_client} classes each: client 1 as client 0, client 2 all but one"

    @property
    def training_examples(self) -> int:
        return training_examples(self.examples, self.train_share)

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """Raises `BadInput` for more classes or examples than there are, and fewer than three
        clients.
        """
        whole("clients", clients, 3)
        _check_classes(self.per_client, dataset.classes - 1, dataset)
        held = [
            torch.randperm(dataset.classes, generator=generator(seed, "relatives", client)).tolist()
            for client in range(clients)
        ]
        order = held[0]
        held[1], held[2] = order, order[1 : self.per_client + 1]
        held = [mine[: self.per_client] for mine in held]
        wanted = equal_parts(held, self.examples // self.per_client, dataset)
        return deal(called(self), dataset, wanted, self.train_share, seed)


def _check(recipe: Neighbours | Relatives) -> None:
    whole("per_client", recipe.per_client, 1)
    check_sizes(recipe.examples, recipe.train_share)
    check_even(recipe.examples, recipe.per_client)


def _check_classes(per_client: int, at_most: int, dataset: Dataset) -> None:
    if per_client > at_most:
        raise BadInput(
            f"{per_client} classes per client: {dataset.name} has {dataset.classes}; give"
            f" {at_most} or fewer"
        )
