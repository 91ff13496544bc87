"""Clients of one size with given numbers of examples of each class: pFedLA's way to share out a
data set.
"""

from fractions import Fraction

import torch
from torch import LongTensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, number, whole
from pfl_lib.partitions.base import Partition, pooled_examples
from pfl_lib.randomness import generator

TRAIN_SHARE = 0.7  # section 4.1: "All data are divided into 70% training set, and 30% test set"
EXAMPLES = 600  # of each client: the most that 60,000 images allow 100 clients


def check_sizes(examples: int, train_share: float) -> None:
    """BadInput unless a client of so many examples has some to train and some to test on."""
    whole("examples", examples, 2)
    number("train_share", train_share, "a share between 0 and 1", lambda share: 0 < share < 1)
    if not 0 < training_examples(examples, train_share) < examples:
        raise BadInput(
            f"train_share {train_share!r} of {examples} examples leaves none to"
            f" {'train' if train_share < 0.5 else 'test'} on: give another share"
        )


def training_examples(examples: int, train_share: float) -> int:
    """How many of a client's examples it trains on: their share, rounded."""
    return int(train_share * examples + 0.5)


def stock(dataset: Dataset) -> LongTensor:
    """Examples of each class in both pools together, int64 [classes]."""
    return torch.bincount(pooled_examples(dataset).train_y, minlength=dataset.classes)


def deal(
    name: str, dataset: Dataset, wanted: LongTensor, train_share: float, seed: int
) -> Partition:
    """A partition of both pools together: client i has `wanted[i, l]` examples of class l, which no
    other client has.

    A class's examples are shuffled by (seed, "deal", class) and dealt in the order of clients.  Of
    each client's n examples it trains on the share, rounded, and is tested on the rest; both have
    its classes in the same proportion, to an example.  Raises `BadInput` for a class with fewer
    examples than are wanted.
    """
    labels = pooled_examples(dataset).train_y
    demand, there = wanted.sum(0), stock(dataset)
    if short := torch.nonzero(demand > there).flatten().tolist():
        label = short[0]
        raise BadInput(
            f"distribution {name} wants {int(demand[label])} examples of class {label}, of which"
            f" {dataset.name} has {int(there[label])}: give fewer clients, or fewer examples each"
        )
    train_counts = torch.stack(
        [
            torch.tensor(apportion(training_examples(int(row.sum()), train_share), row.tolist()))
            for row in wanted
        ]
    )
    train, test = [[] for _ in wanted], [[] for _ in wanted]
    for label in range(dataset.classes):
        held = torch.nonzero(labels == label).flatten()
        held = held[torch.randperm(len(held), generator=generator(seed, "deal", label))]
        first = 0
        for client, n in enumerate(wanted[:, label].tolist()):
            mine, k = held[first : first + n], int(train_counts[client, label])
            train[client].append(mine[:k])
            test[client].append(mine[k:])
            first += n
    return Partition(name, tuple(map(torch.cat, train)), tuple(map(torch.cat, test)), pooled=True)


def apportion(total: int, weights: list[int]) -> list[int]:
    """Whole numbers in proportion to whole `weights` that add up to `total`: the largest remainders
    are rounded up, the earlier one of two equal ones.
    """
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]
    given = [int(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (given[i] - exact[i], i))
    for i in by_remainder[: total - sum(given)]:
        given[i] += 1
    return given


def draw_classes(
    clients: int, per_client: int, classes: int, at_most: int, seed: int, purpose: str
) -> list[list[int]]:
    """`per_client` different classes for each client, at random, no class for more than `at_most`
    clients.

    Each client draws by (seed, purpose, client).  Where a class is drawn too often, clients that
    drew it, chosen at random, exchange it for a class that is free and that they lack.  Such a
    client always exists: the class drawn too often has more holders than the free one.  Raises
    `BadInput` where the classes cannot serve so many clients.
    """
    if per_client > classes:
        raise BadInput(
            f"{per_client} classes per client: there are {classes}; give {classes} or fewer"
        )
    if clients * per_client > classes * at_most:
        raise BadInput(
            f"clients {clients} with {per_client} classes each: {classes} classes with examples for"
            f" {at_most} clients each serve {classes * at_most // per_client}; give fewer clients,"
            " or fewer examples each"
        )
    drawn = [
        torch.randperm(classes, generator=generator(seed, purpose, client))[:per_client].tolist()
        for client in range(clients)
    ]
    random = generator(seed, purpose + " exchanged")
    holders = [sum(label in mine for mine in drawn) for label in range(classes)]
    while max(holders) > at_most:
        full = holders.index(max(holders))
        free = holders.index(min(holders))
        able = [i for i, mine in enumerate(drawn) if full in mine and free not in mine]
        mine = drawn[able[int(torch.randint(len(able), (1,), generator=random))]]
        mine[mine.index(full)] = free
        holders[full] -= 1
        holders[free] += 1
    return drawn
