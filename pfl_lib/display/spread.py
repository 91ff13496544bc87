"""Accuracy by round over several seeds: a line for the mean, a band for the spread."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.display import tables
from pfl_lib.display.theme import blank, legend, look, set_accuracy_limits, theme
from pfl_lib.results.summary import at_round, gather

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pfl_lib.results.result import Result


def accuracy_with_spread(
    results: Mapping[str, Sequence["Result"]], own: Collection[str] = ()
) -> tuple["Figure", str]:
    """Each round's accuracy in percent, a line for each name: the mean over its results, and a band
    of one sample standard deviation to either side where there are several.

    `results`: name -> its results, a seed each.  A line stops where the first of its runs diverged;
    its name in the legend says so.  `own`: names whose lines are thick and above all others.
    Returns the figure and its alt text.
    """
    means = tables.accuracy_by_round(results)
    numbers = {len(several) for several in results.values()}
    (seeds_of_all,) = numbers if len(numbers) == 1 else (None,)
    diverged = means.attrs["diverged"]
    said = []
    with theme():
        figure, axes = blank(4.4)
        spacing = max(1, len(means) // 8)
        for name, mean in means.items():
            mean, spread = mean.dropna(), deviation(results[name])
            drawn = look(name, means.columns) | (
                {"linewidth": 3.2, "zorder": 4} if name in own else {}
            )
            ended = f", {at_round(diverged[name])}" if name in diverged else ""
            told = "" if seeds_of_all else f" ({_count(len(results[name]))})"
            axes.plot(mean.index, mean, label=f"{name}{told}{ended}", markevery=spacing, **drawn)
            band(axes, mean, results[name])
            seeds = len(results[name])
            last = f" {mean.iloc[-1]:.2f}" if len(mean) else ""
            width = f" ± {spread[mean.index[-1]]:.2f}" if len(mean) and seeds > 1 else ""
            said.append(f"{name}{last}{width} ({_count(seeds)}{ended})")
        set_accuracy_limits(axes, means)
        axes.set(xlabel="round", ylabel="accuracy (%)")
        bands = ", band: one standard deviation" if max(numbers) > 1 else ""
        of = f"mean over {_count(seeds_of_all)}" if seeds_of_all else "mean over seeds"
        legend(figure, axes, title=_count(1) if seeds_of_all == 1 else of + bands)
    alt = (
        f"Line plot: accuracy in percent by round, mean over seeds with a band of one standard"
        f" deviation; last: {', '.join(said)}."
    )
    return figure, alt


def by_round(
    results: Mapping[str, Sequence["Result"]], metric: str = "accuracy", along: str = "rounds"
) -> tuple["Figure", str]:
    """A number of each round, a line for each name: its mean over seeds, and a band of one sample
    standard deviation where there are several.

    `metric`: "accuracy" or "worst client" in percent, or "loss", the mean over clients.  `along`:
    "rounds", or "seconds" of training, a run's own spread evenly over its rounds and then averaged
    over seeds.  Returns the figure and its alt text.
    """
    scale = 1 if metric == "loss" else 100
    column = "loss" if metric == "loss" else "accuracy"
    said = []
    with theme():
        figure, axes = blank(4.4)
        for name, several in results.items():
            runs = []
            for result in several:
                rounds = result.metrics.groupby("round")[column]
                runs.append(scale * (rounds.min() if metric == "worst client" else rounds.mean()))
            frame = pd.concat(runs, axis=1)
            mean, width = frame.mean(axis=1, skipna=False).dropna(), frame.std(axis=1, skipna=False)
            if not len(mean):
                said.append(f"{name} without a common round")
                continue
            a_round = sum(r.seconds / r.metrics["round"].max() for r in several) / len(several)
            x = mean.index.to_numpy() * (a_round if along == "seconds" else 1)
            style = look(name, results)
            every = max(1, len(mean) // 8)
            label = f"{name} ({_count(len(several))})"
            axes.plot(x, mean, label=label, markevery=every, **style)
            told = ""
            if len(several) > 1:
                band = width.reindex(mean.index)
                shade = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(x, mean - band, mean + band, **shade)
                told = f" ± {band.iloc[-1]:.2f}"
            said.append(f"{name} {mean.iloc[-1]:.2f}{told} ({_count(len(several))})")
        unit = "loss, mean over clients" if metric == "loss" else f"{metric}, %"
        axes.set(xlabel="round" if along == "rounds" else "seconds of training", ylabel=unit)
        several = any(len(runs) > 1 for runs in results.values())
        band = ", band: one standard deviation" if several else ""
        legend(figure, axes, title=f"mean over seeds{band}")
    what = metric if metric == "loss" else f"{metric} in percent"
    alt = f"Line plot: {what} by {along}, mean over seeds{band}; last: {', '.join(said)}."
    return figure, alt


def so_far(accuracy: pd.Series, rounds: int, name: str) -> tuple["Figure", str]:
    """Accuracy by round (0 to 1) of a run that goes on, in percent, on an axis of all its rounds.

    Returns the figure and its alt text.
    """
    with theme():
        figure, axes = blank(3.4)
        axes.plot(accuracy.index, 100 * accuracy, **look(name))
        axes.set(xlabel="round", ylabel="accuracy (%)", xlim=(0, rounds + 1))
        axes.xaxis.get_major_locator().set_params(integer=True)
    last = f"{100 * accuracy.iloc[-1]:.2f}"
    return figure, f"Line plot: accuracy of {name} in percent by round; last: {last}."


def mean_and_worst(results: Mapping[str, Sequence["Result"]]) -> tuple["Figure", str]:
    """The last round's accuracy in percent for each name: the mean over clients, and the worst
    client, each with a line of one sample standard deviation over seeds to either side.

    `results`: name -> its results, a seed each; one that diverged has no marks.  Returns the figure
    and its alt text.
    """
    said, ticks = [], list(results)
    with theme():
        figure, axes = blank(max(2.2, 0.5 * len(results) + 1.4))
        for place, (name, several) in enumerate(results.items()):
            runs = list(zip(range(len(several)), several, strict=True))
            drawn = look(name, results)
            told = []
            for over, marker, face in (("clients", "o", drawn["color"]), ("worst", "v", "none")):
                ours = gather(runs, "last", over=over)
                if not ours.comparable:
                    told = [ours.status]
                    break
                width = 0.0 if math.isnan(ours.std) else ours.std
                axes.errorbar(
                    ours.mean,
                    place,
                    xerr=width,
                    color=drawn["color"],
                    marker=marker,
                    markerfacecolor=face,
                    markersize=9,
                    capsize=4,
                    linestyle="none",
                )
                told.append(f"{ours.mean:.2f} ± {width:.2f}" if width else f"{ours.mean:.2f}")
            said.append(f"{name} {', worst '.join(told)} ({_count(len(several))})")
        axes.set_yticks(range(len(ticks)), ticks)
        axes.invert_yaxis()
        axes.set(xlabel="accuracy in the last round (%): ● mean over clients, ▽ worst client")
    return (
        figure,
        f"Dot plot: last round's accuracy in percent, mean and worst client: {'; '.join(said)}.",
    )


def _count(seeds: int) -> str:
    return f"{seeds} seed{'s' * (seeds > 1)}"


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
