"""What the index says of a page: how it was made, what came out, and whether it still is what would
be made now.  It stands in the executed notebook's own metadata, so that the index remembers the
pages of earlier runs.
"""

import base64
import functools
import io
import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from PIL import Image

from pfl_lib.pages.page import COMPARED
from pfl_lib.pages.recorded import AGREE
from pfl_lib.papers.judge import ORDERS
from pfl_lib.results.files import sha256

PAIRS = dict(zip(ORDERS, ("pairs stand", "pairs turned", "pairs open"), strict=True))
WIDTH, COLOURS = 320, 64  # of a small picture; pixels, twice what the index shows
LIBRARIES = ("torch", "numpy", "pandas", "matplotlib", "seaborn", "nbconvert", "scikit-learn")


@dataclass(frozen=True)
class Stamp:
    """How and when a page was made; `status` is "ok", "failed" or, where the runs behind it are
    missing, "not run"; `finished` is a UTC time such as "2026-11-21 08:30"; `runs` says "42 of 150
    runs" where some were missing; `exact`: how many stored runs of the exact setting a page of the
    small profile does not show; the last four are what `summary` reads, others as of `Job`.
    """

    id: str
    status: str
    profile: str
    banner: str
    version: str
    finished: str
    seconds: float
    error: str = ""
    made_from: str = ""
    runs: str = ""
    exact: int = 0
    megabytes: int = 0
    answer: str = ""
    picture: str = ""
    compared: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)


def read_stamp(executed: Path) -> Stamp | None:
    """The stamp of an executed notebook; None where there is none."""
    try:
        return Stamp(**json.loads(executed.read_text(encoding="utf-8"))["metadata"]["pfl_lib"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def summary(notebook) -> dict[str, object]:
    """What an executed notebook (an nbformat node) shows, as fields of a `Stamp`: the answer
    (Markdown), its first picture in small (a data URI), how many values agree with recorded ones,
    how many verdicts of each kind there are.
    """
    answer, picture, printed, verdicts = "", "", "", Counter()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data, printed = output.get("data", {}), printed + output.get("text", "")
            if "answer" in cell.metadata.get("tags", []):
                answer = answer or data.get("text/markdown", "")
            picture = picture or data.get("image/png", "")
            for word, count in data.get(COMPARED, {}).items():
                verdicts[PAIRS.get(word, word)] += count
    return {
        "answer": answer,
        "picture": picture and small(base64.b64decode(picture)),
        "compared": sum(map(int, re.findall(rf"(\d+) {AGREE}", printed))),
        "verdicts": dict(verdicts),
    }


def small(png: bytes) -> str:
    """A picture at most `WIDTH` pixels wide, as a data URI."""
    picture, buffer = Image.open(io.BytesIO(png)).convert("RGB"), io.BytesIO()
    picture.thumbnail((WIDTH, picture.height), Image.Resampling.LANCZOS)
    # Median cut, the default, gives a few bright marks among many greys none of the colours.
    picture.quantize(COLOURS, Image.Quantize.FASTOCTREE).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def made_from(notebook: Path, parameters: Mapping[str, object], specs: Iterable, store) -> str:
    """The digest of all that a page follows from, 16 hex digits: its notebook and the files that
    this names as `beside("...")`, its parameters, the package, the libraries that compute and draw,
    and the stored runs behind it, whose keys say everything that their numbers depend on.
    """
    # A page may show the models, which published results come without.
    runs = [(spec.key, store.has(spec), store.has(spec, with_model=True)) for spec in specs]
    # How many processes train side by side changes nothing that a page shows.
    shown = {name: value for name, value in parameters.items() if name != "jobs"}
    named = re.findall(r'beside\(\\"([^"\\]+)', notebook.read_text(encoding="utf-8"))
    files = (notebook, *map(notebook.parent.joinpath, named))
    read = [sha256(path.read_bytes()) for path in files if path.is_file()]
    facts = [read, shown, sorted(runs), _package()]
    return sha256(json.dumps(facts, sort_keys=True, default=str).encode())[:16]


@functools.cache
def _package() -> list[str]:
    root = Path(__file__).resolve().parents[1]
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    lines = [f"{path.relative_to(root)} {sha256(path.read_bytes())}" for path in files]
    versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return [*lines, platform.python_version(), *versions]
