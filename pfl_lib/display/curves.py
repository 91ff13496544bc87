"""Accuracy by round, and what is left of it in the last one."""

import textwrap

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfl_lib.display import heat_maps, theme
from pfl_lib.results.result import Result

MARKED = 8  # markers on a line, about
LETTERS, MARK = 84, 6  # that stand side by side in a legend, and a line's sample in letters


def accuracy(
    frame: pd.DataFrame, ax: Axes | None = None, y: str = "accuracy", x: str = "round"
) -> Axes:
    """Draw a line for each method: its mean over seeds, with a band of one standard deviation where
    there are several; returns the axes.

    `frame`: rows with method, seed, round (or what `x` names) and what `y` names, in percent for
    an accuracy; several rows of one seed and round (clients) are averaged.  A round that
    one of its seeds lacks, or has NaN in, is left out: a line ends where a run diverged.
    """
    if ax is None:
        ax = theme.blank(4.4)[1]
    frame = frame.assign(method=[*map(theme.plain, frame["method"])])
    by_seed = frame.groupby(["method", x, "seed"], sort=False)[y].mean().reset_index()
    seeds = by_seed.groupby("method")["seed"].nunique()
    there = by_seed.groupby(["method", x])[y].transform("count")
    shown = by_seed[there == by_seed["method"].map(seeds)]
    several, names = seeds.max() > 1, list(dict.fromkeys(frame["method"]))
    style = theme.looks(names) | {"markevery": max(1, shown[x].nunique() // MARKED)}
    band = {"errorbar": "sd" if several else None, "err_kws": {"alpha": 0.15, "linewidth": 0}}
    if shown.empty:  # all diverged in the first round
        ax.text(0.5, 0.5, "diverged", transform=ax.transAxes, ha="center")
        ax.set(xlabel=x, ylabel=y)
        return ax
    seaborn.lineplot(shown, x=x, y=y, hue="method", style="method", ax=ax, **band, **style)
    by_round = shown.groupby([x, "method"])[y]
    mean, half = by_round.mean().unstack(), by_round.std().unstack().fillna(0)
    if "accuracy" in y and len(mean):
        band = [mean - half, (mean + half).clip(upper=100)]
        theme.set_accuracy_limits(ax, pd.concat(band, axis=1))
    alike = f"{seeds.max()} seeds" if seeds.nunique() == 1 else "seeds"
    title = f"mean over {alike}, band: one standard deviation" if several else None
    beside = max(1, min(4, LETTERS // (MARK + max(map(len, names)))))
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": beside}
    legend, last = ax.legend(**below, title=title, frameon=False), shown.groupby("method")[x].max()
    for text, name in zip(legend.get_texts(), names, strict=True):
        count = f", seeds: {seeds[name]}" if seeds.nunique() > 1 else ""
        end = last.get(name, 0)
        ended = f", to round {end:g}" if x == "round" and end < last.max() else ""
        text.set_text(f"{name}{count}{ended}")
    ax.set(xlabel=x, ylabel=textwrap.fill(f"{y} (%)" if "accuracy" in y else y, 24))
    if x == "round":
        theme.set_rounds(ax, max(shown[x], default=0))
    return ax


def mean_and_worst(frame: pd.DataFrame) -> Axes:
    """Draw each method's last accuracy, the mean over clients and the worst client, with one
    standard deviation over seeds; returns the axes.

    `frame`: rows with method, seed, clients ("mean", "worst") and accuracy in percent, NaN of what
    diverged.
    """
    frame = frame.assign(method=[textwrap.fill(theme.plain(name), 28) for name in frame["method"]])
    lines = sum(0.3 + 0.2 * len(name.splitlines()) for name in frame["method"].unique())
    ax = theme.blank(max(2.4, lines + 1.6))[1]
    marks = {"markers": ["o", "v"], "palette": ["#0173b2", "#de8f05"], "linestyle": "none"}
    bars = {"errorbar": "sd", "dodge": 0.3, "capsize": 0.1, "err_kws": {"linewidth": 1.5}}
    seaborn.pointplot(frame, x="accuracy", y="method", hue="clients", ax=ax, **marks, **bars)
    ax.set(xlabel="accuracy in the last round (%)", ylabel="")
    ax.set_xlim(right=min(100.5, ax.get_xlim()[1]))
    lost = frame["accuracy"].isna().groupby(frame["method"], sort=False).any()
    for place in lost.to_numpy().nonzero()[0]:
        ax.text(0.02, place, "diverged", transform=ax.get_yaxis_transform(), va="center")
    seaborn.move_legend(ax, "upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax


def of_result(result: Result) -> Figure:
    """Draw one result: accuracy by round, its best so far, and below it the weights: [rounds, N] by
    round, of [rounds, N, N] the last, of [rounds, L, N, N] the last one's mean over layers.
    """
    weights, dimensions = result.weights, getattr(result.weights, "ndim", 0)
    rows = 1 if weights is None else 2
    figure, panels = theme.blank(3.2 * rows, rows)
    panels = [panels] if rows == 1 else list(panels)
    each = 100 * result.accuracy_by_round().astype(float)
    marks = {"marker": "o", "markersize": 4, "markevery": max(1, len(each) // MARKED)}
    panels[0].plot(each.index, each, color="#0173b2", linewidth=1.4, **marks, label="each round")
    best = each.loc[1:].cummax()  # round 0 is the initial model
    panels[0].plot(best.index, best, color="#de8f05", ls="--", label="best so far")
    theme.set_accuracy_limits(panels[0], each.to_frame())
    theme.set_rounds(panels[0], max(each.index, default=0))
    ended = "" if result.diverged is None else f", diverged at round {result.diverged}"
    panels[0].legend(loc="lower right")
    name = result.config["method"]["name"].replace("_", " ")
    panels[0].set(title=f"{name}{ended}", xlabel="round", ylabel="accuracy (%)")
    if dimensions == 2:
        alice, rounds = result.config.get("alice"), result.weights_rounds
        heat_maps.weights(panels[1], weights, alice, rounds, result.client_names)
    elif dimensions:
        shown = weights[-1] if dimensions == 3 else weights[-1].mean(axis=0)
        heat_maps.matrix(panels[1], shown, quantity="weight", names=result.client_names)
        last = f"weights in round {result.weights_rounds[-1]}"
        last += ", mean over layers" if dimensions == 4 else ""
        panels[1].set(title=last, xlabel="whose model", ylabel="client")
    return figure
