"""The look of every figure: one theme, a look for each method, PNGs that carry their alt text."""

import base64
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.category import StrCategoryFormatter
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FuncFormatter
from PIL import Image

from pfl_lib.methods import METHODS, short_name

WIDTH = 8.4  # inches
DPI = 240  # on a page 1,300 pixels wide more than the screen has, on a phone's fine screen too
MANY = 20  # rounds, of which the first may lie below the axis
FEW = 12  # dots that an alt text tells one by one
NEAR = 0.2  # of the way between two ticks: so far from its tick a dot may stand
BESIDE = 0.45  # where ticks are names alone, as seaborn's are, at 0, 1, 2, ...
SHADES = 160  # different colours in a picture, see `png`

LOOKS: dict[str, tuple[str, str, str]] = {
    known.lower(): method.look
    for name, method in METHODS.items()
    if hasattr(method, "look")
    for known in (name, method.title, short_name(method))
}
"""Colour (of seaborn's colour-blind palette), marker and line of a method, by each of its names."""
LOOKS |= {  # further names and readings of four methods, on one page with them
    **dict.fromkeys(["fedfomo", "fedfomo (n=5)", "fedfomo (n=5), out"], ("#a6001a", "h", "-")),
    **dict.fromkeys(["fedfomo (n=10)", "fedfomo (n=10), out"], ("#e7298a", "p", "-")),
    "fedfomo (n=5), in": ("#5c000e", "8", ":"),
    "fedfomo (n=10), in": ("#f5a3cd", "H", ":"),
    "local training": METHODS["local"].look,
    "waffle, c as printed": ("#de8f05", "d", ":"),
    "apfl, by round": ("#5b2a86", "<", ":"),
}
# Of what has no look of its own: their numbers have no common divisor, so that not even thirty
# share a look.
OTHERS = (
    ("#000000", "#de8f05", "#7a4fbf", "#b59f00", "#ca9161", "#5d7a00", "#1b2a6b", "#f781bf"),
    ("P", "*", "<", "X", ">", "h", "p"),
    ("-", ":", "-.", "--", (0, (1, 1, 5, 1))),
)
# Lines and markers as seaborn wants them: it does not mix filled markers and others.
DASHES = {"-": "", "--": (4, 1.5), "-.": (3, 1.25, 1.5, 1.25), ":": (1, 1)}
FILLED = {"x": "X", "+": "P"}


def _settings() -> dict[str, object]:
    sizes = {"font.size": 12, "axes.labelsize": 12, "legend.title_fontsize": 12}
    sizes |= dict.fromkeys(["xtick.labelsize", "ytick.labelsize", "legend.fontsize"], 11)
    lines = {"lines.linewidth": 1.8, "lines.markersize": 5.5, "figure.dpi": 100}
    colours = {"grid.color": "#dddddd", "axes.edgecolor": "#888888"}
    return {**seaborn.axes_style("whitegrid"), **sizes, **lines, **colours, "axes.titlesize": 13}


def use() -> None:
    """Give every figure of this process the one look: sizes, grid, colour-blind palette."""
    matplotlib.rcParams.update(_settings())
    seaborn.set_palette("colorblind")


def theme() -> AbstractContextManager[None]:
    """The look of every figure, for as long as it is being drawn."""
    return matplotlib.rc_context(_settings())


def looks(names: Iterable[str]) -> dict[str, object]:
    """What seaborn's line plots need so that each method keeps its colour, marker and line:
    palette, markers, dashes, hue_order, style_order and markevery.
    """
    names = list(dict.fromkeys(names))
    drawn = {"palette": {}, "markers": {}, "dashes": {}}
    for name in names:
        colour, marker, line = look(name, names).values()
        drawn["palette"][name], drawn["markers"][name] = colour, FILLED.get(marker, marker)
        drawn["dashes"][name] = DASHES[line] if isinstance(line, str) else line[1]
    return drawn | {"hue_order": names, "style_order": names, "markevery": 0.1}


