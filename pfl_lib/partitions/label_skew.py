"""WAFFLE's distributions: label skew, concept shift on top of it, and clients of different sizes.

Recipes of the authors' code (MartinBeaussart/Weight_Erosion_ML, loadTrainTest.py).  They are made
for ten classes.  Client i has client 0's share of each label, shifted left by i, as in the paper's
Table 2 and the authors' code; the paper's text shifts to the right.
"""

from dataclasses import MISSING, dataclass

import torch
from torch import LongTensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_settings, choose, setting, whole
from pfl_lib.partitions.base import Partition, called, cut, of_each_class
from pfl_lib.randomness import permutation

CLIENTS = CLASSES = 10  # the recipe hands every chunk to exactly one of ten clients
CHUNKS = 100  # per label, so that a chunk is one percent of it

ONE_MAIN_LABEL = (0, 0, 0, 10, 20, 40, 20, 10, 0, 0)
PERCENT = {"A": (10,) * 10, "B": (25, 25, 25, 25, 0, 0, 0, 0, 0, 0), "C": ONE_MAIN_LABEL}

TITLES = {
    "A": "every label evenly (IID)",
    "B": "four labels each",
    "C": "one main label and its neighbours",
    "A*": "A, with labels swapped at every client but client 0 (the paper's Alice)",
    "B*": "B, with labels swapped at every client but client 0 (the paper's Alice)",
}


