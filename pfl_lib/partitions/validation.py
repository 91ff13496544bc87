"""Validation examples held out, and what is checked of a partition of a user's own."""

import dataclasses

import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, number
from pfl_lib.partitions.base import Partition
from pfl_lib.randomness import permutation


def check_share(share: float) -> None:
    """BadInput unless a share of the training examples can be held out."""
    number("validation", share, "a share from 0 up to below 1", lambda value: 0 <= value < 1)


def hold_out_validation(partition: Partition, share: float, seed: int) -> Partition:
    """The partition with `share` of each client's training examples, rounded, to validate on.

    Client i's are drawn by (seed, "validation", i), once for the whole run; both parts keep the
    order that the examples had.  Where the partition has `targets`, client i validates on what its
    target holds out.  Raises `BadInput` where a client is left without training or validation
    examples, or the partition has validation examples already.
    """
    if partition.validation:
        why = f"distribution {partition.name!r} holds out validation examples itself"
        raise BadInput(f"validation {share!r}: {why}; leave it out")
    train, validation = [], []
    for client, mine in enumerate(partition.train):
        n, k = len(mine), int(share * len(mine) + 0.5)
        if not 0 < k < n:
            left = "validation" if not k else "training"
            raise BadInput(
                f"validation {share!r} leaves client {client} with its {n} training"
                f" example{'' if n == 1 else 's'} without {left} data: give another share"
            )
        held_out = torch.zeros(n, dtype=torch.bool)
        held_out[permutation(n, seed, "validation", client)[:k]] = True
        train.append(mine[~held_out])
        validation.append(mine[held_out])
    targets = partition.targets or range(partition.clients)
    validated_on = tuple(validation[target] for target in targets)
    return dataclasses.replace(partition, train=tuple(train), validation=validated_on)


def check(made: object, name: str, dataset: Dataset, clients: int) -> None:
    """BadInput unless `made` is a partition of this data set for so many clients: every client
    trains, and no example is both trained and tested on.
    """
    if not isinstance(made, Partition):
        given, wanted = type(made).__name__, "give pfl_lib.partitions.Partition(name, train, test)"
        raise BadInput(f"distribution {name}: its split gives {given}: {wanted}")
    if {len(made.train), len(made.test), len(made.validation) or clients} != {clients}:
        raise BadInput(f"distribution {name}: its split makes {made.clients} of {clients} clients")
    pools = made.of(dataset)
    one_pool = pools.train_x is pools.test_x
    for client, train in enumerate(made.train):
        if not len(train):
            raise BadInput(f"distribution {name} leaves client {client} without training examples")
        validation = made.validation[client] if made.validation else torch.arange(0)
        parts = {"train": train, "test": made.test[client], "validation": validation}
        for part, positions in parts.items():
            size = len(pools.test_y if part == "test" else pools.train_y)
            _check_positions(f"distribution {name}: {part} of client {client}", positions, size)
        apart = torch.cat([train, validation, *([parts["test"]] if one_pool else [])])
        if any(len(of.unique()) < len(of) for of in (apart, parts["test"])):
            cure = "training, validation and test examples never meet"
            raise BadInput(f"distribution {name} gives client {client} an example twice: {cure}")
    if (relabel := made.relabel) is not None:
        fits = isinstance(relabel, torch.Tensor) and not relabel.is_floating_point()
        fits = fits and relabel.dim() == 2 and len(relabel) == clients
        own = relabel[:, : dataset.classes] if fits else torch.empty(0, 0)
        if own.shape[1] < dataset.classes or own.min() < 0 or own.max() >= dataset.classes:
            raise BadInput(
                f"distribution {name}: its relabel is no whole numbers [{clients},"
                f" {dataset.classes}] from 0 to {dataset.classes - 1}"
            )
    if made.targets is not None:
        targets = [*map(int, made.targets)]
        if len(targets) != clients or {*targets} - {*range(clients)}:
            cure = f"give each of {clients} clients the number of one"
            raise BadInput(f"distribution {name}: targets {targets}: {cure}")


def check_apart(made: Partition, name: str, dataset: Dataset) -> None:
    """BadInput where pools are one, as a table's, and any client trains on test examples."""
    if dataset.train_x is not dataset.test_x:
        return
    if torch.isin(torch.cat(made.test), torch.cat(made.train)).any():
        raise BadInput(
            f"distribution {name} tests clients on examples of {dataset.name!r} that clients train"
            " on: hold them out; of the package's ByColumn, Classes and Dominant do on a table"
        )


def _check_positions(what: str, positions: object, size: int) -> None:
    if not isinstance(positions, torch.Tensor) or positions.dtype != torch.int64:
        raise BadInput(f"{what} is {type(positions).__name__}: give positions, a tensor of int64")
    if len(positions) and not (0 <= positions.min() and positions.max() < size):
        low, high = int(positions.min()), int(positions.max())
        raise BadInput(f"{what} has positions {low} to {high}: the data set has 0 to {size - 1}")
