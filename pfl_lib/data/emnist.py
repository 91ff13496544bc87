"""EMNIST's handwritten digits and letters, read from the one archive that they come in."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfl_lib.data import torchvision_fix
from pfl_lib.data.source import Arrays

FOLDER, ARCHIVE = "EMNIST/raw", "gzip.zip"
MD5 = "58c8d27c78d21e728a6bc7b3cc06412e"  # torchvision checks it too
FIRST_LABEL = {"digits": 0, "letters": 1}


def read(root: Path, split: str) -> Arrays:
    """A split, "digits" or "letters", from `<root>/EMNIST/raw/gzip.zip`; labels count from 0.

    Pictures lie on their side, as in the archive and as torchvision gives them.
    """
    with zipfile.ZipFile(root / FOLDER / ARCHIVE) as archive:
        arrays = []
        for part in ("train", "test"):
            prefix = f"gzip/emnist-{split}-{part}"
            labels = _idx(archive, f"{prefix}-labels-idx1-ubyte.gz").long() - FIRST_LABEL[split]
            arrays += [_idx(archive, f"{prefix}-images-idx3-ubyte.gz").unsqueeze(1), labels]
    return tuple(arrays)


def download(root: Path) -> None:
    """Let torchvision write the archive to `<root>/EMNIST/raw`, and its contents beside it."""
    datasets = torchvision_fix.import_torchvision().datasets
    datasets.EMNIST(str(root), split="digits", train=True, download=True)


def _idx(archive: zipfile.ZipFile, member: str) -> Tensor:
    """A packed IDX file: four bytes, the last the number of dimensions; their sizes; bytes."""
    raw = gzip.decompress(archive.read(member))
    dimensions = raw[3]
    shape = np.frombuffer(raw, ">i4", dimensions, offset=4).tolist()
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions)
    return torch.from_numpy(values.reshape(shape).copy())
