"""The picture of pFedLA's Table 3, with an alt text made from what is drawn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.dots import DOT, PAPER
from pfl_lib.display.table_format import run_on
from pfl_lib.display.theme import blank, legend, theme
from pfl_lib.papers.pfedla.costs import LEARNED

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

COUNTED = {"color": "#d55e00", "marker": "x", "linestyle": "none", "markersize": 7}


def megabytes(sent: pd.DataFrame, ran_on: Mapping[str, str]) -> tuple["Figure", str]:
    """Table 3's communication by k, a panel for each data set: a ring for the printed value, a
    cross for the count with the layers that it implies, and a line of dots for what our runs sent.

    `sent`: `costs.beside_runs`; `ran_on`: the paper's data set to ours.  Returns the
    figure and its alt text.
    """
    of_each = list(sent.groupby("dataset", sort=False))
    said = []
    with theme():
        figure, panels = blank(4.0, columns=len(of_each), same_y=True)
        for axes, (dataset, rows) in zip(np.ravel(panels), of_each, strict=True):
            k, title = rows["k"].to_numpy(), dataset
            axes.plot(k, rows["paper"], label="paper", markersize=10, **PAPER)
            axes.plot(k, rows["counted / 8"], label="counted, implied layers", **COUNTED)
            if rows[LEARNED].notna().any():
                title += run_on(dataset, ran_on[dataset])
                ours = DOT | {"linestyle": "-"}
                axes.plot(k, rows[LEARNED], label="sent, learned choice", zorder=1, **ours)
            axes.set(title=title, xlabel="k, retained layers", xticks=k)
            axes.margins(x=0.1)
            said.append(f"{title}: {'; '.join(map(_words, rows.to_dict('records')))}")
        first = np.ravel(panels)[0]
        first.set(
            ylabel="MB (ours divided by 8)",
            ylim=(0, 1.08 * sent[["paper", LEARNED]].max(axis=None)),
        )
        legend(figure, max(np.ravel(panels), key=lambda axes: len(axes.get_lines())), columns=3)
    return (
        figure,
        f"Line plot of communication in MB by the number k of retained layers. {'. '.join(said)}.",
    )


def _words(row: dict) -> str:
    sent = "" if np.isnan(row[LEARNED]) else f", sent {row[LEARNED]:.0f}"
    return f"k={row['k']} printed {row['paper']:.0f}, counted {row['counted / 8']:.0f}{sent}"
