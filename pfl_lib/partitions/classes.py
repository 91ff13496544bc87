"""A few classes for each client, in equal parts: pFedLA's non-IID.1."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, whole
from pfl_lib.partitions.base import Partition, called
from pfl_lib.partitions.dealing import (
    EXAMPLES,
    TRAIN_SHARE,
    check_sizes,
    deal,
    draw_classes,
    stock,
    training_examples,
)


@dataclass(frozen=True)
class Classes:
    """pFedLA's non-IID.1: "each client is randomly assigned four classes (twelve classes per client
    in CIFAR100) with the same amount of data on each class" (section 4.1).

    Training and test pool are put together and shared out: each client has `examples` of them, that
    no other has, and trains on `train_share`.  With 100 clients of 600 images every class of
    CIFAR-10 is used up, so 40 clients hold it; where fewer images are used, choices are independent
    (see `dealing.draw_classes`).  600 is not the paper's number, which it does not give.

    `leave_out`: classes that nobody holds, as in the nine-class task of the paper's Figure 1.
    """

    name: ClassVar[str] = "classes"
    version: ClassVar[int] = 1
    default_clients: ClassVar[int] = 10
    seeded: ClassVar[bool] = True
    personal: ClassVar[bool] = False
    later: ClassVar[tuple[str, ...]] = ("leave_out",)

    per_client: int = 4
    examples: int = EXAMPLES
    train_share: float = TRAIN_SHARE
    leave_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        whole("per_client", self.per_client, 1)
        check_sizes(self.examples, self.train_share)
        check_even(self.examples, self.per_client)
        if not isinstance(self.leave_out, tuple):
            raise BadInput(f"leave_out {self.leave_out!r}: give a tuple of classes, such as (9,)")
        for label in self.leave_out:
            whole("a class to leave out", label, 0)

    @property
    def title(self) -> str:
        words = f"{self.per_client} random classes each, in equal parts"
        gone = ", ".join(map(str, self.leave_out))
        return f"{words}, without class{'es' * (len(self.leave_out) > 1)} {gone}" if gone else words

    @property
    def training_examples(self) -> int:
        return training_examples(self.examples, self.train_share)

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """Raises `BadInput` for more classes or examples than there are, and for a class to leave
        out that is none.
        """
        whole("clients", clients, 1)
        for label in self.leave_out:
            if label >= dataset.classes:
                raise BadInput(
                    f"class {label} to leave out: {dataset.name} has the classes 0 to"
                    f" {dataset.classes - 1}"
                )
        each = self.examples // self.per_client
        held = [label for label in range(dataset.classes) if label not in self.leave_out]
        if not held:
            raise BadInput(f"leave_out {self.leave_out}: no class is left; leave fewer out")
        at_most = min(clients, int(stock(dataset)[held].min()) // each)
        drawn = draw_classes(clients, self.per_client, len(held), at_most, seed, "classes")
        drawn = [[held[place] for place in mine] for mine in drawn]
        return deal(
            called(self), dataset, equal_parts(drawn, each, dataset), self.train_share, seed
        )


def check_even(examples: int, per_client: int) -> None:
    """BadInput unless so many classes share a client's examples evenly."""
    if examples % per_client:
        raise BadInput(
            f"examples {examples}: {per_client} classes do not share them evenly; give a multiple"
            f" of {per_client}"
        )


def equal_parts(drawn: list[list[int]], each: int, dataset: Dataset) -> torch.LongTensor:
    """The numbers of examples wanted of each class: `each` of those that a client drew, int64 [N,
    classes].
    """
    wanted = torch.zeros(len(drawn), dataset.classes, dtype=torch.int64)
    for client, mine in enumerate(drawn):
        wanted[client, mine] = each
    return wanted
