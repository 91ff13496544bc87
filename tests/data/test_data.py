"""Data sets: what is read, what is refused, and in which words."""

import dataclasses
import hashlib
import os
import struct
import types
from pathlib import Path

import pytest
import torch

from pfl_lib import data
from pfl_lib.data import torchvision_fix
from tests.common import refusal, refused

PARTS = ("images-idx3", "labels-idx1")
MNIST_FILES = [f"{split}-{part}-ubyte" for split in ("train", "t10k") for part in PARTS]


def write_idx(path: Path, array: torch.Tensor) -> None:
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    path.write_bytes(header + array.to(torch.uint8).numpy().tobytes())


def write_tiny_mnist(root: Path) -> dict[str, str]:
    """Six training and four test pictures of 28x28 in MNIST's layout; returns each file's MD5."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for split, size in (("train", 6), ("t10k", 4)):
        pictures = torch.arange(size).view(size, 1, 1) * 10 + torch.arange(28)
        write_idx(folder / f"{split}-images-idx3-ubyte", pictures.expand(size, 28, 28))
        write_idx(folder / f"{split}-labels-idx1-ubyte", torch.arange(size) % 10)
    return {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch) -> Path:
    """A root with a tiny MNIST whose MD5s stand in the table, in place of the real ones."""
    found = write_tiny_mnist(tmp_path)
    files = {name: found[name] for name in data.DATASETS["mnist"].files}
    tiny = dataclasses.replace(data.DATASETS["mnist"], files=files)
    monkeypatch.setitem(data.DATASETS, "mnist", tiny)
    return tmp_path


def install_torchvision(monkeypatch, **datasets) -> None:
    stub = types.SimpleNamespace(datasets=types.SimpleNamespace(**datasets))
    monkeypatch.setattr(torchvision_fix, "import_torchvision", lambda: stub)


def test_idx_files_become_uint8_pictures_with_one_channel_and_int64_labels(tiny_mnist):
    mnist = data.load("mnist", tiny_mnist)
    assert mnist.train_x.shape == (6, 1, 28, 28) and mnist.test_x.shape == (4, 1, 28, 28)
    assert mnist.train_x.dtype == torch.uint8 and mnist.train_y.dtype == torch.int64
    assert mnist.train_x[3, 0, 5].tolist() == [30 + column for column in range(28)]
    assert mnist.train_y.tolist() == [0, 1, 2, 3, 4, 5] and mnist.test_y.tolist() == [0, 1, 2, 3]
    assert mnist.input_shape == (1, 28, 28) and mnist.classes == 10


def test_colour_pictures_get_their_channels_first(monkeypatch):
    pictures = torch.arange(2 * 32 * 32 * 3).remainder(251).to(torch.uint8).view(2, 32, 32, 3)
    cifar = types.SimpleNamespace(data=pictures.numpy(), targets=[7, 1])
    install_torchvision(monkeypatch, CIFAR10=lambda *args, **kwargs: cifar)
    x, y, _, _ = data.DATASETS["cifar10"].read(Path())
    assert x.shape == (2, 3, 32, 32) and x.is_contiguous()
    assert torch.equal(x[1, 2], pictures[1, :, :, 2])
    assert y.dtype == torch.int64 and y.tolist() == [7, 1]


def test_a_data_set_is_read_once_per_process(tiny_mnist):
    assert data.load("mnist", tiny_mnist) is data.load("mnist", str(tiny_mnist))
    assert data.load("mnist", tiny_mnist, images=2) is data.load("mnist", tiny_mnist, images=2)


def test_images_keeps_the_first_training_images_in_file_order_and_all_test_images(tiny_mnist):
    whole, few = data.load("mnist", tiny_mnist), data.load("mnist", tiny_mnist, images=4)
    assert few.train_y.tolist() == [0, 1, 2, 3]
    assert torch.equal(few.train_x, whole.train_x[:4]) and torch.equal(few.test_x, whole.test_x)
    assert few.train_x.data_ptr() == whole.train_x.data_ptr()
    assert len(data.load("mnist", tiny_mnist, images=6).train_y) == 6


def test_pfl_data_dir_is_the_root_unless_one_is_given(tiny_mnist, monkeypatch, tmp_path):
    monkeypatch.setenv("PFL_DATA_DIR", str(tiny_mnist))
    assert len(data.load("mnist").train_y) == 6
    assert data.data_root() == tiny_mnist
    assert data.data_root(tmp_path / "other") == tmp_path / "other"
    assert data.data_root("~/pictures") == Path.home() / "pictures"


def test_digits_need_no_folder_and_their_split_is_stratified(monkeypatch):
    monkeypatch.setenv("PFL_DATA_DIR", os.path.join(os.sep, "nowhere"))
    digits = data.load("digits")
    assert digits.train_x.shape == (1438, 1, 28, 28) and digits.test_x.shape == (359, 1, 28, 28)
    assert digits.train_x.dtype == torch.uint8 and digits.train_x.max() == 255
    train, test = torch.bincount(digits.train_y), torch.bincount(digits.test_y)
    assert torch.equal(test, (0.2 * (train + test)).round().long())


def test_digits_pictures_are_the_bilinear_enlargement_of_scikit_learns():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    small = torch.from_numpy(bunch.images).unsqueeze(1) * 255 / 16
    expected = torch.nn.functional.interpolate(small, size=28, mode="bilinear")
    digits = data.load("digits")
    found = torch.cat([digits.train_x, digits.test_x])
    labels = torch.cat([digits.train_y, digits.test_y])
    # The split only reorders: sorted by (label, sum of values), pictures must agree up to rounding.
    for label in range(10):
        ours = found[labels == label].double().flatten(1)
        theirs = expected[torch.from_numpy(bunch.target) == label].flatten(1)
        apart = torch.cdist(ours, theirs, p=float("inf"))
        assert apart.amin(1).max() < 0.501 and apart.amin(0).max() < 0.501


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_constants_for_normalising_are_those_of_the_training_images(name, request):
    root = request.getfixturevalue("mnist_dir") if name == "mnist" else None
    dataset = data.load(name, root)
    counts = torch.bincount(dataset.train_x.flatten(), minlength=256).double()
    shares, values = counts / counts.sum(), torch.arange(256) / 255
    mean = (shares * values).sum()
    assert mean.item() == pytest.approx(dataset.mean[0], abs=6e-5)
    std = (shares * (values - mean).square()).sum().sqrt()
    assert std.item() == pytest.approx(dataset.std[0], abs=6e-5)


def test_fingerprints_are_known_without_the_data_differ_and_never_change():
    found = {name: source.fingerprint for name, source in data.DATASETS.items()}
    assert len(set(found.values())) == len(found)
    assert found["mnist"] == "5635b70a7dc2ed0e" and found["digits"] == "bb9f5f473e46f85a"
    assert data.load("digits").fingerprint == found["digits"]


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "mnist", "titanic"])
def test_the_count_of_training_examples_is_the_datas(name, request):
    needs = {"mnist": "mnist_dir", "titanic": "titanic_dir"}
    root = request.getfixturevalue(needs[name]) if name in needs else None
    assert len(data.load(name, root).train_y) == data.DATASETS[name].examples


# What a model is given of each data set beside its files: to be changed together with the version,
# which keys of results hold.
NORMALISED = {
    "mnist": (1, (0.1307,), (0.3081,)),
    "fashion_mnist": (1, (0.2860,), (0.3205,)),
    "cifar10": (1, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": (1, (0.5071, 0.4865, 0.4409), (0.2009, 0.1984, 0.2023)),
    "digits": (1, (0.3058,), (0.3250,)),
    "emnist_digits": (1, (0.1736,), (0.3248,)),
    "emnist_letters": (1, (0.1736,), (0.3248,)),
    "titanic": (1, (0.0,), (1.0,)),
    "titanic_as_run": (1, (0.0,), (1.0,)),
    "breast_cancer": (1, (0.0,), (1.0,)),
}


def test_a_data_set_is_normalised_as_its_version_says():
    assert {name: (s.version, s.mean, s.std) for name, s in data.DATASETS.items()} == NORMALISED


@pytest.mark.parametrize("images", [0, -3, 1439, "12", 1.5, True])
def test_a_number_of_images_that_does_not_fit_is_refused(images):
    sentence = f"images {images!r}: give a whole number"
    if type(images) is int:
        sentence = f"images {images} is not between 1 and 1438, the training images of digits"
    assert refusal(data.load, "digits", images=images) == sentence


def test_missing_files_are_named_with_what_to_do(tiny_mnist, tmp_path):
    empty = tmp_path / "empty"
    told = "mnist: {} missing in {}/MNIST/raw; point data_dir (--data-dir,"
    said = refusal(data.load, "mnist", empty)
    assert said.startswith(told.format(", ".join(MNIST_FILES), empty)) and not empty.exists()
    assert said.endswith("holds MNIST/raw, or give neither to download the data")
    (tiny_mnist / "MNIST" / "raw" / MNIST_FILES[3]).unlink()
    said = refusal(data.load, "mnist", tiny_mnist)
    assert said.startswith(told.format(MNIST_FILES[3], tiny_mnist))


def test_nothing_is_downloaded_into_a_chosen_folder(tmp_path, monkeypatch):
    install_torchvision(monkeypatch, MNIST=lambda *_, **__: pytest.fail("torchvision was asked"))
    monkeypatch.setenv("PFL_DATA_DIR", str(tmp_path / "chosen"))
    assert "missing in" in refusal(data.load, "mnist")


@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_a_damaged_file_is_named_with_both_md5s(tiny_mnist, damage):
    path = tiny_mnist / "MNIST" / "raw" / "train-images-idx3-ubyte"
    intact = path.read_bytes()
    damaged = intact[:1000] if damage == "truncated" else intact[:-1] + bytes([intact[-1] ^ 1])
    path.write_bytes(damaged)
    found, expected = (hashlib.md5(of).hexdigest() for of in (damaged, intact))
    told = f"{path} is damaged or altered: {len(damaged):,} bytes with MD5 {found}, expected "
    told += f"{expected}; replace it by an intact copy"
    assert refusal(data.load, "mnist", tiny_mnist) == told


def test_changed_digits_are_noticed(monkeypatch):
    from sklearn import datasets

    bunch = datasets.load_digits()
    bunch.images[0, 0, 0] += 1
    monkeypatch.setattr(datasets, "load_digits", lambda: bunch)
    told = r"^dataset 'digits' of this scikit-learn has fingerprint \w{16}, expected bb9f5f47"
    refused(told, data.DATASETS["digits"].read, Path())


def test_a_missing_set_is_downloaded_into_the_cache_and_leaves_only_its_files(
    tiny_mnist, cache, monkeypatch
):
    real = torchvision_fix.import_torchvision().datasets.MNIST

    def mnist(root, train, download=False):
        if download:
            write_tiny_mnist(Path(root))
            (Path(root) / "MNIST" / "raw" / "train-images-idx3-ubyte.gz").write_bytes(b"left over")
        return real(root, train=train)

    install_torchvision(monkeypatch, MNIST=mnist)
    assert len(data.load("mnist").train_y) == 6
    there = (path.name for path in cache.rglob("*") if path.is_file())
    assert sorted(there) == sorted(MNIST_FILES)


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_a_failed_download_says_so_and_leaves_nothing(kind, cache, monkeypatch):
    def mnist(root, train, download=False):
        (Path(root) / "MNIST" / "raw").mkdir(parents=True)
        (Path(root) / "MNIST" / "raw" / "train-images-idx3-ubyte").write_bytes(b"half")
        raise kind("Error downloading\ntrain-images-idx3-ubyte.gz")

    install_torchvision(monkeypatch, MNIST=mnist)
    told = f"mnist could not be downloaded into {cache} (Error downloading train-images-idx3-ubyte"
    told += ".gz); with a copy at hand, point data_dir (--data"
    assert refusal(data.load, "mnist").startswith(told)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_damaged_file_in_the_cache_is_to_be_deleted(cache):
    write_tiny_mnist(cache)
    assert refusal(data.load, "mnist").endswith("; delete it and run again to download it anew")
