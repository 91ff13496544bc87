"""All classes for each client, a few of them dominant: pFedLA's non-IID.2."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import torch
from torch import LongTensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, number, whole
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
class Dominant:
    """pFedLA's non-IID.2: "each client contains all classes [...] Two classes [...] have higher
    number of data samples than other classes, while six classes in CIFAR100" (section 4.1).

    The dominant `classes`, drawn at random for each client, make up `share` of its `examples` in
    equal parts; the others share the rest evenly.  Training and test pool are put together and
    shared out, and a client trains on `train_share` of what it has, as in `Classes`.  Parts that
    are no whole numbers are rounded down, and a client is filled up by one more example of some
    classes, of those with the most examples left (`_filled_up`).

    The paper gives neither the share nor the number of examples: with these, training alone reaches
    the accuracy that it prints.
    """

    name: ClassVar[str] = "dominant"
    version: ClassVar[int] = 1
    default_clients: ClassVar[int] = 10
    seeded: ClassVar[bool] = True
    personal: ClassVar[bool] = False

    classes: int = 2
    share: float = 0.5
    examples: int = EXAMPLES
    train_share: float = TRAIN_SHARE

    def __post_init__(self) -> None:
        whole("classes", self.classes, 1)
        number("share", self.share, "a share between 0 and 1", lambda share: 0 < share < 1)
        check_sizes(self.examples, self.train_share)

    @property
    def title(self) -> str:
        return f"all classes, {self.classes} random ones {self.share:.0%} of them"

    @property
    def training_examples(self) -> int:
        return training_examples(self.examples, self.train_share)

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """Raises `BadInput` for more classes or examples than there are, and where the dominant
        classes would not be.
        """
        whole("clients", clients, 1)
        others = dataset.classes - self.classes
        if others < 1:
            raise BadInput(
                f"classes {self.classes}: {dataset.name} has {dataset.classes}, and one at least is"
                f" not dominant; give {dataset.classes - 1} or fewer"
            )
        share = Fraction(self.share).limit_denominator(10**6)
        many = self.examples * share / self.classes
        few = self.examples * (1 - share) / others
        if many <= few:
            raise BadInput(
                f"share {self.share!r}: {self.classes} of {dataset.classes} classes are dominant"
                f" above {self.classes / dataset.classes:g}; give a greater share"
            )
        there = stock(dataset)
        fewest = int(there.min())
        at_most = min(clients, math.floor((fewest - clients * few) / (many - few)))
        if at_most < 0 or clients * self.classes > dataset.classes * at_most:
            raise BadInput(
                f"clients {clients} with {self.examples} examples each are more than"
                f" {dataset.name} has, {fewest} of its rarest class: give fewer clients, or fewer"
                " examples each"
            )
        drawn = draw_classes(clients, self.classes, dataset.classes, at_most, seed, "dominant")
        wanted = torch.full((clients, dataset.classes), math.floor(few))
        for client, mine in enumerate(drawn):
            wanted[client, mine] = math.floor(many)
        wanted = _filled_up(wanted, drawn, self.examples, there)
        return deal(called(self), dataset, wanted, self.train_share, seed)


def _filled_up(
    wanted: LongTensor, drawn: list[list[int]], examples: int, there: LongTensor
) -> LongTensor:
    """`wanted` with so many more that every client has `examples`: one more of each class that is
    not dominant, those with the most examples left first; of the others where these do not suffice.
    """
    left = (there - wanted.sum(0)).tolist()
    rows = wanted.tolist()
    for mine, row in zip(drawn, rows, strict=True):
        more = [0] * len(row)
        for _ in range(examples - sum(row)):
            able = [label for label, n in enumerate(left) if n]
            label = min(able, key=lambda label: (more[label], label in mine, -left[label]))
            more[label] += 1
            left[label] -= 1
        row[:] = map(sum, zip(row, more, strict=True))
    return torch.tensor(rows)
