"""The pages: every notebook of the folder, by its id, in reading order.

A page is named after its notebook: `waffle/table1_accuracy.ipynb` is "waffle-table1",
`weight_erosion/gradient_distances.ipynb` is "weight-erosion-gradient-distances", `01_quickstart` is
"quickstart".  A paper's tables come first, then its figures, then what else is asked of it.
"""

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pfl_lib.errors import BadInput, choose
from pfl_lib.experiments import own
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.pages.collect import Needed, needed
from pfl_lib.papers import PRINTED, PROFILES
from pfl_lib.papers.overview import Shown
from pfl_lib.papers.values import PAPERS


@dataclass(frozen=True)
class NotebookPage:
    """A page: its id, its paper ("" of none), its title and first sentence, its notebook.

    `methods` name the reader's own methods that stand on its printed tables (`with_methods`).
    """

    id: str
    paper: str
    title: str
    about: str
    path: Path
    methods: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Its paper, where it has one, and its title."""
        named = not self.paper or self.title.startswith(self.paper)
        return self.title if named else f"{self.paper}, {self.title}"

    @property
    def printed(self) -> tuple[Shown, ...]:
        """The printed tables that it sets beside ours, with the reader's methods."""
        shown = (one for one in PRINTED if one.page == self.id)
        return tuple(one._replace(table=one.table.with_methods(self.methods)) for one in shown)

    def with_methods(self, methods: Sequence[str]) -> "NotebookPage":
        """The page with further methods on its printed tables, and their runs behind it; raises
        `BadInput` as `Table.with_methods`, and for a page without a printed table.
        """
        page = replace(self, methods=tuple(map(own.absolute, methods)))
        if methods and not page.printed:
            raise BadInput(f"page {self.id!r} shows no printed table: no method can join it")
        return page

    @functools.cache  # noqa: B019  pages live as long as the process
    def needed(self, profile: str, seeds: int | None = None) -> Needed:
        """What it runs in a profile, with seeds 1 to `seeds`; BadInput for an unknown one."""
        given: dict[str, object] = {"profile": choose("profile", profile, PROFILES)}
        given |= {"seeds": seeds or 0} | ({"methods": [*self.methods]} if self.methods else {})
        return needed(self.path, given)

    def most_stored(
        self, has: Callable[[RunSpec], bool], seeds: int | None = None
    ) -> Needed | None:
        """What it runs in the profile on the paper's data of which most is stored, the paper's own
        where two are level; None where no run is.  A page without runs is the paper's.
        """
        paper, small = (self.needed(name, seeds) for name in ("paper", "small"))
        best = max(paper, small, key=lambda needed: sum(map(has, needed.specs)))
        return best if any(map(has, best.specs)) else None if paper.specs else paper


def page(id: str) -> NotebookPage:
    """The page with that id; raises `BadInput` listing the ids when there is none."""
    return pages()[choose("table or figure", id, pages())]


@functools.cache
def pages() -> MappingProxyType[str, NotebookPage]:
    """All pages by id, in reading order; raises BadInput where there is no folder of notebooks, and
    for two of one id.  What JupyterLab calls a copy ("-Copy1") is none.
    """
    folder, found = notebooks_folder(), {}
    for name, paper in {"": "", **PAPERS}.items():
        paths = (folder / name).glob("*.ipynb" if name else "[0-9]*.ipynb")
        of_paper = [_page(path, paper) for path in paths if not re.search(r"-Copy\d*$", path.stem)]
        for page in sorted(of_paper, key=_place if name else lambda page: page.path):
            if other := found.get(page.id):
                raise BadInput(
                    f"{page.path} and {other.path.name} are both page {page.id!r}: rename yours,"
                    f" as my_{page.path.name}"
                )
            found[page.id] = page
    return MappingProxyType(found)


def notebooks_folder() -> Path:
    """The folder of notebooks, beside the package in a checkout, else here; else BadInput."""
    candidates = [Path(__file__).resolve().parents[2] / "notebooks", Path.cwd() / "notebooks"]
    for candidate in candidates:
        if (candidate / "00_index.ipynb").is_file():
            return candidate
    where = " or ".join(map(str, candidates))
    raise BadInput(f"no notebooks in {where}: run this in a clone of the repository")


def _place(page: NotebookPage) -> tuple:
    kind = re.match(r"(Table|Figure)s? (\d+)", page.title)
    place = (kind[1] == "Figure", int(kind[2])) if kind else (2, 0)
    return (*place, not page.path.stem.startswith(("table", "fig")), page.path.stem)


def _page(path: Path, paper: str) -> NotebookPage:
    """Links in its first sentence become their words."""
    name = re.sub(r"^\d+_|^((?:table|fig)\d+)_.*", r"\1", path.stem)
    id = (f"{path.parent.name}-{name}" if paper else name).replace("_", "-")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = next(("".join(c["source"]) for c in cells if c["cell_type"] == "markdown"), "")
    head, _, rest = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text).strip().partition("\n")
    about = re.split(r"(?<=[.?!])\s|\n\n", rest.strip(), maxsplit=1)[0].replace("\n", " ")
    title = re.sub(rf"^# ({paper}[,:] (?=\S))?", "", head)
    return NotebookPage(id, paper, title[:1].upper() + title[1:], about, path)
