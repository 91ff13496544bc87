"""The paper's values beside ours, as dots."""

import base64
import textwrap

import pandas as pd
from matplotlib.figure import Figure

from pfl_lib.display import play, theme

PAPER, OURS = "black", "#de8f05"
WIDE = 3.2  # inches: a panel fits a telephone of 360 pixels


def dots(compared: pd.DataFrame) -> dict[str, Figure]:
    """A figure for each row of the table, by its name: methods downwards, what the paper prints and
    our mean with their standard deviations; where ours diverged, the word in its place.

    `compared`: the frame of `papers.compare.beside`, one metric.
    """
    methods = list(dict.fromkeys(compared["method"]))
    several = compared["dataset"].nunique() > 1
    place = compared["dataset"] + ", " if several else ""
    place = place + compared["setting"].str.replace("_", " ")
    figures = {}
    for name, rows in compared.groupby(place, sort=False):
        title = textwrap.fill(name, 26)
        names = [textwrap.fill(method, 16) for method in methods]
        lines = [len(name.splitlines()) for name in names]  # two neighbours of two each need more
        line = max(0.28, *(0.1 * (a + b) for a, b in zip(lines, lines[1:], strict=False)), 0)
        high = 1.7 + 0.2 * len(title.splitlines()) + line * len(methods)
        figure = Figure((WIDE, high), layout="constrained")
        axes = figure.add_subplot()
        at = pd.Series([methods.index(method) for method in rows["method"]], rows.index)
        for column, shift, colour, marker in (
            ("printed", -0.14, PAPER, "o"),
            ("ours", 0.14, OURS, "X"),
        ):
            spread = rows[f"{column} std"].fillna(0)
            mark = {"fmt": marker, "color": colour, "label": column}
            axes.errorbar(rows[column], at + shift, xerr=spread, **mark)
        for row in at[rows["status"].str.startswith("diverged")]:
            words = {"color": OURS, "va": "center", "transform": axes.get_yaxis_transform()}
            axes.text(0.02, row + 0.2, "diverged", fontsize="x-small", **words)
        axes.set(yticks=range(len(methods)), yticklabels=names, ylim=(len(methods) - 0.5, -0.5))
        unit = rows["metric"].iloc[0].replace("_percent", ", %").replace("_", " ")
        axes.set(xlabel=unit)
        figure.suptitle(title)  # above the names too, which may leave the axes little room
        bars = rows[["printed std", "ours std"]].notna().any(axis=None)
        told = {"title": "bars: one standard deviation", "title_fontsize": "small"} if bars else {}
        figure.legend(loc="outside lower center", ncols=2, frameon=False, **told)
        figures[name] = figure
    return figures


def bundle(figures: dict[str, Figure]) -> dict[str, object]:
    """What a notebook displays: the figures next to each other, as many as the window has room for;
    the first alone, for the index of pages; and their words.
    """
    words = {name: f"{name}. {theme.describe(figure)}" for name, figure in figures.items()}
    shown = [
        f'<div style="flex:0 1 {WIDE * 100:.0f}px">{play.picture(figure, words[name])}</div>'
        for name, figure in figures.items()
    ]
    return {
        "text/html": f'<div style="display:flex;flex-wrap:wrap;gap:.5rem">{"".join(shown)}</div>',
        "image/png": base64.b64encode(theme.png(next(iter(figures.values())))).decode(),
        "text/plain": "\n".join(words.values()),
    }
