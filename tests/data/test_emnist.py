"""EMNIST, from an archive that is built like the real one."""

import dataclasses
import gzip
import hashlib
import struct
import zipfile
from pathlib import Path

import pytest
import torch

from pfl_lib import data
from pfl_lib.data import emnist, torchvision_fix
from tests.common import refused


def packed(array: torch.Tensor) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return gzip.compress(header + array.to(torch.uint8).numpy().tobytes())


def write_archive(root: Path) -> str:
    """Six training and four test pictures of each split; returns the archive's MD5."""
    path = root / emnist.FOLDER / emnist.ARCHIVE
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for split, first in (("digits", 0), ("letters", 1)):
            for part, size in (("train", 6), ("test", 4)):
                pictures = torch.arange(size).view(size, 1, 1) * 10 + torch.arange(28)
                prefix = f"gzip/emnist-{split}-{part}"
                images, labels = pictures.expand(size, 28, 28), torch.arange(size) + first
                archive.writestr(f"{prefix}-images-idx3-ubyte.gz", packed(images))
                archive.writestr(f"{prefix}-labels-idx1-ubyte.gz", packed(labels))
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """A root with a tiny archive whose MD5 stands in the table, in place of the real one."""
    md5 = write_archive(tmp_path)
    for name in ("emnist_digits", "emnist_letters"):
        source = dataclasses.replace(data.DATASETS[name], files={emnist.ARCHIVE: md5})
        monkeypatch.setitem(data.DATASETS, name, source)
    return tmp_path


@pytest.mark.parametrize(("name", "classes"), [("emnist_digits", 10), ("emnist_letters", 26)])
def test_both_pools_are_read_and_labels_count_from_0(tiny, name, classes):
    found = data.load(name, tiny)
    assert found.train_x.shape == (6, 1, 28, 28) and found.test_x.shape == (4, 1, 28, 28)
    assert found.train_x.dtype == torch.uint8 and found.train_y.dtype == torch.int64
    assert found.train_x[3, 0, 5].tolist() == [30 + column for column in range(28)]
    assert found.train_y.tolist() == [0, 1, 2, 3, 4, 5] and found.test_y.tolist() == [0, 1, 2, 3]
    assert found.classes == classes


def test_without_the_archive_it_says_what_is_missing_in_one_line(tmp_path):
    refused("^emnist_digits: gzip.zip missing in .*/raw", data.load, "emnist_digits", tmp_path)


def test_another_archive_is_refused(tmp_path):
    write_archive(tmp_path)
    refused(f"damaged or altered.*expected {emnist.MD5}", data.load, "emnist_letters", tmp_path)


def test_the_archives_md5_is_the_one_that_torchvision_checks():
    assert torchvision_fix.import_torchvision().datasets.EMNIST.md5 == emnist.MD5