@dataclass(frozen=True)
class LabelSkew:
    """WAFFLE's distributions A, B and C, and A* and B*, which add a concept shift to A and B.

    The training images of a label, n of them in the data set's order, are cut into chunks of
    floor(n / 99) and the first 100 chunks are kept: the last is the remainder where that is
    shorter, and anything beyond is dropped.  Client i takes its percentage of each label as chunks,
    the next ones.  Its test set is the first floor(percent n' / 100) of each label's n' test
    images: the authors' rule for Alice, so test sets overlap.

    Fewer than ten clients are the first of the ten.  Of more, which the paper does not have, client
    i is like client i mod 10: those alike take turns at its training images, and share its tests.

    Under a concept shift every client but client 0 gives the classes other labels: "randomly
    swapping the class labels of all agents, except for Alice" is read as one uniform random
    permutation per client (`shifted_labels`), which holds for its test images too.  `draw` is the
    seed of the permutations, whatever the run's own seed; None: the run's seed.
    """

    name, version, default_clients = "label_skew", 1, CLIENTS

    distribution: str = setting(MISSING, choose, TITLES)
    draw: int | None = setting(None, whole)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.draw is not None and self.distribution in PERCENT:
            why = f"draw {self.draw}: distribution {self.distribution!r} draws nothing"
            raise BadInput(f"{why}; leave it out, or choose A* or B*")

    @property
    def title(self) -> str:
        return TITLES[self.distribution]

    @property
    def short(self) -> str | None:
        return self.distribution if self.draw is None else None

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        name = called(self)
        _check_classes(name, dataset)
        images = of_each_class(dataset.train_y, CLASSES)
        fewest = min(range(CLASSES), key=lambda label: len(images[label]))
        if len(images[fewest]) < CHUNKS - 1:
            raise BadInput(
                f"distribution {name!r} needs at least {CHUNKS - 1} training images of each label,"
                f" label {fewest} has {len(images[fewest])} among the {len(dataset.train_y)} images"
                f" of {dataset.name}: use more images"
            )
        shares = _shares(self.distribution[0], min(clients, CLIENTS))
        test = _test_sets(shares, dataset)
        chunks = torch.tensor([len(of) // (CHUNKS - 1) for of in images])
        train = cut(images, (shares * chunks).cumsum(0))
        alike = [len(range(place, clients, CLIENTS)) for place in range(CLIENTS)]
        train = [train[i % CLIENTS][i // CLIENTS :: alike[i % CLIENTS]] for i in range(clients)]
        relabel = None
        if self.distribution not in PERCENT:
            relabel = shifted_labels(CLASSES, clients, seed if self.draw is None else self.draw)
        test = tuple(test[i % CLIENTS] for i in range(clients))
        return _checked(Partition(name, tuple(train), test, relabel=relabel), dataset)


@dataclass(frozen=True)
class SizedSkew:
    """Labels as in `LabelSkew`'s A, B or C, sizes in proportion to `sizes`: client i has
    `sizes[i % len(sizes)]` parts; by default those of the appendix's size distribution B.

    Client i of size s wants `percent[(l + i) % 10] * s` parts of label l.  The label that is wanted
    most is dealt out whole; a part of any other label has the same share of its images, and what
    is left over is nobody's.  Images go to the clients in the data set's order.  Test sets are
    those of `LabelSkew`, whatever the size.  Nothing is drawn.

    The authors' code (`get_distributions_non_iid_different_sizes`) deals chunks of one percent and
    gives a chunk on the border of two clients to both.  Here no image is given twice.
    """

    name, version, default_clients = "sized_skew", 1, 20

    distribution: str = setting("B", choose, PERCENT)
    sizes: tuple[int, ...] = (21, 6, 11, 6, 11, 6, 16, 6, 11, 6)

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise BadInput(f"sizes {self.sizes!r}: give a tuple of whole numbers, such as (3, 1)")
        for size in self.sizes:
            whole("size", size, 1, 1_000_000)

    @property
    def title(self) -> str:
        return f"{TITLES[self.distribution]}, sizes {':'.join(map(str, self.sizes))}"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        _check_classes(self.distribution, dataset)
        shares = _shares(self.distribution, clients)
        sizes = torch.tensor([self.sizes[i % len(self.sizes)] for i in range(clients)])
        dealt = (shares * sizes[:, None]).cumsum(0)
        images = of_each_class(dataset.train_y, CLASSES)
        train = cut(images, dealt * torch.tensor([*map(len, images)]) // dealt[-1].max())
        return _checked(Partition(called(self), train, _test_sets(shares, dataset)), dataset)


def shifted_labels(classes: int, clients: int, seed: int) -> LongTensor:
    """The label that each client gives to each class, int64 [N, classes]: client 0's own, and a
    permutation for each other client, drawn by (seed, "concept shift", client).
    """
    others = [permutation(classes, seed, "concept shift", client) for client in range(1, clients)]
    return torch.stack([torch.arange(classes), *others])


def _check_classes(name: str, dataset: Dataset) -> None:
    if dataset.classes != CLASSES:
        of_tables = {"titanic": "'age_strict'", "breast_cancer": "'radius_strict'"}
        other = of_tables.get(dataset.name.removesuffix("_as_run"), "Dirichlet(0.3)")
        raise BadInput(
            f"distribution {name!r} is made for {CLASSES} classes, dataset {dataset.name!r} has"
            f" {dataset.classes}: choose another, such as {other}, or another dataset"
        )


def _checked(made: Partition, dataset: Dataset) -> Partition:
    for what, parts in (("training", made.train), ("test", made.test)):
        if empty := [i for i, part in enumerate(parts) if not len(part)]:
            raise BadInput(
                f"distribution {made.name} leaves client {empty[0]} of {made.clients} without"
                f" {what} images of {dataset.name}: give fewer clients or more images"
            )
    return made


def _shares(distribution: str, clients: int) -> LongTensor:
    """Percent of each label for each client, int64 [N, 10]."""
    percent = torch.tensor(PERCENT[distribution])
    return torch.stack([percent.roll(-i) for i in range(clients)])


def _test_sets(shares: LongTensor, dataset: Dataset) -> tuple[LongTensor, ...]:
    images = of_each_class(dataset.test_y, CLASSES)
    ends = shares * torch.tensor([*map(len, images)]) // 100
    return tuple(cut(images, row[None])[0] for row in ends)
