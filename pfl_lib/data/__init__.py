"""Data sets as tensors, checked against known checksums and loaded once per process.

Every data set is a row of `DATASETS`.  Those of torchvision are read from a torchvision-style root
(`<root>/MNIST/raw/...`); `digits` and `breast_cancer` come with scikit-learn and need no files.
"""

import dataclasses
import functools
import hashlib
import os
from pathlib import Path

import torch
from torch import Tensor

from pfl_lib.data import emnist, files, scikit_learn, titanic, torchvision_fix
from pfl_lib.data.source import Arrays, Channels, Dataset, Source
from pfl_lib.errors import BadInput, choose, path_of, whole


def load(
    name: str,
    data_dir: str | os.PathLike | None = None,
    images: int | None = None,
    download: bool = True,
) -> Dataset:
    """Load a data set of `DATASETS`; `images=n` keeps its first n training images in file order.

    Missing files are downloaded into the default cache folder alone, never into a folder that the
    user gave; with `download=False` nowhere.  Raises `BadInput` if the name is unknown, files are
    missing, damaged or altered, or `images` is not between 1 and the training set's size.
    """
    source = DATASETS[choose("dataset", name, DATASETS)]
    if images is not None:
        whole("images", images)
    root = data_root(data_dir) if source.folder else Path()
    in_cache = _given(data_dir) is None
    if in_cache and not download and (missing := files.missing_files(source, root)):
        why = " (nothing is downloaded to draw what is stored)"
        raise files.absent(name, source, root, missing, why)
    dataset = _load(name, root, in_cache)
    return dataset if images is None else _first(dataset, images)


def data_root(data_dir: str | os.PathLike | None = None) -> Path:
    """The folder data sets are read from: the argument, else PFL_DATA_DIR, else the user's cache
    folder for pfl_lib.  Raises `BadInput` if it is a file.
    """
    given = _given(data_dir)
    if given is not None:
        root = path_of("data_dir", given).expanduser().absolute()
        if os.path.isfile(root):
            told = "give the folder that holds the data sets"
            raise BadInput(f"data folder {root} is a file, not a folder: {told}")
        return root
    try:
        import platformdirs
    except ImportError:
        told = "give data_dir (--data-dir) or set PFL_DATA_DIR (the default needs platformdirs)"
        raise BadInput(f"no data folder: {told}") from None
    return platformdirs.user_cache_path("pfl_lib", appauthor=False)


def _given(data_dir: str | os.PathLike | None) -> str | os.PathLike | None:
    return data_dir or os.environ.get("PFL_DATA_DIR") or None


@functools.cache
def _load(name: str, root: Path, may_download: bool) -> Dataset:
    source = DATASETS[name]
    if source.folder:
        files.ensure(name, source, root, may_download)
    known = (source.classes, source.mean, source.std, source.fingerprint)
    return Dataset(name, *source.read(root), *known, source.columns(root))


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
    x, y = dataset.train_x[:images], dataset.train_y[:images]
    return dataclasses.replace(dataset, train_x=x, train_y=y)


def _torchvision_source(
    title: str, folder: str, examples: int, classes: int, mean: Channels, std: Channels
) -> Source:
    """A data set read and downloaded by the class of torchvision that is called `title`."""

    def open_split(root: Path, train: bool, download: bool = False) -> tuple[Tensor, Tensor]:
        datasets = torchvision_fix.import_torchvision().datasets
        split = getattr(datasets, title)(str(root), train=train, download=download)
        x, y = torch.as_tensor(split.data), torch.as_tensor(split.targets)
        # Grey pictures come as [n, height, width], colour ones as [n, height, width, channel].
        x = x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2)
        return x.contiguous(), y.long()

    def read(root: Path) -> Arrays:
        return *open_split(root, train=True), *open_split(root, train=False)

    md5s = files.checksums(folder)
    listing = "".join(f"{file} {md5}\n" for file, md5 in sorted(md5s.items()))
    fingerprint = hashlib.sha256(listing.encode()).hexdigest()[:16]
    download = functools.partial(open_split, train=True, download=True)
    known = (title, examples, classes, mean, std, fingerprint, read, folder, md5s, download)
    return Source(*known, model="lenet5" if len(mean) == 1 else "tf_cnn")


def _emnist_source(title: str, split: str, examples: int, classes: int) -> Source:
    content = f"{emnist.ARCHIVE} {emnist.MD5} {split}"
    return Source(
        title,
        examples,
        classes,
        mean=(0.1736,),  # both constants are those of the codes around pFedLA
        std=(0.3248,),
        fingerprint=hashlib.sha256(content.encode()).hexdigest()[:16],
        read=functools.partial(emnist.read, split=split),
        folder=emnist.FOLDER,
        files={emnist.ARCHIVE: emnist.MD5},
        download=emnist.download,
    )


def _titanic_source(as_run: bool) -> Source:
    as_in_code = ", unknown ages as in Weight Erosion's code" if as_run else ""
    content = f"{titanic.TITANIC_CONTENT} version 1 as_run {as_run}"  # the 1 stays
    return Source(
        f"Passengers of the Titanic{as_in_code}",
        examples=1_309,
        classes=2,
        mean=(0.0,),
        std=(1.0,),
        fingerprint=hashlib.sha256(content.encode()).hexdigest()[:16],
        read=functools.partial(titanic.read_titanic, as_run=as_run),
        folder="titanic",
        download=titanic.download_titanic,
        any_of=titanic.TITANIC_FILES,
        inputs=titanic.TITANIC_INPUTS,
        columns=titanic.titanic_age,
        model="linear",
    )


CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))  # the constants of pytorch-cifar
CIFAR100 = ((0.5071, 0.4865, 0.4409), (0.2009, 0.1984, 0.2023))

DATASETS: dict[str, Source] = {
    "mnist": _torchvision_source("MNIST", "MNIST/raw", 60_000, 10, (0.1307,), (0.3081,)),
    "digits": Source(
        "Optical digits of scikit-learn",
        examples=1_438,
        classes=10,
        mean=(0.3058,),
        std=(0.3250,),
        fingerprint=scikit_learn.DIGITS_FINGERPRINT,
        read=scikit_learn.read_digits,
    ),
    # The standard deviation of the codes around pFedLA; measured: 0.3530
    "fashion_mnist": _torchvision_source(
        "FashionMNIST", "FashionMNIST/raw", 60_000, 10, (0.2860,), (0.3205,)
    ),
    "cifar10": _torchvision_source("CIFAR10", "cifar-10-batches-py", 50_000, 10, *CIFAR10),
    "cifar100": _torchvision_source("CIFAR100", "cifar-100-python", 50_000, 100, *CIFAR100),
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
        fingerprint=scikit_learn.CANCER_FINGERPRINT,
        read=scikit_learn.read_cancer,
        inputs=scikit_learn.CANCER_INPUTS,
        columns=scikit_learn.cancer_radius,
        model="linear",
    ),
}
