"""pFedLA's partitions: a few classes for each client, dominant classes, and classes that overlap.

A client has `examples` of training and test pool together, which no other client has, and trains on
`train_share` of them.  600 is not the paper's number, which it does not give.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import LongTensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import PART, BadInput, setting, whole
from pfl_lib.partitions import dealing
from pfl_lib.partitions.base import Partition
from pfl_lib.randomness import permutation


@dataclass(frozen=True)
class _EqualParts:
    """A few classes for each of eight clients, with the same number of examples of each."""

    version, default_clients = 1, 8
    training_examples = property(dealing.training_examples)

    per_client: int = setting(4, whole, 1)
    examples: int = setting(dealing.EXAMPLES, whole, 2)
    train_share: float = setting(dealing.TRAIN_SHARE, *PART)

    def __post_init__(self) -> None:
        dealing.check_sizes(self)
        if self.examples % self.per_client:
            why = f"examples {self.examples}: {self.per_client} classes do not share them evenly"
            raise BadInput(f"{why}; give a multiple of {self.per_client}")

    def _dealt(self, held: list[list[int]], dataset: Dataset, seed: int) -> Partition:
        """The partition in which client i has as many examples of each class in `held[i]`."""
        wanted = torch.zeros(len(held), dataset.classes, dtype=torch.int64)
        wanted.scatter_(1, torch.tensor(held), self.examples // self.per_client)
        return dealing.deal(self, dataset, wanted, seed)


@dataclass(frozen=True)
class Classes(_EqualParts):
    """pFedLA's non-IID.1: "each client is randomly assigned four classes (twelve classes per client
    in CIFAR100) with the same amount of data on each class" (section 4.1).

    100 clients of 600 images use up CIFAR-10, so 40 clients hold each class; fewer images leave the
    clients' draws independent (see `dealing.draw_classes`).

    `leave_out`: classes that nobody holds, as in the nine-class task of the paper's Figure 1.
    """

    name, default_clients = "classes", 10
    later = ("leave_out",)

    leave_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.leave_out, tuple):
            raise BadInput(f"leave_out {self.leave_out!r}: give a tuple of classes, such as (9,)")
        for label in self.leave_out:
            whole("a class to leave out", label, 0)
        if len(set(self.leave_out)) < len(self.leave_out):
            raise BadInput(f"leave_out {self.leave_out}: give each class once")

    @property
    def title(self) -> str:
        words = f"{self.per_client} random classes each, in equal parts"
        gone = ", ".join(map(str, self.leave_out))
        return f"{words}, without class{'es' * (len(self.leave_out) > 1)} {gone}" if gone else words

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        for label in self.leave_out:
            if label >= dataset.classes:
                there = f"{dataset.name} has the classes 0 to {dataset.classes - 1}"
                raise BadInput(f"class {label} to leave out: {there}")
        held = [label for label in range(dataset.classes) if label not in self.leave_out]
        if not held:
            raise BadInput(f"leave_out {self.leave_out}: no class is left; leave fewer out")
        each = self.examples // self.per_client
        at_most = min(clients, int(dealing.stock(dataset)[held].min()) // each)
        drawn = dealing.draw_classes(clients, self.per_client, len(held), at_most, seed, "classes")
        drawn = [[held[place] for place in mine] for mine in drawn]
        return self._dealt(drawn, dataset, seed)


@dataclass(frozen=True)
class Dominant:
    """pFedLA's non-IID.2: "each client contains all classes [...] Two classes [...] have higher
    number of data samples than other classes, while six classes in CIFAR100" (section 4.1).

    The dominant `classes`, drawn at random for each client, make up `share` of its `examples` in
    equal parts; the others share the rest evenly.  Parts are rounded down, then `_filled_up`.

    The paper gives neither the share nor the number of examples: both are our choice.
    """

    name, version, default_clients = "dominant", 1, 10
    training_examples = property(dealing.training_examples)
    __post_init__ = dealing.check_sizes

    classes: int = setting(2, whole, 1)
    share: float = setting(0.5, *PART)
    examples: int = setting(dealing.EXAMPLES, whole, 2)
    train_share: float = setting(dealing.TRAIN_SHARE, *PART)

    @property
    def title(self) -> str:
        return f"all classes, {self.classes} random ones {self.share:.0%} of them"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        n, others = dataset.classes, dataset.classes - self.classes
        if others < 1:
            why = f"{dataset.name} has {n}, and one at least is not dominant"
            raise BadInput(f"classes {self.classes}: {why}; give {n - 1} or fewer")
        share = Fraction(self.share).limit_denominator(10**6)
        many = self.examples * share / self.classes
        few = self.examples * (1 - share) / others
        if many <= few:
            why = f"{self.classes} of {n} classes are dominant above {self.classes / n:g}"
            raise BadInput(f"share {self.share!r}: {why}; give a greater share")
        there = dealing.stock(dataset)
        fewest = int(there.min())
        at_most = min(clients, math.floor((fewest - clients * few) / (many - few)))
        if at_most < 0 or clients * self.classes > n * at_most:
            raise BadInput(
                f"clients {clients} with {self.examples} examples each are more than"
                f" {dataset.name} has, {fewest} of its rarest class: give fewer clients, or fewer"
                " examples each"
            )
        drawn = dealing.draw_classes(clients, self.classes, n, at_most, seed, "dominant")
        wanted = torch.full((clients, n), math.floor(few))
        wanted.scatter_(1, torch.tensor(drawn), math.floor(many))
        wanted = _filled_up(wanted, drawn, self.examples, there)
        return dealing.deal(self, dataset, wanted, seed)


@dataclass(frozen=True)
class Neighbours(_EqualParts):
    """pFedLA's Figure 6: client j has the classes j to j + `per_client` - 1, counted round the
    classes, so that "clients of adjacent IDs" share all but one.
    """

    name = "neighbours"

    @property
    def title(self) -> str:
        return f"{self.per_client} classes each, all but one of them the next client's too"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        _check_classes(self.per_client, dataset.classes, dataset)
        each = range(self.per_client)
        held = [[(client + k) % dataset.classes for k in each] for client in range(clients)]
        return self._dealt(held, dataset, seed)


@dataclass(frozen=True)
class Relatives(_EqualParts):
    """pFedLA's Figure 5: client 0 is the target, client 1 has the same classes, client 2 all but
    one of them and one other, and every further client random ones.

    Classes are drawn by (seed, "relatives", client).
    """

    name = "relatives"

    @property
    def title(self) -> str:
        return f"{self.per_client} classes each: client 1 as client 0, client 2 all but one"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        whole("clients", clients, 3)
        _check_classes(self.per_client, dataset.classes - 1, dataset)
        n = dataset.classes
        held = [permutation(n, seed, "relatives", client).tolist() for client in range(clients)]
        held[1], held[2] = held[0], held[0][1 : self.per_client + 1]
        return self._dealt([mine[: self.per_client] for mine in held], dataset, seed)


def _check_classes(per_client: int, at_most: int, dataset: Dataset) -> None:
    if per_client > at_most:
        why = f"{per_client} classes per client: {dataset.name} has {dataset.classes}"
        raise BadInput(f"{why}; give {at_most} or fewer")


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
