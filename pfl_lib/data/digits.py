"""scikit-learn's digits in MNIST's format: the quick profile's images, which need no download."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfl_lib.errors import BadInput

FINGERPRINT = "bb9f5f473e46f85a"


def read(root: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """scikit-learn's 1,797 digits, 8x8 values 0..16, enlarged to 28x28 bytes: the papers' networks
    apply unchanged.

    The split is fixed: of each label, the 20 % (rounded) that come first in one fixed permutation
    are test images; both parts keep scikit-learn's order.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput(
            "dataset 'digits' comes with scikit-learn, which is missing: pip install scikit-learn"
        ) from None
    bunch = load_digits()
    x, y = (
        torch.from_numpy(_enlarge(bunch.images.astype(np.int64))).unsqueeze(1),
        torch.from_numpy(bunch.target).long(),
    )
    # RandomState's streams are frozen by numpy's policy, so the split outlives every version.
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(y)))
    test = torch.zeros(len(y), dtype=torch.bool)
    for label in range(10):
        of_label = order[y[order] == label]
        test[of_label[: round(0.2 * len(of_label))]] = True
    arrays = x[~test], y[~test], x[test], y[test]
    found = _fingerprint(arrays)
    if found != FINGERPRINT:
        raise BadInput(
            f"dataset 'digits' of this scikit-learn has fingerprint {found}, expected"
            f" {FINGERPRINT}: install the scikit-learn version of constraints.txt"
        )
    return arrays


def _enlarge(pictures: np.ndarray) -> np.ndarray:
    """Bilinear interpolation of [n, 8, 8] values 0..16 to [n, 28, 28] bytes, in integers: the same
    everywhere.
    """
    # Pixel centre i of 28 lies at (4 i - 5) / 14 of the 8; weights are counted in fourteenths,
    # edges are repeated.
    position = np.clip(4 * np.arange(28) - 5, 0, 7 * 14)
    left = np.minimum(position // 14, 6)
    weights = np.zeros((28, 8), dtype=np.int64)
    weights[np.arange(28), left] = 14 - (position - 14 * left)
    weights[np.arange(28), left + 1] = position - 14 * left
    scale = 14 * 14 * 16
    return ((weights @ pictures @ weights.T * 255 + scale // 2) // scale).astype(np.uint8)


def _fingerprint(arrays: tuple[Tensor, ...]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.numpy().astype("<i8").tobytes())
    return digest.hexdigest()[:16]
