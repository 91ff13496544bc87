"""Pictures of a page, each with an alt text made from the numbers that are drawn.

Every function returns (figure, alt text); `show(figure, alt)` puts both on a notebook's page.
Figures are 8.4 inches wide with type of 10 points and more, so that they can still be read at half
a page's width.  Methods differ in colour, marker and line.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display import spread, tables
from pfl_lib.display import theme as looks
from pfl_lib.display.partition_card import partition_card
from pfl_lib.display.theme import (
    ON_LINES,
    blank,
    legend,
    look,
    png,
    set_accuracy_limits,
    theme,
)
from pfl_lib.results.summary import at_round, status

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pfl_lib.results.result import Result

__all__ = [
    "accuracy_all_distributions",
    "accuracy_evolution",
    "partition_card",
    "png",
    "result_plot",
    "show",
    "weight_evolution",
]

SHARES = (0.01, 0.1, 0.25, 0.5, 1)  # marked on the colour bar of weights


def show(figure: "Figure", alt: str) -> None:
    """Show a figure with an alt text that says everything."""
    looks.show(figure, alt, alt)


# --- accuracy ---


def accuracy_evolution(
    results: Mapping[str, Sequence["Result"]], running_best: bool = True, title: str = ""
) -> tuple["Figure", str]:
    """Accuracy by round, a line for each method: the mean over its results (WAFFLE, Figure 4), with
    a band of one standard deviation where there are several.

    `results`: method -> its results, a seed each.  `running_best` draws the best accuracy so far,
    as the paper does, else each round's own.  A line stops where the first of its runs diverged.
    """
    with theme():
        figure, axes = blank(4.4)
        by_round = tables.accuracy_by_round(results, running_best)
        _draw_accuracy(axes, by_round, results, running_best)
        axes.set(
            title=title,
            xlabel="round",
            ylabel=f"{_accuracy_label(running_best)},\n{_mean_of([results])}",
        )
        legend(figure, axes, title=_bands([results]) or None)
    return figure, _about_accuracy(results, by_round, running_best, title)


def accuracy_all_distributions(
    results: Mapping[str, Mapping[str, Sequence["Result"]]], running_best: bool = True
) -> tuple["Figure", str]:
    """One small picture of `accuracy_evolution` for each distribution, two in a row (WAFFLE, Figure
    6).

    `results`: distribution -> method -> its results.  Every picture has its own accuracy axis,
    since concept shift leaves some methods far below the others.
    """
    rows = math.ceil((len(results) + 1) / 2)
    with theme():
        figure, panels = blank(2.3 * rows + 0.2, rows=rows, columns=2)
        panels = list(np.ravel(panels))
        alts = []
        for axes, (distribution, of_methods) in zip(panels, results.items(), strict=False):
            by_round = tables.accuracy_by_round(of_methods, running_best)
            _draw_accuracy(axes, by_round, of_methods, running_best)
            title = f"distribution {distribution}"
            axes.set(title=title, xlabel="round", ylabel="accuracy (%)")
            alts.append(_about_accuracy(of_methods, by_round, running_best, title))
        for axes in panels[len(results) :]:
            axes.set_axis_off()
        handles = {
            line.get_label(): line
            for axes in panels
            for line in axes.get_lines()
            if line.get_label()[0] != "_"
        }
        told = [_accuracy_label(running_best), _mean_of(results.values()), _bands(results.values())]
        title = ",\n".join(filter(None, told))
        panels[len(results)].legend(handles.values(), handles, loc="center", title=title)
    return figure, " ".join(alts)


def _draw_accuracy(
    axes: "Axes",
    by_round: pd.DataFrame,
    results: Mapping[str, Sequence["Result"]],
    running_best: bool,
) -> None:
    spacing = max(1, len(by_round) // 8)
    told = 0
    for place, (method, curve) in enumerate(by_round.items()):
        curve = curve.dropna()
        drawn = look(method, by_round.columns)
        first_mark = min(place * spacing // by_round.shape[1], max(0, len(curve) - 1))
        axes.plot(curve.index, curve, label=method, markevery=(first_mark, spacing), **drawn)
        spread.band(axes, curve, results[method], running_best)
        if method in by_round.attrs["diverged"]:
            words = f"{method} {at_round(by_round.attrs['diverged'][method])}"
            shown = {"color": drawn["color"], "ha": "right", "zorder": 5, "bbox": ON_LINES}
            axes.text(0.98, 0.04 + 0.1 * told, words, transform=axes.transAxes, **shown)
            told += 1
    set_accuracy_limits(axes, by_round)


def _about_accuracy(results, by_round: pd.DataFrame, running_best: bool, title: str) -> str:
    final = by_round.iloc[-1].dropna()  # of those that did not diverge
    words = [f"{method} {at_round(round)}" for method, round in by_round.attrs["diverged"].items()]
    ranked = sorted(final.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{method} {value:.2f}" for method, value in ranked)
    kind = "best accuracy so far" if running_best else "accuracy"
    head = (
        f"Line plot{', ' + title if title else ''}: {kind} in percent by round,"
        f" {_mean_of([results])}."
    )
    head += f" {_bands([results]).capitalize()}." * bool(_bands([results]))
    tail = f" After round {by_round.index[-1]}, from best to worst: {listed}." if ranked else ""
    return head + tail + "".join(f" {word}." for word in words)


def _mean_of(several: Iterable[Mapping[str, Sequence["Result"]]]) -> str:
    """Over how many seeds curves are means: "one seed", "mean of 5 seeds", or "mean of 1 to 5
    seeds" where methods differ.
    """
    seeds = {len(of_method) for results in several for of_method in results.values()} or {0}
    if seeds == {1}:
        return "one seed"
    return f"mean of {' to '.join(map(str, sorted({min(seeds), max(seeds)})))} seeds"


def _bands(several: Iterable[Mapping[str, Sequence["Result"]]]) -> str:
    """What the bands are, where there are any."""
    drawn = any(len(of_method) > 1 for results in several for of_method in results.values())
    return "band: one standard deviation over seeds" if drawn else ""


def _accuracy_label(running_best: bool) -> str:
    return "best accuracy so far (%)" if running_best else "accuracy (%)"


# --- weights ---


def weight_evolution(
    results: Mapping[str, "Result"], alice: int = 0, title: str = ""
) -> tuple["Figure", str]:
    """Each client's share of the average by round, Alice in the centre (WAFFLE, Figure 3); a
    picture for each method.

    `results`: method -> result with weights [rounds, N].  A heat map rather than N lines: clients
    next to Alice hold labels next to hers, so the way from everyone to Alice alone is seen as a
    wedge, where ten lines of equal weights lie on top of each other.  White is a weight of exactly
    0; colours follow the square root of the share, so that a tenth is still told from a hundredth.
    A run that diverged says so, and its picture, if it has any round, ends there.
    """
    with theme():
        figure, panels = blank(0.7 + 2.5 * len(results), rows=len(results))
        panels = list(np.ravel(panels))
        alts, bar = [], None
        for axes, (method, result) in zip(panels, results.items(), strict=True):
            axes.set_title(tables.name_with_status(method, result))
            if result.weights is None:
                axes.set_axis_off()
                alts.append(f"{tables.name_with_status(method, result)}, without any weights.")
            else:
                bar = _draw_weights(axes, tables.shares(result.weights), alice)
                alts.append(
                    f"{tables.name_with_status(method, result)}:"
                    f" {_about_weights(result.weights, alice)}"
                )
        panels[-1].set_xlabel("round")
        figure.suptitle(title or None)
        if bar is not None:
            figure.colorbar(bar, ax=panels, label="share of the average", ticks=SHARES)
    head = "Heat map of each client's share of the average by round, Alice in the centre."
    return figure, " ".join([head, *alts])


def _draw_weights(axes: "Axes", share: np.ndarray, alice: int | None):
    """Draw shares [rounds, N], Alice in the centre where there is one, and return what a colour bar
    is made for.
    """
    import seaborn
    from matplotlib.colors import PowerNorm

    rounds, clients = share.shape
    first = 0 if alice is None else alice - clients // 2
    order = [(first + place) % clients for place in range(clients)]
    axes.grid(False)
    mesh = axes.pcolormesh(
        np.arange(rounds + 1) + 0.5,
        np.arange(clients + 1) - 0.5,
        np.ma.masked_equal(share[:, order].T, 0),
        cmap=seaborn.color_palette("mako_r", as_cmap=True),
        norm=PowerNorm(0.5, vmin=0, vmax=1),
        rasterized=True,
    )
    shown = range(clients) if clients <= 12 else [0 if alice is None else clients // 2]
    axes.set_yticks(
        list(shown), ["Alice" if order[place] == alice else str(order[place]) for place in shown]
    )
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(
        ylabel="client", facecolor="white", ylim=(clients - 0.5, -0.5), xlim=(0.5, rounds + 0.5)
    )
    return mesh


def _about_weights(weights: np.ndarray, alice: int | None) -> str:
    rounds = len(weights)
    if alice is None:
        last = tables.shares(weights)[-1]
        return (
            f"after {rounds} rounds the clients' shares are between {last.min():.0%} and"
            f" {last.max():.0%}."
        )
    alone = tables.alone_from(weights, alice)
    gone = tables.vanishing(weights).drop(alice)
    if alone is not None:
        last = ", ".join(str(client) for client in gone.index[gone == gone.max()])
        first = ", ".join(str(client) for client in gone.index[gone == gone.min()])
        return (
            f"client {first} first weighs nothing for good, from round {gone.min():.0f}; client"
            f" {last} last; from round {alone} of {rounds} all weight is on Alice."
        )
    share = tables.shares(weights)[-1, alice]
    return (
        f"after {rounds} rounds Alice has {share:.0%} of the weight and {int(gone.isna().sum())}"
        " others still count."
    )


# --- one result ---


def result_plot(result: "Result", title: str | None = None) -> tuple["Figure", str]:
    """One result: accuracy by round (Alice's, else the mean over clients), its best so far, and the
    weights below.
    """
    title = _title(result.config) if title is None else title
    weights = (
        result.weights if result.weights is not None and np.ndim(result.weights) == 2 else None
    )
    each = tables.accuracy_by_round({"each round": [result]})
    best = tables.accuracy_by_round({"best so far": [result]}, running_best=True)
    alice = result.config.get("alice")
    with theme():
        figure, panels = blank(3.2 if weights is None else 5.8, rows=1 if weights is None else 2)
        panels = np.ravel(panels)
        panels[0].plot(each.index, each, color="#0173b2", linewidth=1.4, label="each round")
        panels[0].plot(best.index, best, color="#de8f05", linestyle="--", label="best so far")
        set_accuracy_limits(panels[0], each)
        panels[0].set(title=title, xlabel="round", ylabel="accuracy (%)")
        panels[0].legend(loc="lower right")
        if result.diverged is not None:
            panels[0].text(
                0.98, 0.94, status(result), transform=panels[0].transAxes, ha="right", va="top"
            )
        if weights is not None:
            bar = _draw_weights(panels[1], tables.shares(weights), alice)
            panels[1].set_xlabel("round")
            # One round above the other, the initial model's, where it was measured, included.
            panels[0].set_xlim(min(0.5, each.index.min() - 0.5), panels[1].get_xlim()[1])
            panels[1].set_xlim(panels[0].get_xlim())
            figure.colorbar(bar, ax=panels[1], label="share", ticks=SHARES)
    each = each["each round"].dropna()
    diverged = result.diverged is not None
    said = (
        f"then the run {status(result)}"
        if diverged
        else f"best {each.max():.2f}, last {each.iloc[-1]:.2f}"
    )
    alt = (
        f"Line plot{', ' + title if title else ''}: accuracy in percent by round, {len(each)}"
        f" rounds, {said}."
    )
    if weights is not None:
        alt += f" Heat map of weights: {_about_weights(weights, alice)}"
    return figure, alt


def _title(config: Mapping) -> str:
    """Method, data set, distribution and seed, as far as the configuration of a result has them."""
    words = [config["method"]["name"].replace("_", " ")]
    if "dataset" in config:
        words += [config["dataset"], f"distribution {config['partition']['name']}"]
    return ", ".join([*words, f"seed {config['seed']}"])
