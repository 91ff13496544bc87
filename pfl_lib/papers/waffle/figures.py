"""The pictures of WAFFLE's pages that show other things than results (for these see
`pfl_lib.display.figures`), each with an alt text made from what is drawn.
"""

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.dots import PAPER
from pfl_lib.display.theme import blank, legend, look, theme
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.waffle import MNIST
from pfl_lib.papers.waffle.open_questions import CHEATS
from pfl_lib.results.summary import NOTHING

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NEAR = {"color": "#029e73", "marker": "o", "linestyle": "none", "markersize": 9}
APART = {"color": "#0173b2", "marker": "s", "linestyle": "none", "markersize": 6}


def draw_beside_local(apart: pd.DataFrame) -> tuple["Figure", str] | None:
    """How far each reading of APFL lies from local training: a panel for each distribution, a row
    for each reading, the paper's APFL above them and as a dashed line through them.

    `apart`: `apfl.beside_local`, the paper's first.  Within the shaded point of Local the axis is
    linear, beyond it logarithmic.  None where nothing was run.
    """
    on = [name for name in apart if name not in ("reading", "near")]
    paper, rows = apart.iloc[0], apart.iloc[1:].to_dict("records")
    if not rows:
        return None
    labels = [textwrap.fill(name, 34) for name in apart["reading"]]
    with theme():
        figure, panels = blank(0.31 * len(labels) + 1.5, columns=len(on), same_y=True)
        panels = list(np.ravel(panels))
        for axes, name in zip(panels, on, strict=True):
            axes.axvspan(-ACCURACY.near, ACCURACY.near, color="#e6e6e6", zorder=0)
            axes.axvline(0, color="#888888", linewidth=1)
            axes.axvline(paper[name], color="#333333", linestyle="--", linewidth=1.2)
            axes.plot(paper[name], 0, label="APFL in the paper", markersize=8, **PAPER)
            for near, style, words in (
                (True, NEAR, "within a point of Local everywhere"),
                (False, APART, "other readings"),
            ):
                places = [y for y, row in enumerate(rows, 1) if row["near"] == near]
                if places:
                    axes.plot([rows[y - 1][name] for y in places], places, label=words, **style)
            low, high = min(-1.6, apart[name].min() * 1.6), max(1.6, apart[name].max() * 1.6)
            axes.set_xscale("symlog", linthresh=ACCURACY.near, linscale=0.8)
            axes.set(
                title=f"distribution {name}",
                xlabel="points above Local\n(log beyond ±1)",
                xlim=(low, high),
            )
            axes.set_xticks([x for x in (-50, -10, -1, 0, 1, 5, 20) if low <= x <= high])
            axes.xaxis.set_major_formatter("{x:g}")
        panels[0].set_yticks(range(len(labels)), labels, fontsize=10, linespacing=1.0)
        panels[0].set_ylim(len(labels) - 0.4, -0.6)
        legend(figure, panels[0], columns=3)
    told = [
        f"{row['reading']} " + " and ".join(f"{row[name]:+.3f} on {name}" for name in on)
        for row in apart.to_dict("records")
    ]
    head = "Dot plot: how far APFL's best round lies from local training, in points."
    return figure, f"{head} {'; '.join(told)}.".replace("-", "−")


CONTROL_VARIATES = {
    "SCAFFOLD, option II": look("SCAFFOLD"),
    "SCAFFOLD, option I": {"color": "#ca9161", "marker": "v"},
    "WAFFLE": look("WAFFLE"),
}
CLIPPED = ", clipped"


def broken_and_shut_out(
    grid: pd.DataFrame, ended: pd.DataFrame, cheats: pd.DataFrame
) -> tuple["Figure", str] | None:
    """Left, for each setting, the last round of SCAFFOLD and WAFFLE (clipped: hollow), a line up
    to the best one and a cross at the bottom for a run that diverged; right, how much of all
    weights the clients keep that cheat, and had kept if honest.

    `grid`, `ended`: `open_questions.answered`, best and last rounds; `cheats`:
    `open_questions.share_of_cheats`.  None where nothing was run.
    """
    best, last = (of.set_index("setting") for of in (grid, ended))
    if best.isin(NOTHING).all(axis=None) and cheats[["WE", "WAFFLE"]].isna().all(axis=None):
        return None
    with theme():
        figure, (left, right) = blank(4.6, columns=2, widths=(1.9, 1))
        said = [_best_and_last(left, best, last), _shut_out(right, cheats)]
        handles = [*left.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(handles),
            title="hollow: gradients clipped",
            frameon=False,
        )
    return figure, " ".join(said)


