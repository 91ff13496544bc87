"""Clients of one size with given numbers of examples of each class, as in pFedLA."""

import torch
from torch import LongTensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_settings
from pfl_lib.partitions.base import Partition, Recipe, called, cut, of_each_class
from pfl_lib.randomness import generator, permutation

TRAIN_SHARE = 0.7  # section 4.1: "All data are divided into 70% training set, and 30% test set"
EXAMPLES = 600  # of each client: the most that 60,000 images allow 100 clients


def training_examples(recipe: Recipe) -> int:
    """How many of its examples a client trains on: their share, rounded."""
    return int(recipe.train_share * recipe.examples + 0.5)


def check_sizes(recipe: Recipe) -> None:
    """Check a recipe's settings; BadInput unless some examples are left to train and to test on."""
    check_settings(recipe)
    if not 0 < training_examples(recipe) < recipe.examples:
        raise BadInput(
            f"train_share {recipe.train_share!r} of {recipe.examples} examples leaves none to"
            f" {'train' if recipe.train_share < 0.5 else 'test'} on: give another share"
        )


def stock(dataset: Dataset) -> LongTensor:
    """Examples of each class in both pools together, int64 [classes]."""
    return torch.bincount(dataset.pooled.train_y, minlength=dataset.classes)


def deal(recipe: Recipe, dataset: Dataset, wanted: LongTensor, seed: int) -> Partition:
    """A partition of both pools together: client i alone has `wanted[i, l]` examples of class l.

    A class's examples are shuffled by (seed, "deal", class) and dealt in the order of clients.  A
    client's training examples and test examples have its classes in the same proportion, to an
    example: where shares leave halves, the first classes are trained on, by every client (with
    pFedLA's 600 examples 0.68 to 0.71 of a class, in place of 0.7; with few examples far more).
    Raises `BadInput` for a class with fewer examples than are wanted.
    """
    name, labels = called(recipe), dataset.pooled.train_y
    demand, there = wanted.sum(0), stock(dataset)
    if short := torch.nonzero(demand > there).flatten().tolist():
        label = short[0]
        raise BadInput(
            f"distribution {name} wants {int(demand[label])} examples of class {label}, of which"
            f" {dataset.name} has {int(there[label])}: give fewer clients, or fewer examples each"
        )
    total = training_examples(recipe)
    trained = torch.tensor([apportion(total, row) for row in wanted.tolist()])
    held = [
        of[permutation(len(of), seed, "deal", label)]
        for label, of in enumerate(of_each_class(labels, dataset.classes))
    ]
    # Each client's examples to train on, then those to test on
    parts = cut(held, torch.stack([trained, wanted - trained], 1).flatten(0, 1).cumsum(0))
    return Partition(name, parts[::2], parts[1::2], pooled=True)


def apportion(total: int, weights: list[int]) -> list[int]:
    """Whole numbers in proportion to whole `weights` that add up to `total`: the largest remainders
    are rounded up, the earlier one of two equal ones.
    """
    parts = [divmod(total * weight, sum(weights)) for weight in weights]
    given = [whole_part for whole_part, _ in parts]
    by_remainder = sorted(range(len(parts)), key=lambda i: (-parts[i][1], i))
    for i in by_remainder[: total - sum(given)]:
        given[i] += 1
    return given


def draw_classes(
    clients: int, per_client: int, classes: int, at_most: int, seed: int, purpose: str
) -> list[list[int]]:
    """`per_client` different random classes for each, none for more than `at_most` clients.

    Each client draws by (seed, purpose, client).  While a class is drawn too often, a random client
    that drew it exchanges it for a free class that the client lacks.  Such a client always exists:
    the class drawn too often has more holders than the free one.  BadInput for too many clients.
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
    orders = (permutation(classes, seed, purpose, client) for client in range(clients))
    drawn = [order[:per_client].tolist() for order in orders]
    random = generator(seed, purpose + " exchanged")
    holders = [sum(label in mine for mine in drawn) for label in range(classes)]
    while max(holders) > at_most:
        full = holders.index(max(holders))
        free = holders.index(min(holders))
        able = [mine for mine in drawn if full in mine and free not in mine]
        mine = able[int(torch.randint(len(able), (1,), generator=random))]
        mine[mine.index(full)] = free
        holders[full] -= 1
        holders[free] += 1
    return drawn
