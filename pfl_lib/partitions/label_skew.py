"""WAFFLE's distributions: label skew, and concept shift on top of it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import LongTensor

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, choose, whole
from pfl_lib.partitions.base import Partition, called
from pfl_lib.randomness import generator

CLIENTS = 10  # of the recipe, which hands every chunk to exactly one of ten clients
CHUNKS = 100  # per label, so that a chunk is one percent of it

EVEN = (10,) * 10
FOUR_LABELS = (25, 25, 25, 25, 0, 0, 0, 0, 0, 0)
ONE_MAIN_LABEL = (0, 0, 0, 10, 20, 40, 20, 10, 0, 0)

TITLES = {
    "A": "every label evenly (IID)",
    "B": "four labels each",
    "C": "one main label and its neighbours",
    "A*": "A, with labels swapped at every client but client 0 (the paper's Alice)",
    "B*": "B, with labels swapped at every client but client 0 (the paper's Alice)",
}


@dataclass(frozen=True)
class LabelSkew:
    """WAFFLE's distributions, by letter: A, B and C by `label_skew`, A* and B* by `concept_shift`.

    Recipe of the authors' code (MartinBeaussart/Weight_Erosion_ML, loadTrainTest.py).

    `draw`: A* and B* with the labels that this seed draws, whatever the run's own seed; None: with
    those that the run's seed draws.
    """

    name: ClassVar[str] = "label_skew"
    version: ClassVar[int] = 1
    default_clients: ClassVar[int] = CLIENTS
    personal: ClassVar[bool] = False

    distribution: str
    draw: int | None = None

    def __post_init__(self) -> None:
        choose("distribution", self.distribution, TITLES)
        if self.draw is not None:
            whole("draw", self.draw)
            if not self._shifted:
                raise BadInput(
                    f"draw {self.draw}: distribution {self.distribution!r} draws nothing; leave it"
                    " out, or choose A* or B*"
                )

    @property
    def title(self) -> str:
        return TITLES[self.distribution]

    @property
    def short(self) -> str | None:
        return self.distribution if self.draw is None else None

    @property
    def seeded(self) -> bool:
        return self._shifted and self.draw is None

    @property
    def _shifted(self) -> bool:
        return self.distribution.endswith("*")

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        percent = {"A": EVEN, "B": FOUR_LABELS, "C": ONE_MAIN_LABEL}[self.distribution[0]]
        recipe = concept_shift if self._shifted else label_skew
        draw = seed if self.draw is None else self.draw
        return recipe(called(self), dataset, clients, draw, percent)


def label_skew(
    name: str, dataset: Dataset, clients: int, seed: int, percent: tuple[int, ...]
) -> Partition:
    """WAFFLE's distributions A, B and C: `percent[l]` of label l for client 0; client i has the
    list shifted left by i.

    The training images of a label, n of them in the data set's order, are cut into chunks of
    floor(n / 99) and the first 100 chunks are kept: the last is the remainder where that is
    shorter, and anything beyond is dropped.  Client i takes the next `percent` chunks of each
    label. Its test set is the first floor(percent n' / 100) of each label's n' test images.

    The paper's text shifts to the right; its Table 2 and the authors' code shift to the left, as is
    done here. The authors' code makes one test set, Alice's; the same rule gives the other clients
    theirs, so test sets overlap. Fewer than ten clients are the first ones of the ten-client
    recipe.  Of more, which the paper does not have, client i is like client i mod 10: those alike
    deal out the training images of the ten-client recipe in turn, and are tested on the same.
    Nothing is drawn, so the seed changes nothing.

    Raises `BadInput` unless there are 10 classes, 99 training images of each label, and training
    and test images for every client.
    """
    whole("clients", clients, 1)
    _check(name, dataset)
    taken = [0] * dataset.classes
    train, test = [], []
    train_of = [
        torch.nonzero(dataset.train_y == label).flatten() for label in range(dataset.classes)
    ]
    test_of = [torch.nonzero(dataset.test_y == label).flatten() for label in range(dataset.classes)]
    for client in range(min(clients, CLIENTS)):
        mine, mine_to_test = [], []
        for label in range(dataset.classes):
            share = percent[(label + client) % dataset.classes]
            chunk = len(train_of[label]) // (CHUNKS - 1)
            mine.append(train_of[label][taken[label] * chunk : (taken[label] + share) * chunk])
            mine_to_test.append(test_of[label][: share * len(test_of[label]) // 100])
            taken[label] += share
        train.append(torch.cat(mine))
        test.append(torch.cat(mine_to_test))
        if not len(test[-1]):
            raise BadInput(
                f"distribution {name!r} leaves client {client} without test images: "
                f"{dataset.name} has only {len(dataset.test_y)} test images"
            )
    alike = [len(range(place, clients, CLIENTS)) for place in range(len(train))]
    train = [train[i % CLIENTS][i // CLIENTS :: alike[i % CLIENTS]] for i in range(clients)]
    if fewest := [client for client, mine in enumerate(train) if not len(mine)]:
        raise BadInput(
            f"clients {clients}: distribution {name!r} leaves client {fewest[0]} without training"
            f" images of {dataset.name}: give fewer clients"
        )
    return Partition(name, tuple(train), tuple(test[i % CLIENTS] for i in range(clients)))


def concept_shift(
    name: str, dataset: Dataset, clients: int, seed: int, percent: tuple[int, ...]
) -> Partition:
    """WAFFLE's distributions A* and B*: A and B, where every client but client 0 gives the classes
    other labels.

    "Randomly swapping the class labels of all agents, except for Alice" is read as one uniform
    random permutation of the labels per client (`shifted_labels`).  The same permutation holds for
    the client's test images: its own concept is what its model is to learn.
    """
    plain = label_skew(name, dataset, clients, seed, percent)
    return Partition(
        name, plain.train, plain.test, relabel=shifted_labels(dataset.classes, clients, seed)
    )


def shifted_labels(classes: int, clients: int, seed: int) -> LongTensor:
    """The label that each client gives to each class, int64 [N, classes]: client 0's own, and a
    permutation for each other client.

    Each comes from its own generator, keyed by the seed and the client.
    """
    rows = [torch.arange(classes)]
    for client in range(1, clients):
        rows.append(torch.randperm(classes, generator=generator(seed, "concept shift", client)))
    return torch.stack(rows)


def _check(name: str, dataset: Dataset) -> None:
    if dataset.classes != CLIENTS:
        raise BadInput(
            f"distribution {name!r} is made for {CLIENTS} classes, dataset {dataset.name!r} has"
            f" {dataset.classes}: choose another dataset"
        )
    counts = torch.bincount(dataset.train_y, minlength=dataset.classes)
    fewest = int(counts.argmin())
    if counts[fewest] < CHUNKS - 1:
        raise BadInput(
            f"distribution {name!r} needs at least {CHUNKS - 1} training images of each label,"
            f" label {fewest} has {counts[fewest]} among the {len(dataset.train_y)} images of"
            f" {dataset.name}: use more images"
        )
