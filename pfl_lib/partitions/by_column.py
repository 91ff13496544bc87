"""Splitting the rows of a table among clients by a column, as Weight Erosion splits the Titanic's
passengers by age (EPFLiGHT/coML-Personalized-v2, module/utils.py and Jax_federated_learning.ipynb).
"""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_alice, check_settings, flag, setting
from pfl_lib.partitions.base import Partition, called

Rows = list[int]

SHUFFLE = 278  # the seed of the authors' splits (and of their initial model)


@dataclass(frozen=True)
class ByColumn:
    """Weight Erosion's AGE_STRICT and AGE_SOME: a table's rows by the bin of a column.

    Client i holds the i-th group of `by_bins`; with `unknown` the rows without a value are a last
    client.  `hold_out` says who is tested on what.  Rows are shuffled by 278, the authors'
    seed, in every run.
    """

    name, version = "by_column", 1

    column: str
    bins: tuple[float, ...]
    mixed: bool = setting(False, flag)
    unknown: bool = setting(False, flag)

    def __post_init__(self) -> None:
        try:
            bins = tuple(float(0 + bound) for bound in self.bins)  # a text plus 0 is refused
        except (TypeError, ValueError):
            bins = ()
        if not bins or sorted(set(bins)) != list(bins) or not all(map(math.isfinite, bins)):
            raise BadInput(f"bins {self.bins!r}: give one number or more, in ascending order")
        check_settings(self)
        object.__setattr__(self, "bins", bins)  # a list is taken too, and 20 is 20.0

    @property
    def default_clients(self) -> int:
        """The only number of clients there is."""
        return len(self.bins) + 1 + self.unknown

    @property
    def title(self) -> str:
        named = names(self.bins[self.mixed :])
        if self.mixed:
            named[:1] = [f"two random halves of {f'those {named[0]}' if named else 'all rows'}"]
        return f"{self.column}: {', '.join([*named, *['unknown'] * self.unknown])}"

    @property
    def short(self) -> str | None:
        return next((name for name, recipe in SHORT.items() if recipe == self), None)

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        name = called(self)
        if self.column not in dataset.columns:
            raise BadInput(
                f"distribution {name!r} splits a table by {self.column}, which dataset"
                f" {dataset.name!r} lacks: choose another dataset or distribution"
            )
        n = self.default_clients
        if clients != n:
            raise BadInput(f"clients {clients}: distribution {name!r} makes {n}; give clients={n}")
        check_alice(alice, clients)
        values = dataset.columns[self.column]
        if bool(values.isnan().any()) != self.unknown:
            raise BadInput(
                f"{self.column} of {dataset.name!r} is {'never' if self.unknown else 'sometimes'}"
                f" unknown: give unknown={not self.unknown}"
            )
        return hold_out(name, by_bins(values.numpy(), self.bins, SHUFFLE, self.mixed), alice)


SHORT = {
    "age_strict": ByColumn("age", (20, 35), unknown=True),
    "age_some": ByColumn("age", (20, 35), mixed=True, unknown=True),
    "radius_strict": ByColumn("mean radius", (12, 13.5, 16)),
    "radius_some": ByColumn("mean radius", (12, 13.5, 16), mixed=True),
}


def by_bins(
    values: np.ndarray, bins: Sequence[float], seed: int, mixed: bool = False
) -> list[Rows]:
    """Row numbers by the bin of their value, each shuffled: up to bins[0], ..., above the last.

    `values` [n] in float; rows whose value is nan make a last group, where there are any.  `mixed`
    joins the first two bins and cuts them at half: clients 0 and 1 hold the same kind of rows.

    The order of shuffling, the nan group first, and Python's own generator are those of the
    authors' code: seed 278 gives the groups of Weight Erosion's runs, in their order.
    """
    shuffle = random.Random(seed).shuffle
    unknown = np.flatnonzero(np.isnan(values)).tolist()
    shuffle(unknown)
    limits = [-np.inf, *(bins[1:] if mixed else bins), np.inf]
    groups = []
    for low, high in itertools.pairwise(limits):
        groups.append(np.flatnonzero((values > low) & (values <= high)).tolist())
        shuffle(groups[-1])
    if mixed:
        both = groups.pop(0)
        groups = [both[: len(both) // 2], both[len(both) // 2 :], *groups]
    return groups + ([unknown] if unknown else [])


def names(bins: Sequence[float]) -> list[str]:
    """What the values of each bin have in common: "up to 20", "above 20"."""
    limits = [f"{bound:g}" for bound in bins]
    return [
        *(f"up to {limit}" for limit in limits[:1]),
        *(f"above {low} up to {high}" for low, high in itertools.pairwise(limits)),
        *(f"above {limit}" for limit in limits[-1:]),
    ]


def by_value(values: Sequence, seed: int) -> list[Rows]:
    """Row numbers by their value, in ascending order of values, each group shuffled."""
    shuffle = random.Random(seed).shuffle
    groups = [[row for row, v in enumerate(values) if v == value] for value in sorted(set(values))]
    for group in groups:
        shuffle(group)
    return groups


def hold_out(
    name: str, groups: Sequence[Rows], alice: int | None, called: Sequence[str] = ()
) -> Partition:
    """A client a group; Alice is tested on her first 1 + n // 2 rows and trains on the rest.

    The others train on all of their rows and have no test set, as in the paper ("100% of the other
    agents' data sets are used for training").  With `alice` None every client's rows are halved.
    The paper says "of equal sizes"; its code tests on one row more.  Raises `BadInput` for a client
    with fewer than three rows, whose half would be empty; `called`: clients' names, for its words.
    """
    train, test = [], []
    for client, rows in enumerate(groups):
        who = f"client {client}" + (f" ({called[client]})" if called else "")
        if not rows:
            raise BadInput(f"{who} has no rows: choose other bins, or another column")
        tested = 1 + len(rows) // 2 if alice is None or client == alice else 0
        if tested >= len(rows):
            raise BadInput(
                f"{who} has {len(rows)} row{'' if len(rows) == 1 else 's'}, and one half"
                " would be empty: a client whose model is read needs 3 or more"
            )
        test.append(torch.tensor(rows[:tested], dtype=torch.int64))
        train.append(torch.tensor(rows[tested:], dtype=torch.int64))
    return Partition(name, tuple(train), tuple(test))
