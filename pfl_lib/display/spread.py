"""Accuracy by round over several seeds: a line for the mean, a band for the spread."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.display import tables
from pfl_lib.display.theme import blank, legend, look, set_accuracy_limits, theme
from pfl_lib.results.summary import at_round

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pfl_lib.results.result import Result


def accuracy_with_spread(results: Mapping[str, Sequence["Result"]]) -> tuple["Figure", str]:
    """Each round's accuracy in percent, a line for each name: the mean over its results, and a band
    of one sample standard deviation to either side where there are several.

    `results`: name -> its results, a seed each.  A line stops where the first of its runs diverged;
    its name in the legend says so.  Returns the figure and its alt text.
    """
    means = tables.accuracy_by_round(results)
    diverged = means.attrs["diverged"]
    said = []
    with theme():
        figure, axes = blank(4.4)
        spacing = max(1, len(means) // 8)
        for name, mean in means.items():
            mean, spread = mean.dropna(), _spread(results[name])
            drawn = look(name, means.columns)
            ended = f", {at_round(diverged[name])}" if name in diverged else ""
            axes.plot(mean.index, mean, label=f"{name}{ended}", markevery=spacing, **drawn)
            if len(results[name]) > 1:
                band = spread.reindex(mean.index)
                colour = {"color": drawn["color"], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(mean.index, mean - band, mean + band, **colour)
            seeds = len(results[name])
            last = f" {mean.iloc[-1]:.2f}" if len(mean) else ""
            width = f" ± {spread[mean.index[-1]]:.2f}" if len(mean) and seeds > 1 else ""
            said.append(f"{name}{last}{width} ({seeds} seed{'s' * (seeds > 1)}{ended})")
        set_accuracy_limits(axes, means)
        axes.set(xlabel="round", ylabel="accuracy (%)")
        legend(figure, axes)
    alt = (
        f"Line plot: accuracy in percent by round, mean over seeds with a band of one standard"
        f" deviation; last: {', '.join(said)}."
    )
    return figure, alt


def _spread(results: Sequence["Result"]) -> pd.Series:
    """Sample standard deviation over results, in points, by round."""
    runs = pd.concat([100 * result.accuracy_by_round().astype(float) for result in results], axis=1)
    return runs.std(axis=1, skipna=False)
