"""Lines over a number that is not the round, with an alt text made from what is drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.display.theme import blank, legend, look, theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

ROOM = 0.06  # of an axis: what a number of four signs needs


def of_table(
    table: pd.DataFrame, xlabel: str, ylabel: str, spread: pd.DataFrame | None = None
) -> tuple["Figure", str]:
    """A line for each column of a table over its index; `spread`, of the same shape: bars up and
    down.
    """
    with theme():
        figure, axes = blank(4.0)
        for name, column in table.items():
            known = column.dropna()
            drawn = look(str(name), map(str, table.columns))
            if spread is None or spread[name].isna().all():
                axes.plot(known.index, known, label=name, **drawn)
            else:
                bars = spread[name].reindex(known.index).fillna(0)
                axes.errorbar(known.index, known, yerr=bars, capsize=3, label=name, **drawn)
        axes.set(xlabel=xlabel, ylabel=ylabel, xticks=apart(table.index))
        axes.set_xticklabels([f"{x:g}" for x in apart(table.index)])
        if len(table.columns) > 1:
            legend(figure, axes)
    told = [
        f"{name}: " + ", ".join(f"{y:.2f} at {x:g}" for x, y in column.dropna().items())
        for name, column in table.items()
        if column.notna().any()
    ]
    return figure, f"Line plot of {ylabel} by {xlabel}. {'; '.join(told) or 'Nothing was run'}."


def apart(places: Sequence[float]) -> list[float]:
    """Those of some rising places whose numbers do not run into each other on an axis."""
    kept = list(places[:1])
    for place in places:
        if place - kept[-1] > ROOM * (places[-1] - places[0]):
            kept.append(place)
    return kept
