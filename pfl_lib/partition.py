"""Who holds which examples, and under which labels.

Every way to split a data set is a row of `PARTITIONS`.  Implemented: the five distributions of WAFFLE, by the recipe of
its authors' code (MartinBeaussart/Weight_Erosion_ML, loadTrainTest.py), and Weight Erosion's splits of a table by a column
(EPFLiGHT/coML-Personalized-v2, module/utils.py and Jax_federated_learning.ipynb).
"""

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import LongTensor, Tensor

from pfl_lib import groups
from pfl_lib.data import Dataset
from pfl_lib.errors import BadInput, check_alice, choose
from pfl_lib.randomness import generator


@dataclass(frozen=True, eq=False)
class Partition:
    """The examples of N clients.

    `train[i]`, `test[i]`: int64 positions of client i's examples in the data set's training and test pool;
    `validation[i]` likewise in the training pool, an empty tuple when no client has any.  `relabel`: int64
    [N, classes], the label that client i gives to class l, or None when every client uses the data set's labels; it
    holds for all of a client's examples.
    """

    name: str
    train: tuple[LongTensor, ...]
    test: tuple[LongTensor, ...]
    validation: tuple[LongTensor, ...] = ()
    relabel: LongTensor | None = None

    def __repr__(self) -> str:
        sizes = (("train", self.train), ("test", self.test), ("validation", self.validation))
        held = ", ".join(f"{name} {sum(map(len, indices)):,}" for name, indices in sizes if indices)
        return f"<Partition {self.name}: {self.clients} clients, {held}>"

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.train)

    @property
    def sizes(self) -> LongTensor:
        """Training examples of each client, int64 [N]."""
        return torch.tensor([len(indices) for indices in self.train])

    def own_labels(self, client: int, labels: Tensor) -> Tensor:
        """The data set's `labels` as `client` sees them (int64, any shape, same shape back)."""
        return labels if self.relabel is None else self.relabel[client][labels]

    def label_matrix(self, dataset: Dataset) -> LongTensor:
        """Training examples of each client and label, under the client's own labels, int64 [N, classes]."""
        rows = [self.own_labels(client, dataset.train_y[indices]) for client, indices in enumerate(self.train)]
        return torch.stack([torch.bincount(labels, minlength=dataset.classes) for labels in rows])

    def checksum(self) -> str:
        """16 hex digits over all positions and labels: equal exactly when two partitions give every client the same."""
        digest = hashlib.sha256()
        parts = {"train": self.train, "test": self.test, "validation": self.validation}
        parts["relabel"] = () if self.relabel is None else tuple(self.relabel)
        for part, rows in parts.items():
            for client, row in enumerate(rows):
                digest.update(f"{part} {client} {len(row)}\n".encode())
                digest.update(row.numpy().astype("<i8").tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Recipe:
    """A row of `PARTITIONS`: `split(name, dataset, clients, seed)` makes the partition.

    `version` is part of every result's key and is raised by hand when the same arguments give other clients' data;
    `seeded` says whether the seed changes anything.  `agents` is the number of clients in the recipe's paper.  Where
    `personal`, who holds what depends on whose model is read: `split` is handed `alice` (or None) as a fifth argument.
    """

    title: str
    version: int
    split: Callable[..., Partition]
    seeded: bool = False
    agents: int = 10
    personal: bool = False


def make(name: str, dataset: Dataset, clients: int | None = None, seed: int = 0, alice: int | None = None) -> Partition:
    """Split a data set over clients (None: the recipe's own number of them) by a recipe of `PARTITIONS`.

    `alice`, the client whose model is read, matters to the splits of tables only: see `by_column`.  Raises `BadInput` if the
    name is unknown or the recipe cannot serve this data set or number of clients.
    """
    recipe = PARTITIONS[choose("distribution", name, PARTITIONS)]
    clients = recipe.agents if clients is None else clients
    return recipe.split(name, dataset, clients, seed, *((alice,) if recipe.personal else ()))


# --- WAFFLE -----------------------------------------------------------------------------------------------------------

AGENTS = 10  # of the recipe, which hands every chunk to exactly one of ten agents
CHUNKS = 100  # per label, so that a chunk is one percent of it


def label_skew(name: str, dataset: Dataset, clients: int, seed: int, percent: tuple[int, ...]) -> Partition:
    """WAFFLE's distributions A, B and C: `percent[l]` of label l for agent 0; agent i has the list shifted left by i.

    The training images of a label, n of them in the data set's order, are cut into chunks of floor(n / 99) and the
    first 100 chunks are kept: the last is the remainder where that is shorter, and anything beyond is dropped.  Agent i
    takes the next `percent` chunks of each label.  Its test set is the first floor(percent n' / 100) of each label's n'
    test images.

    The paper's text shifts to the right; its Table 2 and the authors' code shift to the left, as is done here.
    The authors' code makes one test set, Alice's; the same rule gives the other agents theirs, so test sets overlap.
    Fewer than ten clients are the first ones of the ten-agent recipe; nothing is drawn, so the seed changes nothing.

    Raises `BadInput` unless there are 1 to 10 clients, 10 classes, 99 training images of each label and test images for
    every client.
    """
    _check(name, dataset, clients)
    taken = [0] * dataset.classes
    train, test = [], []
    train_of = [torch.nonzero(dataset.train_y == label).flatten() for label in range(dataset.classes)]
    test_of = [torch.nonzero(dataset.test_y == label).flatten() for label in range(dataset.classes)]
    for client in range(clients):
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
    return Partition(name, tuple(train), tuple(test))


def concept_shift(name: str, dataset: Dataset, clients: int, seed: int, percent: tuple[int, ...]) -> Partition:
    """WAFFLE's distributions A* and B*: A and B, where every agent but agent 0 gives the classes other labels.

    "Randomly swapping the class labels of all agents, except for Alice" is read as one uniform random permutation of
    the labels per agent (`shifted_labels`).  The same permutation holds for the agent's test images: its own concept is
    what its model is to learn.
    """
    plain = label_skew(name, dataset, clients, seed, percent)
    return Partition(name, plain.train, plain.test, relabel=shifted_labels(dataset.classes, clients, seed))


def shifted_labels(classes: int, clients: int, seed: int) -> LongTensor:
    """The label that each client gives to each class, int64 [N, classes]: agent 0's own, and a permutation for each other agent.

    Each comes from its own generator, keyed by the seed and the agent.
    """
    rows = [torch.arange(classes)]
    for client in range(1, clients):
        rows.append(torch.randperm(classes, generator=generator(seed, "concept shift", client)))
    return torch.stack(rows)


def _check(name: str, dataset: Dataset, clients: int) -> None:
    if not 1 <= clients <= AGENTS:
        raise BadInput(f"clients {clients} is not between 1 and {AGENTS}, the agents of distribution {name!r}")
    if dataset.classes != AGENTS:
        raise BadInput(
            f"distribution {name!r} is made for {AGENTS} classes, dataset {dataset.name!r} has {dataset.classes}: "
            "choose another dataset"
        )
    counts = torch.bincount(dataset.train_y, minlength=dataset.classes)
    fewest = int(counts.argmin())
    if counts[fewest] < CHUNKS - 1:
        raise BadInput(
            f"distribution {name!r} needs at least {CHUNKS - 1} training images of each label, label {fewest} has "
            f"{counts[fewest]} among the {len(dataset.train_y)} images of {dataset.name}: use more images"
        )


# --- Weight Erosion ---------------------------------------------------------------------------------------------------

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
    """Weight Erosion's AGE_STRICT and AGE_SOME: a table's rows by the bin of a column, unknown values last.

    Client i holds the i-th group of `groups.by_bins`, with the bins and (`mixed`) the first two of them joined and halved.
    `alice` is tested on the first 1 + n // 2 of her rows and trains on the rest; the others train on all of theirs and have
    no test set.  With `alice` None every client's rows are halved.  Seed 278 makes the authors' splits, whatever `seed`.

    Raises `BadInput` for a data set without that column, another number of clients, or a client whose half would be empty.
    """
    if column not in dataset.columns:
        raise BadInput(
            f"distribution {name!r} splits a table by {column}, which dataset {dataset.name!r} lacks: "
            "choose another dataset or distribution"
        )
    if clients != agents:
        raise BadInput(f"clients {clients!r}: distribution {name!r} makes {agents}; give clients={agents}")
    check_alice(alice, agents)
    rows = groups.by_bins(dataset.columns[column].numpy(), bins, SHUFFLE, mixed)
    train, test = groups.hold_out(rows, alice)
    return Partition(name, *(tuple(torch.tensor(part, dtype=torch.int64) for part in split) for split in (train, test)))


AGES = {"column": "age", "bins": (20, 35), "agents": 4}
RADII = {"column": "mean radius", "bins": (12, 13.5, 16), "agents": 4}


def _by_column(title: str, of: dict, mixed: bool = False) -> Recipe:
    return Recipe(title, 1, functools.partial(by_column, mixed=mixed, **of), agents=of["agents"], personal=True)


EVEN = (10,) * 10
FOUR_LABELS = (25, 25, 25, 25, 0, 0, 0, 0, 0, 0)
ONE_MAIN_LABEL = (0, 0, 0, 10, 20, 40, 20, 10, 0, 0)

PARTITIONS: dict[str, Recipe] = {
    "A": Recipe("every label evenly (IID)", 1, functools.partial(label_skew, percent=EVEN)),
    "B": Recipe("four labels each", 1, functools.partial(label_skew, percent=FOUR_LABELS)),
    "C": Recipe("one main label and its neighbours", 1, functools.partial(label_skew, percent=ONE_MAIN_LABEL)),
    "A*": Recipe(
        "A, with labels swapped at every agent but agent 0 (the paper's Alice)",
        1,
        functools.partial(concept_shift, percent=EVEN),
        seeded=True,
    ),
    "B*": Recipe(
        "B, with labels swapped at every agent but agent 0 (the paper's Alice)",
        1,
        functools.partial(concept_shift, percent=FOUR_LABELS),
        seeded=True,
    ),
    "age_strict": _by_column("up to 20, 21 to 35, 36 and older, age unknown", AGES),
    "age_some": _by_column("two random halves of those up to 35, 36 and older, age unknown", AGES, mixed=True),
    "radius_strict": _by_column("mean radius up to 12, 13.5, 16, and larger", RADII),
    "radius_some": _by_column("two random halves of those up to 13.5, up to 16, and larger", RADII, mixed=True),
}
