"""Dirichlet label skew: each class is shared out in random proportions."""

from dataclasses import dataclass

import numpy as np

from pfl_lib.data.source import Dataset
from pfl_lib.errors import ABOVE_0, BadInput, check_settings, setting, whole
from pfl_lib.partitions.base import Partition, called, cut, of_each_class
from pfl_lib.randomness import number

TRIES = 1000


@dataclass(frozen=True)
class Dirichlet:
    """Each class's examples go to clients in proportions drawn from Dirichlet(alpha, ..., alpha);
    its test examples in the same proportions (Yurochkin et al. 2019, section 4).

    The smaller `alpha`, the fewer classes a client has.  Examples keep the data set's order: client
    i has those of a class between the sums of the first i and the first i + 1 proportions, rounded
    down.  All are drawn anew until every client has `least` training examples and a test example.
    """

    name, version, default_clients = "dirichlet", 1, 10
    __post_init__ = check_settings

    alpha: float = setting(0.3, *ABOVE_0)
    least: int = setting(10, whole, 1)

    @property
    def title(self) -> str:
        return f"label proportions from Dirichlet({self.alpha:g})"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        if clients * self.least > len(dataset.train_y) or clients > len(dataset.test_y):
            raise BadInput(
                f"clients {clients} with {self.least} training examples or more and a test example"
                f" each: {dataset.name} has {len(dataset.train_y)} and {len(dataset.test_y)}"
            )
        # RandomState's streams are frozen by numpy's policy; a seed beyond 32 bits goes in halves.
        key = number(seed, "dirichlet")
        random = np.random.RandomState([key & 0xFFFFFFFF, key >> 32])
        labels = (dataset.train_y, dataset.test_y)
        pools = [of_each_class(of, dataset.classes) for of in labels]
        for _ in range(TRIES):
            share = random.dirichlet([self.alpha] * clients, dataset.classes)
            if not np.isfinite(share).all():  # a tiny alpha: all of them underflow
                continue
            ends = share.cumsum(1).T
            ends[-1] = 1.0
            dealt = [np.floor(ends * [*map(len, held)]).astype(int) for held in pools]
            fewest = [np.diff(of, axis=0, prepend=0).sum(1).min() for of in dealt]
            if fewest[0] >= self.least and fewest[1] >= 1:
                return Partition(called(self), *map(cut, pools, dealt))
        raise BadInput(
            f"{called(self)}: no draw of {TRIES} gives each of {clients} clients {self.least}"
            f" training examples and a test example of {dataset.name}; give a larger alpha or fewer"
            " clients"
        )
