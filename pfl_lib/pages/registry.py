"""The pages: every notebook of the folder, by its id, in reading order.

A page is named after its notebook: `waffle/table1_accuracy.ipynb` is "waffle-table1",
`weight_erosion/gradient_distances.ipynb` is "weight-erosion-gradient-distances", `01_quickstart` is
"quickstart".  A paper's tables come first, then its figures, then what else is asked of it.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pfl_lib.errors import BadInput, choose
from pfl_lib.experiments import own
from pfl_lib.experiments.spec import RunSpec, check_storable
from pfl_lib.methods import Method
from pfl_lib.pages import collect
from pfl_lib.papers import PRINTED, waffle
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table
from pfl_lib.papers.verdicts import PROFILES

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
    """A page: its id, its paper ("" of none), its title and first sentence, its notebook.

    `methods` name the user's own methods that stand on its printed tables (`with_methods`).
    """

    id: str
    paper: str
    title: str
    about: str
    path: Path
    methods: tuple[str | Method, ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The printed tables that it sets beside ours."""
        return tuple(shown.table for shown in PRINTED if shown.page == self.id)

    def with_methods(self, methods: Sequence[str | Method]) -> "NotebookPage":
        """The page with further methods on its printed tables, and their runs behind it: methods,
        or "module:Class" and "path/to/file.py:Class" that name them.

        Raises `BadInput` for a page without a printed table, for what names no method, and for a
        method that says not what its results are to be stored under.
        """
        if methods and not self.tables:
            raise BadInput(f"page {self.id!r} shows no printed table: no method can join it")
        for method in methods:
            check_storable(own.load(method) if isinstance(method, str) else method)
        named = (own.absolute(one) if isinstance(one, str) else one for one in methods)
        return replace(self, methods=tuple(named))

    def profile(self, name: str, seeds: int | None = None) -> Profile:
        """The profile of that name, with seeds 1 to `seeds` where given; raises `BadInput` for an
        unknown name.  A page that shows the package, not a paper's data, is always quick.
        """
        choose("profile", name, PROFILES)
        return _needed(self.path, name, seeds or 0, self.methods).profile or waffle.QUICK

    def runs(self, profile: Profile) -> tuple[RunSpec, ...]:
        """The runs that its notebook needs."""
        return _needed(self.path, profile.name, len(profile.seeds), self.methods).specs

    def models(self, profile: Profile) -> tuple[RunSpec, ...]:
        """Those of them whose trained models it shows, which published results do not carry."""
        return _needed(self.path, profile.name, len(profile.seeds), self.methods).models


def page(id: str) -> NotebookPage:
    """The page with that id; raises `BadInput` listing the ids when there is none."""
    return pages()[choose("table or figure", id, pages())]


def most_stored(page: NotebookPage, find: Find, seeds: int | None = None) -> Profile | None:
    """The profile on the paper's data of which most of a page's runs are stored, the paper's own
    where two are level; None where no run is.  A page without runs is the paper's.
    """
    stored = {}
    for name in ("paper", "small"):
        profile = page.profile(name, seeds)
        runs = page.runs(profile)
        if not runs:
            return profile
        stored[profile] = sum(find(run) is not None for run in runs)
    best = max(stored, key=stored.get)
    return best if stored[best] else None


@functools.cache
def _needed(path: Path, profile: str, seeds: int, methods: tuple) -> collect.Needed:
    given = {"profile": profile, "seeds": seeds}
    return collect.needed(path, given | ({"methods": list(methods)} if methods else {}))


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
