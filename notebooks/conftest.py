"""For `pytest --nbval-lax notebooks`: kernels without bars or widgets, one thread each, and an
empty results folder of their own.

The folder is shared by all notebooks of the session, as `pfl-lib reproduce` shares it;
PFL_RESULTS_DIR names another one.
"""

import os
import shutil
import tempfile

import nbval.kernel

from pfl_lib.pages.kernels import fork_kernels

_made: list[str] = []
_start = nbval.kernel.start_new_kernel


def _start_once_more(*args, **kwargs):
    """Of some hundred kernels one may end at its start, on a busy machine: another one is tried."""
    try:
        return _start(*args, **kwargs)
    except RuntimeError:
        return _start(*args, **kwargs)


def pytest_configure() -> None:
    os.environ.setdefault("PFL_HEADLESS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    fork_kernels()
    nbval.kernel.start_new_kernel = _start_once_more
    if "PFL_RESULTS_DIR" not in os.environ:
        _made.append(tempfile.mkdtemp(prefix="pfl-results-"))
        os.environ["PFL_RESULTS_DIR"] = _made[0]


def pytest_unconfigure() -> None:
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
