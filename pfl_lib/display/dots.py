"""A printed table beside ours as dots: what the paper prints, what was measured, both spreads."""

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.table_format import run_on, setting_words
from pfl_lib.display.theme import blank, theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # panels in a row; of four, two
TITLE = {1: 60, 2: 34, 3: 20}  # letters that fit above a panel, by panels in a row
BY_METHOD, BY_ROW = 0.27, 0.75  # inches
OURS = "ours (bars: one standard deviation over seeds)"
DOT = {"marker": "o", "markersize": 6, "color": "#0173b2", "linestyle": "none"}
PAPER = {"marker": "o", "markerfacecolor": "white", "color": "#333333", "linestyle": "none"}


def printed_beside_ours(compared: pd.DataFrame, unit: str = "%") -> tuple["Figure", str] | None:
    """A panel for each setting of a table with a run, a line in it for each method: a ring for the
    printed value, a dot for ours, bars for one standard deviation over seeds where there is one.

    `compared`: the rows of `papers.comparison.compare`, of one metric.  Each panel has its own
    axis, since settings differ in their levels.  None where nothing was run.
    """
    place = ["dataset", "setting"]
    ran = compared[compared["ours"].notna()]
    panels = [rows for _, rows in compared.groupby(place, sort=False) if rows["ours"].notna().any()]
    if not panels:
        return None
    columns = 2 if len(panels) == 4 else min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    methods = list(dict.fromkeys(compared["method"]))
    with theme():
        height = lines * (BY_ROW + BY_METHOD * len(methods)) + 0.5
        figure, axes = blank(height, rows=lines, columns=columns, same_y=True)
        axes = list(np.ravel(axes))
        for one, rows in zip(axes, panels, strict=False):
            _panel(one, rows, methods)
            title = _title(rows.iloc[0], ran["dataset"].nunique() > 1)
            one.set_title(_in_lines(title, TITLE[columns]), fontsize=11)
        for one in axes[len(panels) :]:
            one.set_axis_off()
        figure.supxlabel(unit, fontsize=11)
        handles, labels = axes[0].get_legend_handles_labels()
        chosen = dict(zip(labels, handles, strict=True))
        figure.legend(
            chosen.values(), chosen, loc="outside upper right", ncols=2, frameon=False, fontsize=11
        )
    return figure, _alt(compared, len(panels))


def _panel(axes: "Axes", rows: pd.DataFrame, methods: list[str]) -> None:
    for row in rows.to_dict("records"):
        y = methods.index(row["method"])
        if not math.isnan(row["paper"]):
            axes.errorbar(
                row["paper"],
                y - 0.16,
                xerr=_width(row["paper std"]),
                label="paper",
                markersize=6,
                **PAPER,
            )
        if not math.isnan(row["ours"]):
            spread = _width(row["ours std"])
            axes.errorbar(row["ours"], y + 0.16, xerr=spread, label=OURS, **DOT)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=4)
    axes.grid(axis="y", visible=False)


def _title(row: pd.Series, several: bool) -> str:
    """The setting, with its data set where there are several, and with the data that were run where
    those are not the paper's.
    """
    words = f"{row['dataset']}, {row['setting']}" if several else str(row["setting"])
    return setting_words(words) + run_on(row["dataset"], row["run on"])


def _in_lines(title: str, width: int) -> str:
    """A title broken where its commas are, to so many letters a line if it can be."""
    whole = ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in title.split(", "))
    lines = textwrap.fill(whole, width, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\N{NO-BREAK SPACE}", " ")


def _width(std: float) -> float | None:
    return None if math.isnan(std) or std == 0 else std


def _alt(compared: pd.DataFrame, panels: int) -> str:
    ran = compared[compared["ours"].notna()]
    words = (
        f"Dot plot in {panels} panel{'s' * (panels > 1)}: the printed value (ring) and ours (dot)"
        f" of {ran['method'].nunique()} methods."
    )
    apart = (ran["ours"] - ran["paper"]).abs().dropna()
    if apart.empty:
        return words
    most = ran.loc[apart.idxmax()]
    return (
        f"{words} Half of the {len(apart)} differences are below {apart.median():.2f}; the largest"
        f" is {apart.max():.2f}, of {most['method']} on {most['dataset']}, {most['setting']}"
        f" (printed {most['paper']:.2f}, ours {most['ours']:.2f})."
    )
