"""Weight Erosion's splits of a table by a column (EPFLiGHT/coML-Personalized-v2, module/utils.py
and Jax_federated_learning.ipynb).
"""

import math
from dataclasses import dataclass

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_alice, flag
from pfl_lib.partitions import groups
from pfl_lib.partitions.base import Partition, called

SHUFFLE = 278  # the seed of the authors' splits (and of their initial model)


@dataclass(frozen=True)
class ByColumn:
    """Weight Erosion's AGE_STRICT and AGE_SOME: a table's rows by the bin of a column.

    Client i holds the i-th group of `groups.by_bins`; with `unknown` the rows without a value are a
    last client.  `groups.hold_out` says who is tested on what.  Rows are always shuffled by 278,
    the authors' seed, whatever the run's.
    """

    name, version = "by_column", 1

    column: str
    bins: tuple[float, ...]
    mixed: bool = False
    unknown: bool = False

    def __post_init__(self) -> None:
        try:
            bins = tuple(float(0 + bound) for bound in self.bins)  # a text plus 0 is refused
        except (TypeError, ValueError):
            bins = ()
        if not bins or sorted(set(bins)) != list(bins) or not all(map(math.isfinite, bins)):
            raise BadInput(f"bins {self.bins!r}: give one number or more, in ascending order")
        flag(mixed=self.mixed, unknown=self.unknown)
        object.__setattr__(self, "bins", bins)  # a list is taken too, and 20 is 20.0

    @property
    def default_clients(self) -> int:
        """The only number of clients there is."""
        return len(self.bins) + 1 + self.unknown

    @property
    def title(self) -> str:
        named = groups.names(self.bins[self.mixed :])
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
        if clients != self.default_clients:
            raise BadInput(
                f"clients {clients!r}: distribution {name!r} makes {self.default_clients}; give"
                f" clients={self.default_clients}"
            )
        check_alice(alice, clients)
        values = dataset.columns[self.column]
        if bool(values.isnan().any()) != self.unknown:
            raise BadInput(
                f"{self.column} of {dataset.name!r} is {'never' if self.unknown else 'sometimes'}"
                f" unknown: give unknown={not self.unknown}"
            )
        rows = groups.by_bins(values.numpy(), self.bins, SHUFFLE, self.mixed)
        return groups.hold_out(name, rows, alice)


SHORT = {
    "age_strict": ByColumn("age", (20, 35), unknown=True),
    "age_some": ByColumn("age", (20, 35), mixed=True, unknown=True),
    "radius_strict": ByColumn("mean radius", (12, 13.5, 16)),
    "radius_some": ByColumn("mean radius", (12, 13.5, 16), mixed=True),
}
