"""What the index says of a page, read from its executed notebook: the answer, a small picture, how
many values were compared, the verdicts.
"""

import base64
import io
from pathlib import Path

from pfl_lib.pages.page import COMPARED
from pfl_lib.pages.recorded import values_compared
from pfl_lib.papers.judge import LEVELS, ORDERS

WIDTH = 320  # pixels of a small picture, twice what the index shows
COLOURS = 64


def of_page(executed: Path) -> dict[str, object]:
    """The fields of a page's `Stamp` that come from what the notebook shows."""
    import nbformat

    cells = nbformat.read(str(executed), as_version=4).cells if executed.is_file() else []
    outputs = [(cell, output) for cell in cells for output in cell.get("outputs", [])]
    answers = [
        output["data"]["text/markdown"]
        for cell, output in outputs
        if "answer" in cell.metadata.get("tags", []) and "text/markdown" in output.get("data", {})
    ]
    pictures = [
        output["data"]["image/png"]
        for _, output in outputs
        if "image/png" in output.get("data", {})
    ]
    words = "".join(output.get("text", "") for _, output in outputs)
    return {
        "answer": answers[0] if answers else "",
        "picture": small(base64.b64decode(pictures[0])) if pictures else "",
        "compared": values_compared(words),
        "verdicts": _counts(
            [o["data"][COMPARED] for _, o in outputs if COMPARED in o.get("data", {})]
        ),
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


def _counts(bundles: list[dict]) -> dict[str, int]:
    """How many of a page's printed values have which verdict, and of its pairs which order."""
    words = [value["verdict"] for bundle in bundles for value in bundle["values"]]
    pairs = [pair["order"] for bundle in bundles for pair in bundle["pairs"]]
    counts = {word: words.count(word) for word in LEVELS if word in words}
    return counts | {f"pairs {word}": pairs.count(word) for word in ORDERS if word in pairs}
