"""Weight Erosion's splits of a table by a column."""

import functools
from collections.abc import Sequence

import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_alice
from pfl_lib.partitions import groups
from pfl_lib.partitions.base import Partition, Recipe

SHUFFLE = 278  # the seed of the authors' splits (and of their initial model)


def by_column(
    name: str,
    dataset: Dataset,
    clients: int,
    seed: int,
    alice: int | None,
    column: str,
    bins: Sequence[float],
    agents: int,
    mixed: bool = False,
) -> Partition:
    """Weight Erosion's AGE_STRICT and AGE_SOME: a table's rows by the bin of a column, unknown
    values last.

    Client i holds the i-th group of `groups.by_bins`, with the bins and (`mixed`) the first two of
    them joined and halved. `alice` is tested on the first 1 + n // 2 of her rows and trains on the
    rest; the others train on all of theirs and have no test set.  With `alice` None every client's
    rows are halved.  Seed 278 makes the authors' splits, whatever `seed`.

    Raises `BadInput` for a data set without that column, another number of clients, or a client
    whose half would be empty.
    """
    if column not in dataset.columns:
        raise BadInput(
            f"distribution {name!r} splits a table by {column}, which dataset {dataset.name!r}"
            " lacks: choose another dataset or distribution"
        )
    if clients != agents:
        raise BadInput(
            f"clients {clients!r}: distribution {name!r} makes {agents}; give clients={agents}"
        )
    check_alice(alice, agents)
    rows = groups.by_bins(dataset.columns[column].numpy(), bins, SHUFFLE, mixed)
    train, test = groups.hold_out(rows, alice)
    return Partition(
        name,
        *(
            tuple(torch.tensor(part, dtype=torch.int64) for part in split)
            for split in (train, test)
        ),
    )


AGES = {"column": "age", "bins": (20, 35), "agents": 4}


RADII = {"column": "mean radius", "bins": (12, 13.5, 16), "agents": 4}


def _by_column(title: str, of: dict, mixed: bool = False) -> Recipe:
    return Recipe(
        title,
        1,
        functools.partial(by_column, mixed=mixed, **of),
        agents=of["agents"],
        personal=True,
    )
