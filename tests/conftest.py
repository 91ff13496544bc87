"""What all tests share: no bars, no windows, one thread, a results folder of their own, and MNIST
where it is at hand.
"""

import os
import sys
from pathlib import Path

import pytest

# Before anything imports torch or matplotlib; processes that tests start inherit it.
os.environ.update(PFL_HEADLESS="1", MPLBACKEND="Agg", PFL_IGNORE_PUBLISHED="0")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # make test-arithmetic asks for two

KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
MNIST = [f"{split}-{kind}" for split in ("train", "t10k") for kind in KINDS]
TITANIC = ("titanic_tfds_1309.csv", "titanic3.csv")


def pytest_collection_modifyitems(items) -> None:
    """Begin with tests that have a time limit of their own or share one worker; refuse one whose
    name holds an address: workers side by side must find the same names.
    """
    # What may take minutes comes first, so that no worker is left alone with it in the end.
    long = ("timeout", "xdist_group")
    items.sort(key=lambda item: not any(map(item.get_closest_marker, long)))
    named = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named:
        raise pytest.UsageError(f"names that differ from process to process; give ids: {named}")


def pytest_configure(config) -> None:
    """Refuse to start where tests of one group would be spread over all workers: pytest-xdist 3.8
    writes the group into `_nodeid`, which pytest 9.2 does not have.
    """
    if config.getoption("dist", "no") == "loadgroup" and not hasattr(pytest.Item, "_nodeid"):
        cure = "pip install -c constraints.txt pytest"
        raise pytest.UsageError(f"pytest {pytest.__version__} does not keep groups: {cure}")


@pytest.fixture(scope="session", autouse=True)
def _no_results_of_the_user(tmp_path_factory):
    # A stored result would be read where the test means to train, and results of tests would be
    # stored among the user's.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PFL_RESULTS_DIR", str(tmp_path_factory.mktemp("results")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _processes_end():
    # Those that train side by side are kept for the next test.
    yield
    if loky := sys.modules.get("joblib.externals.loky"):
        loky.get_reusable_executor().shutdown(wait=True)


@pytest.fixture
def results_dir(tmp_path) -> Path:
    """An empty results folder for this test alone."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def store(results_dir):
    """A store of this test's alone, empty; no published results are below it."""
    from pfl_lib.results.store import Store  # not before the environment is set

    return Store(results_dir, published=None)


def data_dir() -> Path | None:
    """The folder that PFL_DATA_DIR names."""
    chosen = os.environ.get("PFL_DATA_DIR")
    return Path(chosen).expanduser().absolute() if chosen else None


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The default cache folder, empty, with no data directory chosen."""
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.delenv("PFL_DATA_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def mnist_dir() -> Path:
    """The folder that holds the real MNIST; skips where PFL_DATA_DIR names none."""
    raw = data_dir() and data_dir() / "MNIST" / "raw"
    if raw is None or (missing := [name for name in MNIST if not (raw / name).is_file()]):
        told = f"{', '.join(missing)} missing in {raw}" if raw else "as torchvision lays it out"
        pytest.skip(f"needs MNIST: set PFL_DATA_DIR to a folder that holds MNIST/raw, {told}")
    return data_dir()


@pytest.fixture(scope="session")
def titanic_dir() -> Path:
    """The folder that holds a table of the Titanic; skips where PFL_DATA_DIR names none."""
    folder = data_dir()
    if folder is None or not any((folder / "titanic" / name).is_file() for name in TITANIC):
        names = " or titanic/".join(TITANIC)
        pytest.skip(f"needs the Titanic: set PFL_DATA_DIR to a folder that holds titanic/{names}")
    return folder
