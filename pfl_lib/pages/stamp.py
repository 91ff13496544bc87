"""What the index says of a page: how and when it was made, and what came out.  It stands in the
executed notebook's own metadata, so that the index remembers the pages of earlier runs.
"""

import base64
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pfl_lib.pages.page import COMPARED
from pfl_lib.pages.recorded import AGREE
from pfl_lib.papers.judge import ORDERS

PAIRS = dict(zip(ORDERS, ("pairs stand", "pairs turned", "pairs open"), strict=True))
WIDTH, COLOURS = 320, 64  # of a small picture; pixels, twice what the index shows


@dataclass(frozen=True)
class Stamp:
    """How and when a page was made; `status` is "ok", "failed" or, where the runs behind it are
    missing, "not run"; `finished` is a UTC time such as "2026-11-21 08:30".

    `made_from` is the digest of what it was made from (`up_to_date`); `runs` says "42 of 150 runs"
    where some were missing; `megabytes` is the most memory that its kernel held, 0 where unknown.
    Then what `summary` reads of it.
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
    answer, pictures, verdicts, printed = [], [], Counter(), ""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data, printed = output.get("data", {}), printed + output.get("text", "")
            if "answer" in cell.metadata.get("tags", []) and "text/markdown" in data:
                answer.append(data["text/markdown"])
            if "image/png" in data:
                pictures.append(data["image/png"])
            compared = data.get(COMPARED, {"values": [], "pairs": []})
            verdicts.update(value["verdict"] for value in compared["values"])
            verdicts.update(PAIRS[pair["order"]] for pair in compared["pairs"])
    return {
        "answer": "".join(answer[:1]),
        "picture": small(base64.b64decode(pictures[0])) if pictures else "",
        "compared": sum(map(int, re.findall(rf"(\d+) {AGREE}", printed))),
        "verdicts": dict(verdicts),
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
