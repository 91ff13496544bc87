"""Data sets that come with scikit-learn: digits in MNIST's format, and tumours as a table.

Both are checked by content, so that a result's key says what it was computed from.
"""

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pfl_lib.data.source import Arrays
from pfl_lib.errors import BadInput, needs

DIGITS_FINGERPRINT = "bb9f5f473e46f85a"
CANCER_FINGERPRINT = "8bf2ce2ae2ae9816"
MEASUREMENTS = (
    "radius, texture, perimeter, area, smoothness, compactness, concavity, concave points,"
    " symmetry, fractal dimension"
)
CANCER_INPUTS = tuple(MEASUREMENTS.split(", "))


def read_digits(root: Path) -> Arrays:
    """scikit-learn's 1,797 digits, 8x8 values 0..16, enlarged to the 28x28 bytes of MNIST.

    The split is fixed: of each label, the 20 % (rounded) that come first in one fixed permutation
    are test images; both parts keep scikit-learn's order.
    """
    bunch = _loaded("digits", "load_digits")
    x = _enlarge(bunch.images)
    y = torch.from_numpy(bunch.target).long()
    # RandomState's streams are frozen by numpy's policy, so the split outlives every version.
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(y)))
    test = torch.zeros(len(y), dtype=torch.bool)
    for label in range(10):
        of_label = order[y[order] == label]
        test[of_label[: round(0.2 * len(of_label))]] = True
    arrays = x[~test], y[~test], x[test], y[test]
    _check_content("digits", DIGITS_FINGERPRINT, *(array.numpy() for array in arrays))
    return arrays


def read_cancer(root: Path) -> Arrays:
    """scikit-learn's 569 tumours: ten "mean" measurements, standardised, [569, 10]; 1: malignant.

    Both pools hold all tumours; which of them test is the partition's choice, as with the Titanic.
    """
    measured, malignant = _cancer()
    standardised = (measured - measured.mean(0)) / measured.std(0, ddof=1)
    inputs, labels = torch.from_numpy(standardised.astype(np.float32)), torch.from_numpy(malignant)
    return inputs, labels, inputs, labels


def cancer_radius(root: Path) -> dict[str, Tensor]:
    """The column that splits the tumours: {"mean radius": float64 [569]}."""
    return {"mean radius": torch.tensor(_cancer()[0][:, 0])}


@functools.cache
def _cancer() -> tuple[np.ndarray, np.ndarray]:
    bunch = _loaded("breast_cancer", "load_breast_cancer")
    measured, malignant = bunch.data[:, : len(CANCER_INPUTS)], 1 - bunch.target.astype(np.int64)
    exact = np.column_stack([(measured * 1_000_000).round(), malignant])
    _check_content("breast_cancer", CANCER_FINGERPRINT, exact)
    return measured, malignant


def _loaded(name: str, loader: str) -> Any:
    with needs(f"dataset {name!r} comes with scikit-learn", "scikit-learn"):
        import sklearn.datasets
    return getattr(sklearn.datasets, loader)()


def _check_content(name: str, expected: str, *arrays: np.ndarray) -> None:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.astype("<i8").tobytes())
    if (found := digest.hexdigest()[:16]) != expected:
        why = f"dataset {name!r} of this scikit-learn has fingerprint {found}, expected {expected}"
        raise BadInput(f"{why}: install the scikit-learn version of constraints.txt")


def _enlarge(pictures: np.ndarray) -> Tensor:
    """Bilinear interpolation of [n, 8, 8] values 0..16 to [n, 1, 28, 28] bytes."""
    x = F.interpolate(torch.from_numpy(pictures)[:, None], size=28, mode="bilinear")
    # Halves are rounded up; a billionth decides them, everywhere, and no other value is so near.
    return (x * (255 / 16) + (0.5 + 1e-9)).floor().to(torch.uint8)
