"""The pictures of WAFFLE's pages that show other things than results (for these see
`pfl_lib.display.figures`), each with an alt text made from what is drawn.
"""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.dots import PAPER
from pfl_lib.display.theme import blank, legend, theme
from pfl_lib.methods import waffle
from pfl_lib.papers.metrics import ACCURACY

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure


def omega(slopes: Sequence[float], rounds: int = 100) -> tuple["Figure", str]:
    """WAFFLE's degree of personalisation by round for several slopes (Figure 8); 1 is global
    training, 0 local.
    """
    x = np.arange(1, rounds + 1)
    looks = [
        ("#0173b2", "--"),
        ("#d55e00", "-"),
        ("#029e73", "-."),
        ("#cc78bc", ":"),
        ("#949494", "--"),
    ]
    with theme():
        figure, axes = blank(3.8)
        alts = []
        for place, slope in enumerate(slopes):
            curve = [float(waffle.omega(int(r), rounds, slope=slope)) for r in x]
            colour, line = looks[place % len(looks)]
            axes.plot(x, curve, color=colour, linestyle=line, label=f"{slope:g}")
            quarter, end = curve[rounds // 4 - 1], curve[-1]
            alts.append(
                f"slope {slope:g}: {curve[0]:.2f} first, {quarter:.2f} after a quarter, {end:.2f}"
                " last"
            )
        axes.axvspan(0.95 * rounds, rounds, color="#dddddd", zorder=0)
        axes.text(0.94 * rounds, 0.97, "Alice alone", ha="right", va="top")
        axes.set(xlabel="round r", ylabel="Ω(r)", xlim=(1, rounds), ylim=(0, 1))
        legend(figure, axes, title="slope ΔΩ", columns=len(slopes))
    head = (
        "Line plot of Omega by round, falling from global (1) to local (0), one half after"
        f" {rounds / 2:g} rounds:"
    )
    return figure, f"{head} {'; '.join(alts)}. From 95 % of the rounds on all weight is on Alice."


NEAR = {"color": "#029e73", "marker": "o", "linestyle": "none", "markersize": 9}
APART = {"color": "#0173b2", "marker": "s", "linestyle": "none", "markersize": 6}


def beside_local(apart: pd.DataFrame) -> tuple["Figure", str] | None:
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
        figure, panels = blank(0.31 * len(labels) + 1.3, columns=len(on), same_y=True)
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
            axes.set(title=f"distribution {name}", xlabel="points above Local", xlim=(low, high))
            axes.set_xticks([x for x in (-50, -10, -1, 0, 1, 5, 20) if low <= x <= high])
            axes.xaxis.set_major_formatter("{x:g}")
        panels[0].set_yticks(range(len(labels)), labels, fontsize=10, linespacing=1.0)
        panels[0].set_ylim(len(labels) - 0.4, -0.6)
        legend(figure, panels[0], columns=3)
    told = [
        f"{row['reading']} " + " and ".join(f"{row[name]:+.2f} on {name}" for name in on)
        for row in apart.to_dict("records")
    ]
    head = "Dot plot: how far APFL's best round lies from local training, in points."
    return figure, f"{head} {'; '.join(told)}.".replace("-", "−")
