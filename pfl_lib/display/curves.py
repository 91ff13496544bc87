"""Accuracy by round, and what is left of it in the last one."""

from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.display import theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes

MARKED = 8  # markers on a line, about


def accuracy(
    frame: pd.DataFrame, ax: "Axes | None" = None, y: str = "accuracy", x: str = "round"
) -> "Axes":
    """Draw a line for each method: its mean over seeds, with a band of one standard deviation where
    there are several; returns the axes.

    `frame`: rows with method, seed, round (or what `x` names) and what `y` names, in percent for
    an accuracy; several rows of one seed and round (clients) are averaged.  A line ends before the
    first round that one of its seeds lacks, or has NaN in: that run diverged.
    """
    import seaborn

    if ax is None:
        ax = theme.blank(4.4)[1]
    by_seed = frame.groupby(["method", x, "seed"], sort=False)[y].mean().reset_index()
    several = by_seed.groupby("method")["seed"].nunique().max() > 1
    whole = by_seed.groupby(["method", x])[y].transform("count")
    shown = by_seed[whole == by_seed.groupby("method")["seed"].transform("nunique")]
    names = list(dict.fromkeys(frame["method"]))
    style = theme.looks(names) | {"markevery": max(1, shown[x].nunique() // MARKED)}
    band = {"errorbar": "sd" if several else None, "err_kws": {"alpha": 0.15, "linewidth": 0}}
    seaborn.lineplot(shown, x=x, y=y, hue="method", style="method", ax=ax, **band, **style)
    means = shown.groupby([x, "method"])[y].mean().unstack()
    if "accuracy" in y and len(means):
        theme.set_accuracy_limits(ax, means)
    seeds = by_seed["seed"].nunique()
    title = f"mean of {seeds} seeds, band: one standard deviation" if several else None
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 4}
    legend = ax.legend(**below, title=title, frameon=False)
    last = shown.groupby("method")[x].max()
    for text, name in zip(legend.get_texts(), names, strict=True):
        if last.get(name, 0) < last.max():
            text.set_text(f"{name}, to {x} {last.get(name, 0):g}")
    ax.set(xlabel=x, ylabel=f"{y} (%)" if "accuracy" in y else y)
    return ax


def mean_and_worst(frame: pd.DataFrame) -> "Axes":
    """Draw each method's last accuracy, the mean over clients and the worst client, with one
    standard deviation over seeds; returns the axes.

    `frame`: rows with method, seed, clients ("mean", "worst") and accuracy in percent.
    """
    import seaborn

    ax = theme.blank(max(2.4, 0.5 * frame["method"].nunique() + 1.6))[1]
    marks = {"markers": ["o", "v"], "palette": ["#0173b2", "#de8f05"], "linestyle": "none"}
    seaborn.pointplot(
        frame,
        x="accuracy",
        y="method",
        hue="clients",
        errorbar="sd",
        dodge=0.3,
        ax=ax,
        capsize=0.1,
        err_kws={"linewidth": 1.5},
        **marks,
    )
    ax.set(xlabel="accuracy in the last round (%)", ylabel="")
    seaborn.move_legend(ax, "upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax
