"""The clients' data as the engine reads it: pools of examples, each client's places and labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from pfl_lib.data.source import Dataset
from pfl_lib.engine import Pool
from pfl_lib.errors import BadInput
from pfl_lib.partitions.base import Partition

EXACT = 2**24  # up to which float32 has every whole number
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


@dataclass(frozen=True, eq=False)
class Split:
    """One split: client i's examples are pool.x[index[i]], under its own labels, labels[i]."""

    pool: Pool
    index: tuple[Tensor, ...]
    labels: tuple[Tensor, ...]

    def to(self, device: torch.device, dtype: torch.dtype) -> "Split":
        """The split on a device, inputs of this dtype; BadInput where it rounds whole numbers."""
        x = self.pool.x
        if dtype == torch.float32:
            _check_exact(x, "number them from 0, or give dtype=torch.float64")
        if x.dtype == torch.float64 and dtype == torch.float32 and x.float().isinf().any():
            told = f"inputs hold {x.abs().max().item():g}, which is infinite in single precision"
            raise BadInput(f"{told}: mend them, or give dtype=torch.float64")
        index, labels = (tuple(t.to(device) for t in of) for of in (self.index, self.labels))
        return Split(self.pool.to(device, dtype), index, labels)

    def __repr__(self) -> str:
        return f"<Split: {len(self.index)} clients, {sum(map(len, self.index)):,} examples>"


@dataclass(frozen=True, eq=False)
class Clients:
    """What N clients hold: splits "train", "test" and, where there is one, "validation"; and their
    names, where they have any.  Of a CSV file also its classes' names, and `prepare`, which makes
    inputs of another file (or a frame) with the same columns.
    """

    splits: dict[str, Split]
    classes: int
    input_shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    prepare: Callable[..., Tensor] | None = None

    def __len__(self) -> int:
        return len(self.splits["train"].index)

    def __repr__(self) -> str:
        splits = self.splits.items()
        sizes = ", ".join(f"{name} {sum(map(len, split.index)):,}" for name, split in splits)
        return f"<Clients: {len(self)}, {self.classes} classes, inputs {self.input_shape}, {sizes}>"


def from_partition(dataset: Dataset, partition: Partition) -> Clients:
    """The clients of a data set under a partition; only labels, and pooled examples, are copied."""
    dataset = partition.of(dataset)
    images = not dataset.train_x.dtype.is_floating_point
    mean, std = (torch.tensor(of, dtype=torch.float64) for of in (dataset.mean, dataset.std))
    # Per channel over [channels, height, width], per feature over [features].
    broadcast = (-1, *(1,) * (len(dataset.input_shape) - 1))
    scale = (1 / (255 * std) if images else 1 / std).reshape(broadcast)
    shift = (-mean / std).reshape(broadcast)

    def split(x: Tensor, y: Tensor, indices: Sequence[Tensor]) -> Split:
        labels = tuple(partition.own_labels(i, y[index]) for i, index in enumerate(indices))
        return Split(Pool(x, scale, shift), tuple(indices), labels)

    splits = {
        "train": split(dataset.train_x, dataset.train_y, partition.train),
        "test": split(dataset.test_x, dataset.test_y, partition.test),
    }
    if partition.validation:
        splits["validation"] = split(dataset.train_x, dataset.train_y, partition.validation)
    return Clients(splits, dataset.classes, dataset.input_shape)


