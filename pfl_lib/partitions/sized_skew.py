"""WAFFLE's label distributions over clients of different sizes: the size-penalty study."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, choose, whole
from pfl_lib.partitions.base import Partition, called
from pfl_lib.partitions.label_skew import EVEN, FOUR_LABELS, ONE_MAIN_LABEL, TITLES

PERCENT = {"A": EVEN, "B": FOUR_LABELS, "C": ONE_MAIN_LABEL}


@dataclass(frozen=True)
class SizedSkew:
    """Labels as in `LabelSkew`'s A, B or C, sizes in proportion to `sizes`: client i has
    `sizes[i % len(sizes)]` parts; by default those of the appendix's size distribution B.

    Client i of size s wants `percent[(l + i) % 10] * s` parts of label l.  The label that is wanted
    most is dealt out whole; a part of any other label has the same share of its images, and what
    is left over is nobody's.  Images go to the clients in the data set's order.  Test sets are
    those of `LabelSkew`, whatever the size.  Nothing is drawn.

    Recipe of the authors' code (MartinBeaussart/Weight_Erosion_ML, branch Martin,
    `get_distributions_non_iid_different_sizes`), which deals chunks of one percent and gives a
    chunk on the border of two clients to both.  Here borders are single images, and no image is
    given twice.
    """

    name: ClassVar[str] = "sized_skew"
    version: ClassVar[int] = 1
    default_clients: ClassVar[int] = 20
    seeded: ClassVar[bool] = False
    personal: ClassVar[bool] = False

    distribution: str = "B"
    sizes: tuple[int, ...] = (21, 6, 11, 6, 11, 6, 16, 6, 11, 6)

    def __post_init__(self) -> None:
        choose("distribution", self.distribution, PERCENT)
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise BadInput(f"sizes {self.sizes!r}: give a tuple of whole numbers, such as (3, 1)")
        for size in self.sizes:
            whole("size", size, 1)

    @property
    def title(self) -> str:
        return f"{TITLES[self.distribution]}, sizes {':'.join(map(str, self.sizes))}"

    def split(self, dataset: Dataset, clients: int, seed: int, alice: int | None) -> Partition:
        """Raises `BadInput` unless there are 10 classes, and training and test images for every
        client.
        """
        whole("clients", clients, 1)
        percent = PERCENT[self.distribution]
        classes = len(percent)
        if dataset.classes != classes:
            raise BadInput(
                f"distribution {self.distribution!r} is made for {classes} classes, dataset"
                f" {dataset.name!r} has {dataset.classes}: choose another dataset"
            )
        shares = [
            [percent[(label + i) % classes] for label in range(classes)] for i in range(clients)
        ]
        wanted = [
            [share * self.sizes[i % len(self.sizes)] for share in row]
            for i, row in enumerate(shares)
        ]
        most = max(map(sum, zip(*wanted, strict=True)))
        train: list[list] = [[] for _ in range(clients)]
        test: list[list] = [[] for _ in range(clients)]
        for label in range(classes):
            images = torch.nonzero(dataset.train_y == label).flatten()
            tested = torch.nonzero(dataset.test_y == label).flatten()
            dealt = 0
            for i in range(clients):
                start, dealt = dealt, dealt + wanted[i][label]
                first, end = (len(images) * parts // most for parts in (start, dealt))
                train[i].append(images[first:end])
                test[i].append(tested[: shares[i][label] * len(tested) // 100])
        held = Partition(called(self), tuple(map(torch.cat, train)), tuple(map(torch.cat, test)))
        for what, parts in (("training", held.train), ("test", held.test)):
            if empty := [i for i, part in enumerate(parts) if not len(part)]:
                raise BadInput(
                    f"sizes {self.sizes}: client {empty[0]} of {clients} is left without {what}"
                    f" images of {dataset.name}: give fewer clients, more images or sizes that"
                    " differ less"
                )
        return held
