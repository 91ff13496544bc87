"""Data sets without pictures, for recipes that look at labels alone."""

from collections.abc import Callable

import pytest
import torch

from pfl_lib import data


@pytest.fixture(scope="session")
def labelled() -> Callable[..., data.Dataset]:
    """`labelled(train, test)`: a data set with so many examples of each label, mixed."""

    def pool(counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(5))]
        return torch.zeros(len(y), 1, 1, 1, dtype=torch.uint8), y

    def make(train: list[int], test: list[int], classes: int = 10) -> data.Dataset:
        return data.Dataset("made", *pool(train), *pool(test), classes, (0.5,), (0.5,), "none")

    return make


@pytest.fixture(scope="session")
def digits() -> data.Dataset:
    return data.load("digits")


@pytest.fixture(scope="session")
def cifar10(labelled) -> data.Dataset:
    """As many examples of each label as CIFAR-10 has: all that a recipe sees of it."""
    return labelled([5000] * 10, [1000] * 10)


@pytest.fixture(scope="session")
def cifar100(labelled) -> data.Dataset:
    return labelled([500] * 100, [100] * 100, classes=100)