def plain(name: object) -> str:
    """A name as text of a figure, where "_" in front would leave it out of a legend and "$" begin a
    formula.
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def describe(figure: Figure) -> str:
    """What is drawn, in numbers: of each panel the first and the last value of its lines, the least
    and the largest of its bars, dots and heat maps.
    """
    names = _entries(*figure.legends, *(axes.get_legend() for axes in figure.axes))
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    labels = [(axes.get_ylabel(), axes.get_xlabel()) for axes in panels]
    # Panels of a grid have the labels of its edges.
    every = [{*of} - {""} for of in zip(*labels, strict=True)]
    edges = [of.pop() if len(of) == 1 else "" for of in every]
    told = []
    for axes, own in zip(panels, labels, strict=True):
        named = names | _entries(axes.get_legend())  # two panels may use a colour for two things
        if words := [*_bars(axes, named), *_lines(axes, named), *_clouds(axes, named)]:
            counted = Counter(words).items()
            words = [f"{count} times {word}" if count > 1 else word for word, count in counted]
            by = (label or edge for label, edge in zip(own, edges, strict=True))
            heading = [axes.get_title(), " by ".join(filter(None, by)), ", ".join(words)]
            told.append(": ".join(filter(None, heading)))
    return "; ".join(told).replace(r"\$", "$") + "." if told else ""


def _entries(*legends) -> dict[tuple[str, object], str]:
    return {
        _stroke(drawn): text.get_text()
        for legend in filter(None, legends)
        for drawn, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }


def _stroke(drawn) -> tuple[str, object]:
    """What tells two lines or bars apart, and joins each to its entry in the legend."""
    colour = drawn.get_color() if hasattr(drawn, "get_color") else drawn.get_facecolor()
    if not len(colour):  # hollow dots
        colour = drawn.get_edgecolor()
    colour = colour if isinstance(colour, str) else np.ravel(colour)[:4]
    return to_hex(colour), getattr(drawn, "get_marker", lambda: None)()


def span(values, form: str = ".4g") -> str:
    """The least and the largest value: "1 to 3"; where they are the same, one."""
    return " to ".join(dict.fromkeys(format(end(values), form) for end in (np.nanmin, np.nanmax)))


def _bars(axes: Axes, names: dict) -> Iterator[str]:
    for bars in axes.containers:
        if hasattr(bars, "datavalues") and len(bars):
            yield f"{names.get(_stroke(bars[0]), '')} bars {span(bars.datavalues)}".strip()


def _counted(axes: Axes) -> tuple[int, bool]:
    """The axis of numbers, 0 for x and 1 for y, and whether the other one's ticks are names."""
    words = (FixedFormatter, FuncFormatter, StrCategoryFormatter)
    x, y = (isinstance(axis.get_major_formatter(), words) for axis in (axes.xaxis, axes.yaxis))
    return int(x or not y), x or y


def _clouds(axes: Axes, names: dict) -> Iterator[str]:
    counted, named = _counted(axes)
    by_colour = {colour: name for (colour, _), name in names.items()}
    for drawn in (*axes.images, *axes.collections):
        kind = type(drawn).__name__
        if kind == "PathCollection" and len(drawn.get_offsets()):
            across, values = np.asarray(drawn.get_offsets()).T[[1 - counted, counted]]
            faces = drawn.get_facecolor()
            each = [to_hex(face) for face in faces] if len(faces) == len(values) else []
            each = np.array(each or [_stroke(drawn)[0]] * len(values))
            for colour in dict.fromkeys(each):
                mine = each == colour
                beside = _ticks(axes, across[mine]) if named else [""]
                place = beside[0] if len({*beside}) == 1 else ""
                name = by_colour.get(colour, "")
                yield " ".join(filter(None, (place, name, "dots", span(values[mine]))))
        elif kind in ("QuadMesh", "AxesImage"):
            yield f"values {span(drawn.get_array())}"


def _lines(axes: Axes, names: dict) -> Iterator[str]:
    """Each line from its first to its last value; a few dots beside names by name, others by their
    range.  Beside lines with names, others are error bars or guides.
    """
    counted, named = _counted(axes)
    called = {}
    for line in axes.lines:
        if line.get_transform() == axes.transData:
            colour, _ = stroke = _stroke(line)
            name = names.get(stroke) or names.get((colour, None)) or line.get_label()
            called[line] = "" if name.startswith("_") else name
    for line, name in called.items():
        points = np.asarray(line.get_xydata(), float)
        points = points[np.isfinite(points).all(axis=1)]
        if not len(points) or (any(called.values()) and not name):
            continue
        if line.get_linestyle() != "None" and not named:
            (first, start), (last, end) = points[0], points[-1]
            said = f"{start:.4g} at {first:.4g} to {end:.4g} at {last:.4g}"
        elif not named or len(points) > FEW:
            said = span(points[:, counted])
        else:
            across, values = points.T[[1 - counted, counted]]
            beside = zip(_ticks(axes, across), values, strict=True)
            said = ", ".join(f"{tick} {value:.4g}" for tick, value in beside)
        yield f"{name} {said}".strip()


