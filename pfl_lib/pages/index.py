"""The index over the pages of a folder, and what it says of each page."""

import base64
import errno
import io
import os
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from pfl_lib.pages.cited import PAPERS, WHERE
from pfl_lib.pages.html import Stamp, exporter, styles
from pfl_lib.pages.page import COMPARED
from pfl_lib.pages.recorded import values_compared
from pfl_lib.pages.registry import NotebookPage
from pfl_lib.papers.judge import LEVELS, ORDERS

RESULTS, LIVE = ("paper", "small"), "quick"
PAIRS = dict(zip(ORDERS, ("pairs stand", "pairs turned", "pairs open"), strict=True))
WIDTH = 320  # pixels of a small picture, twice what the index shows
COLOURS = 64


def write_index(
    folder: Path,
    pages: Mapping[str, NotebookPage],
    stamps: Mapping[str, Stamp],
    told: Sequence[str],
    stored: Container[str] = (),
) -> Path:
    """Write `index.html` into `folder`: the headline (`told`), then each page by paper: its
    picture, answer, verdicts, time and memory, then what the live check compared.

    `pages`: by id; `stamps`: of all pages that are there, by their names, such as
    "paper/waffle-table1.html"; `stored`: the ids of pages of which some run on the paper's data is
    there, which can be drawn without training.
    """
    names: dict[str, dict[str, str]] = {id: {} for id in pages}
    for name, stamp in stamps.items():
        names.setdefault(stamp.id, {})[stamp.profile] = name
    best = {
        id: next((of[profile] for profile in RESULTS if profile in of), None)
        for id, of in names.items()
    }
    live = {id: of[LIVE] for id, of in names.items() if LIVE in of and id in pages}
    general = {id: next(iter(names[id].values()), None) for id in pages if not pages[id].paper}
    text = (
        exporter()
        .environment.get_template("listing.html.j2")
        .render(
            css=styles(),
            told=told,
            pages=pages,
            papers=dict.fromkeys(page.paper for page in pages.values() if page.paper),
            titles=PAPERS,
            where=WHERE,
            stamps=stamps,
            names=names,
            best=best,
            stored=stored,
            general={id: name for id, name in general.items() if name},
            live={id: stamps[name] for id, name in live.items() if pages[id].paper},
            words=[*LEVELS, *PAIRS.values()],
        )
    )
    index = folder / "index.html"
    index.write_text(text, encoding="utf-8")
    return index


def summary(executed: Path) -> dict[str, object]:
    """The fields of a page's `Stamp` that come from what its executed notebook shows: the answer,
    a small picture, how many values were compared, how many verdicts of each kind there are.
    """
    import nbformat

    try:
        cells = nbformat.read(str(executed), as_version=4).cells if executed.is_file() else []
    except ValueError:  # cut as it was written
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(executed)) from None
    outputs = [(cell, output) for cell in cells for output in cell.get("outputs", [])]
    shown = [output.get("data", {}) for _, output in outputs]
    answers = [
        output["data"]["text/markdown"]
        for cell, output in outputs
        if "answer" in cell.metadata.get("tags", []) and "text/markdown" in output.get("data", {})
    ]
    pictures = [data["image/png"] for data in shown if "image/png" in data]
    compared = [data[COMPARED] for data in shown if COMPARED in data]
    verdicts = Counter(value["verdict"] for one in compared for value in one["values"])
    orders = [pair["order"] for one in compared for pair in one["pairs"]]
    pairs = Counter(PAIRS[order] for order in orders if order in PAIRS)  # others: not compared
    return {
        "answer": answers[0] if answers else "",
        "picture": small(base64.b64decode(pictures[0])) if pictures else "",
        "compared": values_compared("".join(output.get("text", "") for _, output in outputs)),
        "verdicts": {**verdicts, **pairs},
    }


def small(png: bytes) -> str:
    """A picture `WIDTH` pixels wide, as a data URI."""
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    size = WIDTH, max(1, round(picture.height * WIDTH / picture.width))
    picture = picture.resize(size, Image.Resampling.LANCZOS)
    # Median cut, the default, gives a few bright marks among many greys none of the colours.
    picture = picture.quantize(COLOURS, Image.Quantize.FASTOCTREE)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