def _best_and_last(axes: "Axes", best: pd.DataFrame, last: pd.DataFrame) -> str:
    numbers, ended = (of.apply(pd.to_numeric, errors="coerce") for of in (best, last))
    told = []
    for place, name in enumerate(best.columns):
        style = CONTROL_VARIATES[name.removesuffix(CLIPPED)] | {"linestyle": "none"}
        clipped = name.endswith(CLIPPED)
        face = "white" if clipped else style["color"]
        x = np.arange(len(best)) + (place - (len(best.columns) - 1) / 2) * 0.13
        axes.vlines(x, ended[name], numbers[name], color=style["color"], linewidth=1.8)
        label = None if clipped else name
        axes.plot(x, ended[name], label=label, markerfacecolor=face, markersize=7, **style)
        lost = best[name].astype(str).str.startswith("diverged").to_numpy()
        axes.plot(x[lost], np.zeros(lost.sum()), "x", color=style["color"], markersize=10, mew=3)
        told += [f"{name} with {setting} {best.loc[setting, name]}" for setting in best.index[lost]]
        broken = numbers.index[ended[name] < numbers[name] / 2]
        told += [
            f"{name} with {setting} ends at {ended.loc[setting, name]:.1f} after"
            f" {numbers.loc[setting, name]:.1f}"
            for setting in broken
        ]
    axes.set(
        ylabel="last round (%), line to the best", ylim=(-6, 122), xlim=(-0.5, len(best) - 0.5)
    )
    axes.set_title("on C (✕: diverged)", fontsize=12)
    axes.set_yticks(range(0, 101, 20))
    networks = best.index.str.partition(", ").to_frame(index=False)
    axes.set_xticks(range(len(best)), networks[2])
    for network, at in networks.groupby(0, sort=False).groups.items():
        axes.text(at.to_numpy().mean(), 105, textwrap.fill(network, 11), ha="center", fontsize=10)
    axes.grid(axis="x", visible=False)
    for between in range(1, len(best)):
        axes.axvline(between - 0.5, color="#dddddd", linewidth=1)
    ran = int((~best.isin(NOTHING)).sum(axis=None))
    words = "; ".join(told) or "none breaks down"
    return f"Last and best round of {ran} runs with control variates: {words}."


def _shut_out(axes: "Axes", cheats: pd.DataFrame) -> str:
    labels = [textwrap.fill(name, 14) for name in cheats["attack"]]
    for name, up in (("WE", -0.1), ("WAFFLE", 0.1)):
        style = look(name) | {"linestyle": "none", "markersize": 9}
        label = None if name in CONTROL_VARIATES else name
        axes.plot(cheats[name], np.arange(len(cheats)) + up, label=label, **style)
    equal = 100 * len(CHEATS) / MNIST.clients
    axes.axvline(equal, color="#333333", linestyle="--", linewidth=1.2)
    those = f"clients {CHEATS[0]} to {CHEATS[-1]}"
    axes.set_title(f"weight of {those}", fontsize=12)
    axes.set(xlabel="% of all (dashed: equal)", xlim=(-2, None), ylim=(len(labels) - 0.5, -0.5))
    axes.set_yticks(range(len(labels)), labels)
    told = [
        f"{row['attack']} " + " and ".join(f"{row[name]:.0f} % in {name}" for name in ran)
        for row in cheats.to_dict("records")
        if (ran := [name for name in ("WE", "WAFFLE") if not math.isnan(row[name])])
    ]
    return (
        f"Share of all weights that {those} have, honest or cheating:"
        f" {'; '.join(told) or 'not run'}."
    )
