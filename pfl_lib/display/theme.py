"""The look of every figure: one theme, one colour, marker and line for each method, PNGs that carry
their alt text.
"""

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.methods import METHODS, short_name

if TYPE_CHECKING:  # annotations only: matplotlib and seaborn are imported where they draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.4  # inches
DPI = 240  # on a page 1,300 pixels wide more than the screen has, on a phone's fine screen too
SHADES = 128  # different colours in a picture, see `png`

# Colour (of seaborn's colour-blind palette), marker, line; a method keeps its look on every page,
# whichever of its names it has there.
LOOKS: dict[str, tuple[str, str, str]] = {
    **{
        known.lower(): method.look
        for name, method in METHODS.items()
        if hasattr(method, "look")
        for known in (name, method.title, short_name(method))
    },
    # Other readings of two methods, on one page with them: lines of their own, and a purple that
    # the palette lacks.
    "waffle, c as printed": ("#de8f05", "d", ":"),
    "apfl, by round": ("#5b2a86", "<", ":"),
}
# Of what has no look of its own: colours of the same palette, markers that no method has.  Their
# numbers have no common divisor, so that not even thirty of them share a look.
OTHER_COLOURS = ("#de8f05", "#000000", "#ca9161", "#7a4fbf", "#ece133", "#fbafe4")
OTHER_MARKERS = ("P", "*", "<", "X", ">", "h", "p")
OTHER_LINES = ("-", ":", "-.", "--", (0, (1, 1, 5, 1)))
ON_LINES = {
    "facecolor": "white",
    "edgecolor": "none",
    "alpha": 0.8,
    "pad": 1,
}  # the box of words that may lie on lines


@contextmanager
def theme() -> Iterator[None]:
    """The look of every figure, for as long as it is being drawn."""
    import matplotlib
    import seaborn

    sizes = {
        "font.size": 12,
        "axes.titlesize": 13,
        "axes.labelsize": 12,
        "legend.title_fontsize": 12,
    }
    sizes |= dict.fromkeys(["xtick.labelsize", "ytick.labelsize", "legend.fontsize"], 11)
    lines = {
        "lines.linewidth": 1.8,
        "lines.markersize": 5.5,
        "grid.color": "#dddddd",
        "axes.edgecolor": "#888888",
    }
    with matplotlib.rc_context(
        {**seaborn.axes_style("whitegrid"), **sizes, **lines, "figure.dpi": 100}
    ):
        yield


def look(method: str, among: Iterable[str] = ()) -> dict[str, object]:
    """Colour, marker and line style of a method; an unknown one takes a spare look by its place
    `among` the unknown.
    """
    if method.lower() in LOOKS:
        colour, marker, line = LOOKS[method.lower()]
    else:
        unknown = [name for name in among if name.lower() not in LOOKS] or [method]
        place = unknown.index(method)
        colour, marker, line = (
            several[place % len(several)] for several in (OTHER_COLOURS, OTHER_MARKERS, OTHER_LINES)
        )
    return {"color": colour, "marker": marker, "linestyle": line}


def show(figure: "Figure", alt: str) -> None:
    """Show a figure on a notebook's page as a PNG that carries its alt text; outside a notebook
    nothing happens.
    """
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return
    if get_ipython() is None:
        return
    image = base64.b64encode(png(figure)).decode()
    # Fewer than it has pixels: a notebook then shows it sharp on fine screens too.
    metadata = {"image/png": {"alt": alt, "width": round(figure.get_figwidth() * 100)}}
    display({"image/png": image, "text/plain": alt}, raw=True, metadata=metadata)


def png(figure: "Figure") -> bytes:
    """The figure as PNG; the same bytes every time, for no date and no program's version is written
    into it.

    It has `SHADES` colours: nobody sees it in lines and letters, and it then takes half the room.
    """
    from PIL import Image

    drawn, buffer = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="rgba", dpi=DPI)
    size = tuple(int(inches * DPI) for inches in figure.get_size_inches())
    picture = Image.frombytes("RGBA", size, drawn.getvalue()).convert("RGB")
    picture.quantize(SHADES, dither=Image.Dither.NONE).save(buffer, "PNG", compress_level=9)
    return buffer.getvalue()


def blank(
    height: float,
    rows: int = 1,
    columns: int = 1,
    widths: Sequence[float] | None = None,
    same_y: bool = False,
):
    """A figure of its own, unknown to pyplot: nothing has to be closed and nothing shows it twice.
    `same_y`: one y axis for all.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, width_ratios=widths, sharey=same_y)


def legend(figure: "Figure", axes: "Axes", title: str | None = None, columns: int = 4) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, title=title, frameon=False
    )


def set_accuracy_limits(axes: "Axes", by_round: pd.DataFrame) -> None:
    """Start the accuracy axis where an eighth of the rounds is over: the first would squeeze all
    others into a line.
    """
    settled = by_round.iloc[len(by_round) // 8 :].stack().dropna()
    if len(settled):
        low, high = settled.min(), by_round.max().max()
        margin = max(0.05 * (high - low), 0.2)
        axes.set_ylim(max(0, low - margin), high + margin)
    axes.set_xlim(0, max(by_round.index, default=0) + 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