def from_arrays(
    train: Sequence[tuple],
    test: Sequence[tuple],
    validation: Sequence[tuple] = (),
    classes: int | None = None,
    names: Sequence[str] = (),
) -> Clients:
    """Clients of a user's own: for each client a pair (x [n, ...], y [n]) of arrays or tensors,
    inputs as the network takes them, and a name, where they have any.

    Labels are whole numbers from 0; `classes` defaults to the largest label plus one.  A client
    may have no test examples, ([], []), where another one is the federation's `alice`.  Raises
    BadInput for clients without other examples, shapes or lengths that differ, inputs that are not
    finite, labels that are no whole numbers or out of range, and names that are not one a client.
    """
    given = {"train": train, "test": test, "validation": validation}
    for name, pairs in given.items():
        if not isinstance(pairs, list | tuple):
            wanted = "give a list with a pair (inputs, labels) for each client"
            raise BadInput(f"{name} is {type(pairs).__name__}: {wanted}")
    if not len(train) == len(test) == (len(validation) or len(train)) or not len(train):
        held = f"{len(train)}, {len(test)} and {len(validation)} clients"
        raise BadInput(f"train, test and validation hold {held}: give each client one pair")
    texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not texts or len(names) not in (0, len(train)) or len({*names}) < len(names):
        raise BadInput(f"names {names!r}: give each of {len(train)} clients a text of its own")
    tensors = {
        name: [_pair(name, i, pair) for i, pair in enumerate(pairs)]
        for name, pairs in given.items()
        if len(pairs)
    }
    frames = (
        pair[0]
        for pairs in given.values()
        for pair in pairs
        if hasattr(pair[0], "columns") and len(pair[0])
    )
    columns = list(dict.fromkeys(tuple(map(str, frame.columns)) for frame in frames))
    if len(columns) > 1:
        told = f"inputs have columns {', '.join(columns[0])} and {', '.join(columns[1])}"
        raise BadInput(f"{told}: give all frames the same, in one order")
    inputs = [x for pairs in tensors.values() for x, _ in pairs if len(x)]
    shapes = {tuple(x.shape[1:]) for x in inputs}
    if len(shapes) > 1:
        found = ", ".join(map(str, sorted(shapes)))
        raise BadInput(f"examples have shapes {found}: all clients need the same")
    types = {x.dtype for x in inputs}
    if len(types) > 1 and any(one.is_floating_point for one in types):
        for x in inputs:
            _check_exact(x, "number them from 0, or give all clients inputs of one type")
        tensors = {n: [(x.double(), y) for x, y in pairs] for n, pairs in tensors.items()}
    labels = torch.cat([y for pairs in tensors.values() for _, y in pairs])
    low, high = int(labels.min()), int(labels.max())
    classes = high + 1 if classes is None else classes
    if low < 0 or high >= classes:
        raise BadInput(f"labels run from {low} to {high}: allowed are 0 to {classes - 1}")
    splits = {}
    for name, pairs in tensors.items():
        counts = [len(y) for _, y in pairs]
        index = tuple(part.clone() for part in torch.arange(sum(counts)).split(counts))
        x = [x for x, _ in pairs if len(x)] or [inputs[0][:0]]
        pool = Pool(torch.cat(x), torch.ones(1), torch.zeros(1))
        splits[name] = Split(pool, index, tuple(y for _, y in pairs))
    return Clients(splits, classes, shapes.pop(), tuple(names))


def _check_exact(x: Tensor, cure: str) -> None:
    """BadInput for whole numbers that single precision rounds."""
    if not x.is_floating_point() and x.element_size() > 2 and len(x):
        largest = max(int(x.long().max()), -int(x.long().min()))
        if largest > EXACT:
            rounded = f"whole numbers above {EXACT:,} are rounded in single precision"
            raise BadInput(f"inputs hold {largest}: {rounded}: {cure}")


def _pair(split: str, client: int, pair: tuple) -> tuple[Tensor, Tensor]:
    where = f"client {client}'s {split} split"
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        a_set = isinstance(pair, TorchDataset)
        cure = ", as torch.utils.data.default_collate([*dataset]) has them" * a_set
        raise BadInput(f"{where} is no pair: give (inputs, labels){cure}")
    if any(np.ma.isMaskedArray(part) for part in pair):
        raise BadInput(f"{where} is a masked array: fill or drop what is masked")
    try:
        # pandas' and others' frames and columns
        plain = (one.to_numpy(copy=True) if hasattr(one, "to_numpy") else one for one in pair)
        x, y = (torch.as_tensor(one).detach() for one in plain)
    except (TypeError, ValueError, RuntimeError) as error:
        labels = pair[1]
        of_several = hasattr(labels, "to_numpy") or isinstance(labels, list | tuple | np.ndarray)
        if of_several and isinstance([*np.asarray(labels, object).ravel(), 0][0], str):
            cure = "number the classes from 0, for all clients alike"
            raise BadInput(f"{where} has texts as labels: {cure}") from None
        why = str(error).partition("\n")[0]
        raise BadInput(f"{where} is no pair of numbers (inputs, labels): {why}") from None
    # Of unsigned numbers wider than a byte torch computes nothing
    if any(one.dtype == torch.uint64 and (one.view(torch.int64) < 0).any() for one in (x, y)):
        raise BadInput(f"{where} has whole numbers of 2**63 or more: number them from 0")
    x, y = (one.long() if one.dtype in UNSIGNED else one for one in (x, y))
    if any(part.layout != torch.strided or part.is_meta or part.is_complex() for part in (x, y)):
        raise BadInput(f"{where} has sparse, meta or complex tensors: give plain real numbers")
    if not (x.dim() and y.dim()):
        raise BadInput(f"{where} has a single number for inputs or labels: give one an example")
    if len(x) != len(y) or (not len(x) and split != "test"):
        counts = f"{len(x)} inputs and {len(y)} labels"
        raise BadInput(f"{where} has {counts}: give as many of each, at least one")
    if y.dim() != 1:
        cure = "give a class for each example, such as y[:, 0], or y.argmax(1) of one-hot rows"
        cure += " (several classes of one example are not offered)"
        raise BadInput(f"{where} has labels of shape {list(y.shape)}: {cure}")
    if not torch.equal(y, y.long().to(y.dtype)):
        told = f"{where} has labels that are no whole numbers from 0"
        raise BadInput(f"{told}: number the classes (measured targets are not offered)")
    if x.is_floating_point() and not x.isfinite().all():
        what = "inputs that are infinite or not a number"
        raise BadInput(f"{where} has {what}: fill or drop them")
    return x, y.long().clone()  # the inputs are copied when all clients' are joined
