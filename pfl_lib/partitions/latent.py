"""Latent groups: clients share groups of pictures that a network finds alike (FedFomo, A.5)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import LongTensor, Tensor

from pfl_lib.data import DATASETS
from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_settings, flag, setting, whole
from pfl_lib.partitions.base import Partition, called, of_each_class
from pfl_lib.partitions.embedding import Embedding
from pfl_lib.randomness import number, permutation

COMPONENTS, KMEANS_STEPS, KMEANS_STARTS = 256, 100, 5
LABELS = "latent_labels"
MADE_ANEW = {"digits": 2, "cifar10": 2, "cifar100": 2}
"""Versions of published groups.  In keys of digits it is there whatever the number of groups."""


@dataclass(frozen=True)
class Latent:
    """FedFomo's latent distributions: the examples are clustered into `groups`, training and test
    pool together, and the clients of a group share its examples of each pool evenly.

    With as many groups as classes the classes are the groups, as in the authors' code (NVlabs/
    FedFomo, latent_dist.py).  Else the groups are those of `published`: the package's own
    clustering, made once by `make_labels`, on CIFAR of what a network trained on ImageNet sees
    (docs/imagenet_groups.py), on digits of what `small_cnn` does in twenty epochs.

    `by_labels`, on CIFAR: groups of a network trained on the data set itself, as in the paper, of
    the second fully connected layer of `small_cnn` after eight epochs, in single precision; its
    accuracy is 84.5 % on CIFAR-10 and 57.5 % on CIFAR-100.

    Clients of one group stand together (see `group_of`); a group's examples are shuffled by (seed,
    "latent", group, pool).  With `shuffled_targets` a client is validated and tested on the data
    that one permutation, drawn by (seed, "latent targets"), gives it, for some their own: the
    paper's out-of-local-distribution setting (section 4).
    """

    name, version, default_clients = "latent", 1, 15
    later = ("by_labels",)
    __post_init__ = check_settings

    groups: int = setting(5, whole, 1)
    shuffled_targets: bool = setting(False, flag)
    by_labels: bool = setting(False, flag)

    def versions(self, dataset: str) -> dict[str, int]:
        """The version of a data set's published groups, which `version` would raise for all; 1
        where the groups are its classes, which are never made anew.
        """
        if self.by_labels:
            return {f"groups of {dataset} by labels": 1}
        classes = dataset != "digits" and self.groups == DATASETS[dataset].classes
        return {f"groups of {dataset}": 1 if classes else MADE_ANEW.get(dataset, 1)}

    @property
    def title(self) -> str:
        tested = ", tested on another client's" if self.shuffled_targets else ""
        made = ", of a network trained on the labels" if self.by_labels else ""
        return f"{self.groups} groups of like examples{made}{tested}"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """Raises `BadInput` where no groups are known, a group would have no client, or a client
        no examples; for one client with other targets.
        """
        if self.shuffled_targets and clients == 1:
            why = "there is no other client whose data could be its target"
            raise BadInput(f"shuffled_targets with one client: {why}; give two clients or more")
        train, test = groups_of(dataset, self.groups, self.by_labels)
        made = share_groups(called(self), train, test, self.groups, clients, seed)
        if not self.shuffled_targets:
            return made
        order = targets(clients, seed)
        moved = tuple(made.test[target] for target in order)
        return Partition(made.name, made.train, moved, targets=tuple(order))


def share_groups(
    name: str, train: Tensor, test: Tensor, groups: int, clients: int, seed: int
) -> Partition:
    """A partition from each example's group, int64 [n]: from one's own groups to a recipe."""
    owner = group_of(clients, groups)
    held = []
    for pool, (kind, labels) in enumerate((("training", train), ("test", test))):
        parts: dict[int, LongTensor] = {}
        for group, found in enumerate(of_each_class(labels, groups)):
            members = [client for client in range(clients) if owner[client] == group]
            if len(found) < len(members):
                why = f"group {group} has {len(found)} {kind} examples for {len(members)} clients"
                raise BadInput(f"distribution {name}: {why}: give fewer clients, or more images")
            found = found[permutation(len(found), seed, "latent", group, pool)]
            parts |= zip(members, found.tensor_split(len(members)), strict=True)
        held.append(tuple(parts[client] for client in range(clients)))
    return Partition(name, *held)


def group_of(clients: int, groups: int) -> list[int]:
    """The group of each client: as many clients of each group, in blocks; of those left over one
    for each of the first groups (NVlabs/FedFomo, latent_dist.py).
    """
    whole("clients", clients, 1)
    if clients < groups:
        why = f"clients {clients} leave {groups - clients} of {groups} groups without a client"
        raise BadInput(f"{why}: give {groups} clients or more")
    block = clients // groups
    return [i // block if i < groups * block else i % groups for i in range(clients)]


def targets(clients: int, seed: int) -> list[int]:
    """On whose data each client is tested where targets are shuffled; some stay at their own."""
    return permutation(clients, seed, "latent targets").tolist()


def groups_of(dataset: Dataset, groups: int, by_labels: bool = False) -> tuple[Tensor, Tensor]:
    """The group of each training and of each test example of a data set, int64 [n] each."""
    if groups == dataset.classes:
        if by_labels:
            raise BadInput(f"by_labels: {groups} groups of {dataset.name!r} are its classes")
        return dataset.train_y, dataset.test_y
    labels, settings = published(dataset.name, groups, by_labels)
    if settings["fingerprint"] != dataset.fingerprint:
        raise BadInput(
            f"the published groups of {dataset.name!r} belong to other content, fingerprint"
            f" {settings['fingerprint']}: make groups of your own with latent.make_labels"
        )
    labels = torch.from_numpy(labels.astype(np.int64))
    first_test = len(labels) - len(dataset.test_y)  # the training pool may be cut short
    return labels[: len(dataset.train_y)], labels[first_test:]


def published(
    dataset: str, groups: int, by_labels: bool = False
) -> tuple[np.ndarray, dict[str, Any]]:
    """The package's groups, uint8 [n], training examples first; and how they were made."""
    folder, labels = files("pfl_lib.partitions") / LABELS, "-labels" if by_labels else ""
    path = folder / f"{dataset}{labels}-D{groups}.npz"
    if not path.is_file():
        there = sorted(path.name.removesuffix(".npz") for path in folder.iterdir())
        raise BadInput(
            f"groups {groups} of dataset {dataset!r}{' by labels' if by_labels else ''} do not come"
            f" with the package, which has {', '.join(there)} (dataset-Dgroups) and the classes of"
            " every data set; make your own with pfl_lib.partitions.latent.make_labels"
        )
    with path.open("rb") as file, np.load(file) as stored:
        return stored["labels"], json.loads(str(stored["settings"]))


