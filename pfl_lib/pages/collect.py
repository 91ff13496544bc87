"""Which runs a page needs, asked of its notebook: the cells up to the one tagged `runs` (of a page
without runs, `settings`) are plain Python, which is executed here, in process; `Page.run` then says
its runs and trains nothing.  What draws is not imported: a machine that only trains may lack it.
"""

import ast
import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from pfl_lib.errors import BadInput
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.profiles import Profile

DRAWS = {"IPython", "ipywidgets", "matplotlib", "seaborn"}


@dataclass
class Needed:
    """What a page runs: `specs`, those of them whose trained models it shows, and their size, None
    of a page that has none.
    """

    specs: tuple[RunSpec, ...] = ()
    models: tuple[RunSpec, ...] = ()
    profile: Profile | None = None


class Collected(Exception):
    """Ends the execution of a notebook whose runs are known."""


@dataclass
class _Collecting:
    needed: Needed = field(default_factory=Needed)


_now: ContextVar[_Collecting | None] = ContextVar("collecting", default=None)


def collecting() -> Needed | None:
    """What is being collected, where a notebook is executed for that; else None."""
    now = _now.get()
    return now and now.needed


def needed(notebook: Path, parameters: Mapping[str, object]) -> Needed:
    """What a notebook runs with these parameters, each run once.

    Raises BadInput where its cells do, and for a parameter that it does not have.
    """
    with _collecting() as found:
        namespace: dict[str, object] = {"__name__": "__main__", "__annotations__": {}}
        for source, tags in _cells(notebook):
            if "parameters" in tags:
                exec(_compiled(source, notebook), namespace)
                for name in parameters.keys() - namespace["__annotations__"].keys():
                    raise BadInput(f"{notebook.name} has no parameter {name!r}")
                namespace |= parameters
                continue
            with contextlib.suppress(Collected):
                exec(_compiled(source, notebook), namespace)
            if "runs" in tags:
                break
    return found


@contextlib.contextmanager
def _collecting() -> Iterator[Needed]:
    now = _Collecting()
    token = _now.set(now)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield now.needed
    finally:
        _now.reset(token)


def _compiled(source: str, notebook: Path):
    """A cell's code without its imports of what draws."""
    tree = ast.parse(source, str(notebook))
    tree.body = [
        line
        for line in tree.body
        if not isinstance(line, ast.Import | ast.ImportFrom) or not _packages(line) & DRAWS
    ]
    return compile(tree, str(notebook), "exec")


def _packages(line: ast.Import | ast.ImportFrom) -> set[str]:
    names = (
        [line.module or ""] if isinstance(line, ast.ImportFrom) else [n.name for n in line.names]
    )
    return {name.partition(".")[0] for name in names}


def _cells(notebook: Path) -> Iterator[tuple[str, list[str]]]:
    """The source and the tags of a notebook's code cells up to the one tagged `runs`, or
    `settings` where there is none.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [
        ("".join(cell["source"]), cell["metadata"].get("tags", []))
        for cell in cells
        if cell["cell_type"] == "code"
    ]
    last = max(
        (k for k, (_, tags) in enumerate(code) if {"runs", "settings"} & set(tags)), default=-1
    )
    yield from code[: last + 1]
