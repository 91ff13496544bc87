"""Record anew what the notebooks' own tests compare with: `make record`, or this file with the
notebooks to record; results folder and data are those of the environment.

Every notebook is executed with its defaults; the values go into `pfl_lib/pages/recorded`, what its
check cells print into the notebook.  All else in the notebook stays.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from pfl_lib.pages.recorded import RECORD


def record(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    executed = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(executed, kernel_name="python3", resources=folder, timeout=1200).execute()
    for cell, done in zip(notebook.cells, executed.cells, strict=True):
        if "keep_output" in cell.metadata.get("tags", []):
            cell.outputs, cell.execution_count = done.outputs, done.execution_count
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ |= {RECORD: "1", "PFL_HEADLESS": "1"}
    for name in sys.argv[1:]:
        record(Path(name))