def make_labels(
    dataset: Dataset, groups: Sequence[int], folder: Path, embedding: Embedding, seed: int = 0
) -> list[Path]:
    """Cluster a data set into numbers of groups; write each as `<folder>/<data set>-D<groups>.npz`.

    The `embedding`, such as `small_cnn`'s or that of the paper's network, is reduced to 256
    principal components and clustered by K-means (k-means++, 5 starts of at most 100 steps).  A
    file holds `labels` uint8 [n], training examples first, and `settings`, JSON.

    To use groups of one's own, give `share_groups` their labels in a recipe of one's own.  To
    publish them, replace files of `latent_labels` and raise the data set's number in `MADE_ANEW`.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    for wanted in groups:
        whole("groups", wanted, 1, 256)  # labels are bytes
    random = number(seed, "latent groups") % 2**32
    components = min(COMPONENTS, *embedding.vectors.shape)
    reduced = PCA(components, random_state=random).fit_transform(embedding.vectors.float().numpy())
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for wanted in groups:
        kmeans = KMeans(wanted, n_init=KMEANS_STARTS, max_iter=KMEANS_STEPS, random_state=random)
        found = kmeans.fit_predict(reduced).astype(np.uint8)
        settings = {
            "dataset": dataset.name,
            "fingerprint": dataset.fingerprint,
            "groups": wanted,
            "embedding": embedding.made_by,
            "accuracy": round(embedding.accuracy, 4),
            "components": components,
            "kmeans": f"k-means++, {KMEANS_STARTS} starts of at most {KMEANS_STEPS} steps",
            "seed": seed,
        }
        paths.append(folder / f"{dataset.name}-D{wanted}.npz")
        np.savez_compressed(paths[-1], labels=found, settings=json.dumps(settings))
    return paths