def _ticks(axes: Axes, across: np.ndarray) -> list[str]:
    """The names beside which dots lie, which step aside a little; else their places."""
    axis = (axes.xaxis, axes.yaxis)[1 - _counted(axes)[0]]
    places = np.asarray(axis.get_majorticklocs(), float)
    if not len(places):
        return [f"{at:.4g}" for at in across]
    names = axis.get_major_formatter().format_ticks(places)
    whole = np.array_equal(places, np.arange(len(places)))
    near = BESIDE if whole else NEAR * np.diff(np.sort(places)).min() if len(places) > 1 else 0
    nearest = [int(np.abs(at - places).argmin()) for at in across]
    pairs = zip(across, nearest, strict=True)
    return [
        " ".join(names[k].split()) if abs(at - places[k]) <= near else f"{at:.4g}"
        for at, k in pairs
    ]


def look(method: str, among: Iterable[str] = ()) -> dict[str, object]:
    """Colour, marker and line of a method; an unknown one's by its place `among` the unknown."""
    unknown = [*(name for name in among if name.lower() not in LOOKS), method]
    spare = tuple(of[unknown.index(method) % len(of)] for of in OTHERS)
    colour, marker, line = LOOKS.get(method.lower(), spare)
    return {"color": colour, "marker": marker, "linestyle": line}


def show(figure: Figure, says: str) -> None:
    """Show a figure in a notebook as a PNG, and close it; outside a notebook nothing is shown.  Its
    alt text is `says`, one sentence, and the numbers drawn.
    """
    pyplot.close(figure)
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    if ipython is None or ipython.get_ipython() is None:
        return
    alt = f"{says} {describe(figure)}".strip()
    image = base64.b64encode(png(figure)).decode()
    # Fewer than it has pixels: a notebook then shows it sharp on fine screens too.
    metadata = {"image/png": {"alt": alt, "width": round(figure.get_figwidth() * 100)}}
    ipython.display.display({"image/png": image, "text/plain": alt}, raw=True, metadata=metadata)


def png(figure: Figure, dpi: int = DPI, shades: int = SHADES) -> bytes:
    """The figure as PNG; the same bytes every time, for no date and no program's version is written
    into it.

    It has so many colours (`_few`), and takes a quarter to a half of the room of all colours.
    """
    own, canvas, buffer = figure.canvas, FigureCanvasAgg(figure), io.BytesIO()
    before = figure.dpi
    figure.set_dpi(dpi)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    figure.set_dpi(before)
    figure.set_canvas(own)
    _few(picture, shades).save(buffer, "PNG", compress_level=9)
    return buffer.getvalue()


def _few(picture: Image.Image, shades: int) -> Image.Image:
    """The picture in so many colours: a fifth of them are its most frequent ones, so that areas
    keep theirs exactly; the others are spread so that thin lines keep theirs nearly.
    """
    counted = picture.getcolors(picture.width * picture.height)
    found = np.array([colour for _, colour in sorted(counted, reverse=True)], np.int32)
    others = shades - shades // 5
    spread = picture.quantize(others, method=Image.Quantize.MAXCOVERAGE).getpalette()
    spread = np.reshape(np.array(spread[: 3 * others], np.int32), (-1, 3))
    palette = np.concatenate([found[: shades // 5], spread])
    place, bytes_of = np.zeros(1 << 24, np.uint8), [1 << 16, 1 << 8, 1]
    for some in np.array_split(found, 1 + len(found) // 10_000):  # all at once take gigabytes
        place[some @ bytes_of] = ((some[:, None] - palette) ** 2).sum(-1).argmin(1)
    few = Image.fromarray(place[np.asarray(picture, np.int32) @ bytes_of])
    few.putpalette(palette.astype(np.uint8).tobytes())
    return few


def blank(height: float, rows: int = 1):
    """A figure unknown to pyplot, and its panels: it need not be closed and is not shown twice."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows)


def set_accuracy_limits(axes: Axes, by_round: pd.DataFrame) -> None:
    """Start the accuracy axis where an eighth of many rounds is over: the first would squeeze all
    others into a line.  `by_round`: a row for each round, or for each of other steps.
    """
    values = by_round.to_numpy(float)
    settled = values[len(values) // 8 if len(values) > MANY else 0 :]
    if np.isfinite(settled).any():
        low, high = np.nanmin(settled), np.nanmax(values)
        margin = max(0.05 * (high - low), 0.2)
        axes.set_ylim(max(0, low - margin), high + margin)


def set_rounds(axes: Axes, last: float) -> None:
    """Whole numbers from 0 to beyond the last round."""
    axes.set_xlim(0, last + 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
