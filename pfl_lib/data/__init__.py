"""Data sets as tensors: checked against known checksums, uint8 as they lie in their files, loaded
once per process.

Every data set is a row of `DATASETS`.  Those of torchvision are read from a torchvision-style root
(`<root>/MNIST/raw/...`); `digits` comes with scikit-learn and needs no files.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pfl_lib.data import digits, emnist, files, titanic
from pfl_lib.data.source import Arrays, Dataset, Source
from pfl_lib.errors import BadInput, choose, whole


def load(
    name: str,
    data_dir: str | os.PathLike | None = None,
    images: int | None = None,
    download: bool = True,
) -> Dataset:
    """Load a data set of `DATASETS`, once per process; `images=n` keeps its first n training images
    in file order.

    Missing files are downloaded only into the default cache folder, never into a folder the user
    chose; without `download`, as where stored results are drawn, they are not.  Raises `BadInput`
    if the name is unknown, files are missing, damaged or altered, or `images` is not between 1 and
    the training set's size.
    """
    source = DATASETS[choose("dataset", name, DATASETS)]
    if images is not None:
        whole("images", images)
    root, chosen = data_root(data_dir) if source.folder else Path(), _chosen(data_dir) is not None
    if not download and not chosen:
        files.check_there(name, source, root)
    dataset = _load(name, root, not chosen)
    return dataset if images is None else _first(dataset, images)


def fingerprint(name: str) -> str:
    """The data set's identity, 16 hex digits, known without its files at hand; `BadInput` if the
    name is unknown.
    """
    return DATASETS[choose("dataset", name, DATASETS)].fingerprint


def data_root(data_dir: str | os.PathLike | None = None) -> Path:
    """The folder data sets are read from: the argument, else PFL_DATA_DIR, else the user's cache
    folder for pfl_lib.

    Raises `BadInput` if it is a file, or would be the cache folder and platformdirs, which knows
    where that is, is not installed.
    """
    chosen = _chosen(data_dir)
    if chosen is not None:
        root = Path(chosen).expanduser().absolute()
        if os.path.isfile(root):
            raise BadInput(
                f"data folder {root} is a file, not a folder: give the folder that holds the data"
                " sets"
            )
        return root
    try:
        import platformdirs
    except ImportError:
        raise BadInput(
            "no data folder: give data_dir (--data-dir) or set PFL_DATA_DIR (the default needs"
            " platformdirs)"
        ) from None
    return platformdirs.user_cache_path("pfl_lib", appauthor=False)


def _chosen(data_dir: str | os.PathLike | None) -> str | os.PathLike | None:
    return data_dir or os.environ.get("PFL_DATA_DIR") or None


@functools.cache
def _load(name: str, root: Path, may_download: bool) -> Dataset:
    source = DATASETS[name]
    if source.folder:
        files.ensure(name, source, root, may_download)
    arrays, columns = source.read(root), source.columns(root)
    return Dataset(
        name, *arrays, source.classes, source.mean, source.std, source.fingerprint, columns
    )


@functools.cache
def _first(dataset: Dataset, images: int) -> Dataset:
    size = len(dataset.train_y)
    if dataset.columns:
        raise BadInput(
            f"images {images}: {dataset.name} is a table, which is taken whole; leave images out"
        )
    if not 1 <= images <= size:
        raise BadInput(
            f"images {images} is not between 1 and {size}, the training images of {dataset.name}"
        )
    return dataclasses.replace(
        dataset, train_x=dataset.train_x[:images], train_y=dataset.train_y[:images]
    )


def _torchvision_source(
    title: str,
    examples: int,
    classes: int,
    folder: str,
    files: Mapping[str, str],
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> Source:
    """A data set read and downloaded by the class of torchvision that is called `title`."""

    def open_split(root: Path, train: bool, download: bool = False) -> tuple[Tensor, Tensor]:
        from pfl_lib.data.torchvision_fix import import_torchvision

        split = getattr(import_torchvision().datasets, title)(
            str(root), train=train, download=download
        )
        x, y = torch.as_tensor(split.data), torch.as_tensor(split.targets)
        # Grey pictures come as [n, height, width], colour ones as [n, height, width, channel].
        x = x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2)
        return x.contiguous(), y.long()

    def read(root: Path) -> Arrays:
        return *open_split(root, train=True), *open_split(root, train=False)

    listing = "".join(f"{file} {md5}\n" for file, md5 in sorted(files.items()))
    fingerprint = hashlib.sha256(listing.encode()).hexdigest()[:16]
    download = functools.partial(open_split, train=True, download=True)
    return Source(title, examples, classes, mean, std, fingerprint, read, folder, files, download)


def _titanic_source(as_run: bool) -> Source:
    return Source(
        "Passengers of the Titanic"
        + (", unknown ages as in Weight Erosion's code" if as_run else ""),
        examples=1_309,
        classes=2,
        mean=(0.0,),
        std=(1.0,),
        fingerprint=titanic.titanic_fingerprint(as_run),
        read=functools.partial(titanic.read_titanic, as_run=as_run),
        folder="titanic",
        download=titanic.download_titanic,
        any_of=titanic.TITANIC_FILES,
        inputs=titanic.TITANIC_INPUTS,
        columns=titanic.titanic_age,
        model="linear",
    )


def _emnist_source(title: str, split: str, examples: int, classes: int) -> Source:
    return Source(
        title,
        examples,
        classes,
        mean=(0.1736,),  # both constants are those of the codes around pFedLA
        std=(0.3248,),
        fingerprint=emnist.fingerprint(split),
        read=functools.partial(emnist.read, split=split),
        folder=emnist.FOLDER,
        files={emnist.ARCHIVE: emnist.MD5},
        download=emnist.download,
    )


# MD5 of every file as it lies unpacked in a torchvision root; CIFAR's are also those torchvision
# checks.
DATASETS: dict[str, Source] = {
    "mnist": _torchvision_source(
        "MNIST",
        examples=60_000,
        classes=10,
        folder="MNIST/raw",
        files={
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
        mean=(0.1307,),
        std=(0.3081,),
    ),
    "digits": Source(
        "Optical digits of scikit-learn",
        examples=1_438,
        classes=10,
        mean=(0.3058,),
        std=(0.3250,),
        fingerprint=digits.FINGERPRINT,
        read=digits.read,
    ),
    "fashion_mnist": _torchvision_source(
        "FashionMNIST",
        examples=60_000,
        classes=10,
        folder="FashionMNIST/raw",
        files={
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
        mean=(0.2860,),
        std=(0.3205,),  # measured: 0.3530; the codes around pFedLA use this value
    ),
    "cifar10": _torchvision_source(
        "CIFAR10",
        examples=50_000,
        classes=10,
        folder="cifar-10-batches-py",
        files={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
        mean=(0.4914, 0.4822, 0.4465),
        std=(
            0.2023,
            0.1994,
            0.2010,
        ),  # measured: 0.2470, 0.2435, 0.2616; the usual constants of pytorch-cifar
    ),
    "cifar100": _torchvision_source(
        "CIFAR100",
        examples=50_000,
        classes=100,
        folder="cifar-100-python",
        files={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2009, 0.1984, 0.2023),
    ),
    "emnist_digits": _emnist_source("EMNIST's digits", "digits", 240_000, 10),
    "emnist_letters": _emnist_source("EMNIST's letters", "letters", 124_800, 26),
    "titanic": _titanic_source(as_run=False),
    "titanic_as_run": _titanic_source(as_run=True),
    "breast_cancer": Source(
        "Tumours of scikit-learn's breast cancer data",
        examples=569,
        classes=2,
        mean=(0.0,),
        std=(1.0,),
        fingerprint=titanic.CANCER_FINGERPRINT,
        read=titanic.read_cancer,
        inputs=titanic.CANCER_INPUTS,
        columns=titanic.cancer_radius,
        model="linear",
    ),
}
