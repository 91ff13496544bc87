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

WIDTH = 6.4  # inches
DPI = 120

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
OTHER_LOOKS = (
    ("#de8f05", "P", "-"),
    ("#ca9161", "<", "-."),
    ("#000000", "*", ":"),
    ("#fbafe4", ">", "--"),
)
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
        "font.size": 11,
        "axes.titlesize": 12,
        "axes.labelsize": 11,
        "legend.title_fontsize": 11,
    }
    sizes |= dict.fromkeys(["xtick.labelsize", "ytick.labelsize", "legend.fontsize"], 10)
    lines = {
        "lines.linewidth": 1.8,
        "lines.markersize": 5.5,
        "grid.color": "#dddddd",
        "axes.edgecolor": "#888888",
    }
    with matplotlib.rc_context(
        {**seaborn.axes_style("whitegrid"), **sizes, **lines, "figure.dpi": DPI}
    ):
        yield


def look(method: str, among: Iterable[str] = ()) -> dict[str, str]:
    """Colour, marker and line style of a method; an unknown one takes a spare look by its place
    `among` the unknown.
    """
    if method.lower() in LOOKS:
        colour, marker, line = LOOKS[method.lower()]
    else:
        unknown = [name for name in among if name.lower() not in LOOKS] or [method]
        colour, marker, line = OTHER_LOOKS[unknown.index(method) % len(OTHER_LOOKS)]
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
    display({"image/png": image, "text/plain": alt}, raw=True, metadata={"image/png": {"alt": alt}})


def png(figure: "Figure") -> bytes:
    """The figure as PNG; the same bytes every time, for no date and no program's version is written
    into it.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
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


def legend(figure: "Figure", axes: "Axes", title: str | None = None, columns: int = 3) -> None:
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
