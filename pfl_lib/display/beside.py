"""The paper's values beside ours, as dots."""

import base64
import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pfl_lib.display import play, theme

WIDE = 3.2  # inches: a panel fits a telephone of 360 pixels


def dots(compared: pd.DataFrame) -> dict[str, Figure]:
    """A figure for each row of the table, by its name: the methods that were printed or run
    downwards, what the paper prints and our mean with their standard deviations; where ours
    diverged, the word in its place.

    `compared`: the frame of `papers.compare.beside`, or of `with_exact`, one metric.
    """
    marks = {"printed": ("printed", "black", "o"), "ours": ("ours", "#de8f05", "X")}
    if "exact ours" in compared:
        exact = {"ours, exact": ("exact ours", "#0173b2", "D")}
        marks = {"printed": marks["printed"], **exact, "ours, smaller": marks["ours"]}
    shifts = 0.19 * (np.arange(len(marks)) - (len(marks) - 1) / 2)
    columns = [column for column, *_ in marks.values()]
    became = compared[[column.replace("ours", "status") for column in columns[1:]]]
    there = compared[columns].notna().any(axis=1) | (became == "diverged").any(axis=1)
    compared = compared[there] if there.any() else compared
    several = compared["dataset"].nunique() > 1
    place = compared["dataset"] + ", " if several else ""
    place = place + compared["setting"]
    figures = {}
    for name, rows in compared.groupby(place, sort=False):
        title, methods = textwrap.fill(theme.plain(name), 26), list(dict.fromkeys(rows["method"]))
        names = [textwrap.fill(theme.plain(method), 16) for method in methods]
        lines = [len(name.splitlines()) for name in names]  # two neighbours of two each need more
        line = max(0.28, *(0.1 * (a + b) for a, b in zip(lines, lines[1:], strict=False)), 0)
        high = 1.7 + 0.2 * len(title.splitlines()) + line * len(methods)
        figure = Figure((WIDE, high), layout="constrained")
        axes = figure.add_subplot()
        at = pd.Series([methods.index(method) for method in rows["method"]], rows.index)
        lost = []
        for (label, (column, colour, marker)), shift in zip(marks.items(), shifts, strict=True):
            became = rows[column.replace("ours", "status")]  # of what is printed a number
            lost += [(k, at[k] + shift, colour) for k in rows.index[became == "diverged"]]
            if rows[column].isna().all() and not (became == "diverged").any():
                continue
            spread = rows[f"{column} std"].fillna(0)
            look = {"fmt": marker, "color": colour, "label": label}
            axes.errorbar(rows[column], at + shift, xerr=spread, **look)
        axes.set(yticks=range(len(methods)), yticklabels=names, ylim=(len(methods) - 0.5, -0.5))
        axes.set(xlabel=rows["metric"].iloc[0])
        least, most = axes.get_xlim()
        for k, height, colour in lost:  # at the side with more room
            left = rows.loc[k, columns].min() - least >= most - rows.loc[k, columns].max()
            words = {"color": colour, "transform": axes.get_yaxis_transform()}
            words |= {"va": "center", "fontsize": "x-small", "zorder": 5}
            words["bbox"] = {"color": "white", "pad": 0.5}  # over a line that it may meet
            side = {"x": 0.02, "ha": "left"} if left else {"x": 0.98, "ha": "right"}
            axes.text(y=height + 0.06, s="diverged", **side, **words)
        figure.suptitle(title)  # above the names too, which may leave the axes little room
        bars = rows[[f"{column} std" for column in columns]].notna().any(axis=None)
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
