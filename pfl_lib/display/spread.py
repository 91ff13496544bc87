"""The spread over several seeds: a band around a line of accuracy by round."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pfl_lib.results.result import Result


def deviation(results: Sequence["Result"], running_best: bool = False) -> pd.Series:
    """Sample standard deviation over results of the accuracy, or of the best so far, in points, by
    round.
    """
    runs = pd.concat([100 * result.accuracy_by_round().astype(float) for result in results], axis=1)
    return (runs.cummax() if running_best else runs).std(axis=1, skipna=False)


def band(
    axes: "Axes", mean: pd.Series, results: Sequence["Result"], running_best: bool = False
) -> None:
    """A band of one standard deviation around a mean, in the colour of the line drawn last; none
    for a single result.
    """
    if len(results) > 1:
        width = deviation(results, running_best).reindex(mean.index)
        colour = {"color": axes.get_lines()[-1].get_color(), "alpha": 0.15, "linewidth": 0}
        axes.fill_between(mean.index, mean - width, mean + width, **colour)
