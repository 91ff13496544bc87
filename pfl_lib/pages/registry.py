"""The pages: every notebook of the folder, by its id, in reading order.

A page is named after its notebook: `waffle/table1_accuracy.ipynb` is "waffle-table1",
`weight_erosion/gradient_distances.ipynb` is "weight-erosion-gradient-distances", `01_quickstart` is
"quickstart".  A paper's tables come first, then its figures, then what else is asked of it.
"""

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pfl_lib.errors import BadInput

PAPERS = MappingProxyType(
    {
        "waffle": "WAFFLE",
        "weight_erosion": "Weight Erosion",
        "fedfomo": "FedFomo",
        "pfedla": "pFedLA",
    }
)
"""Folders of notebooks, and the papers they are about."""


@dataclass(frozen=True)
class NotebookPage:
    """A page: its id, its paper ("" of none), its title and first sentence, its notebook."""

    id: str
    paper: str
    title: str
    about: str
    path: Path


@functools.cache
def pages() -> MappingProxyType[str, NotebookPage]:
    """All pages by id, in reading order; raises BadInput where there is no folder of notebooks."""
    folder = notebooks_folder()
    found = [_page(path, "") for path in sorted(folder.glob("[0-9]*.ipynb"))]
    for name, paper in PAPERS.items():
        paths = sorted((folder / name).glob("*.ipynb"), key=_place)
        found += [_page(path, paper) for path in paths]
    return MappingProxyType({page.id: page for page in found})


def notebooks_folder() -> Path:
    """The folder of notebooks: beside the package in a checkout, else `notebooks` here; BadInput
    where there is none.
    """
    candidates = [Path(__file__).resolve().parents[2] / "notebooks", Path.cwd() / "notebooks"]
    for candidate in candidates:
        if (candidate / "00_index.ipynb").is_file():
            return candidate
    raise BadInput(
        f"no notebooks in {' or '.join(map(str, candidates))}: run this in a clone of the"
        " repository"
    )


def _place(path: Path) -> tuple[int, int, str]:
    kind = re.match(r"(table|fig)(\d+)", path.stem)
    return (("table", "fig").index(kind[1]), int(kind[2]), "") if kind else (2, 0, path.stem)


def _page(path: Path, paper: str) -> NotebookPage:
    kind = re.match(r"(table|fig)\d+", path.stem)
    name = kind[0] if kind else re.sub(r"^\d+_", "", path.stem)
    id = name if not paper else f"{path.parent.name}-{name}"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = next(("".join(c["source"]) for c in cells if c["cell_type"] == "markdown"), "")
    head, _, rest = text.strip().partition("\n")
    paragraph = rest.strip().split("\n\n")[0].replace("\n", " ")
    about = re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0]
    title = head.removeprefix("# ").removeprefix(f"{paper}, ")
    return NotebookPage(id.replace("_", "-"), paper, title, about, path)
