"""Which runs a page needs, asked of its notebook: the cells up to the one tagged `runs` (of a page
without runs, `settings`) are plain Python, which is executed here, in process; `Page.run` then says
its runs, trains nothing and shows nothing.  What draws is not imported: a machine that only trains
may lack it.
"""

import __future__

import ast
import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from pfl_lib.errors import BadInput
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.profiles import Profile

DRAWS = ("IPython", "ipywidgets", "matplotlib", "seaborn", "pfl_lib.display", "pfl_lib.explore")


@dataclass
class Needed:
    """What a page runs: `specs`, those of them whose trained models it shows (most published
    results carry none), and its `size`, None of a page that is the same in every profile.
    """

    profile: str
    specs: tuple[RunSpec, ...] = ()
    models: tuple[RunSpec, ...] = ()
    size: Profile | None = None


class Collected(Exception):
    """Ends the execution of a cell whose runs are known."""


collecting: ContextVar[Needed | None] = ContextVar("collecting", default=None)
"""What is being collected, where a notebook is executed for that; else None."""


def needed(notebook: Path, parameters: Mapping[str, object]) -> Needed:
    """What a notebook runs with these parameters, each run once.

    Raises BadInput where its cells do, and for a parameter that it does not have.
    """
    found = Needed(str(parameters["profile"]))
    token = collecting.set(found)
    namespace: dict[str, object] = {"__name__": "__main__", "__annotations__": {}}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for code, tags in _cells(notebook):
                with contextlib.suppress(Collected):
                    exec(code, namespace)
                if "parameters" in tags:
                    for name in parameters.keys() - namespace["__annotations__"].keys():
                        raise BadInput(f"there is no parameter {name!r}")
                    namespace |= parameters
    except BadInput as error:
        raise BadInput(f"{notebook.name}: {error}") from None
    finally:
        collecting.reset(token)
    return found


def _cells(notebook: Path) -> Iterator[tuple[CodeType, list[str]]]:
    """The code, without its imports of what draws, and the tags of the cells to execute."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    tags = [cell["metadata"].get("tags", []) for cell in code]
    ends = [k for k, of in enumerate(tags) if {"runs", "settings"} & {*of}]
    for k in range(max(ends, default=-1) + 1):
        tree = ast.parse("".join(code[k]["source"]), str(notebook))
        tree.body = [*filter(None, map(_without_drawing, tree.body))]
        # Annotations as text, which every Python keeps in `__annotations__`
        yield compile(tree, str(notebook), "exec", __future__.annotations.compiler_flag), tags[k]


def _without_drawing(line: ast.stmt) -> ast.stmt | None:
    """A line without its imports of what draws; None where nothing is left."""
    if not isinstance(line, ast.Import | ast.ImportFrom):
        return line
    place = f"{line.module}." if isinstance(line, ast.ImportFrom) else ""
    line.names = [one for one in line.names if not f"{place}{one.name}".startswith(DRAWS)]
    return line if line.names else None
