"""WAFFLE's Figure 8, with an alt text made from what is drawn; its other figures show results, see
`pfl_lib.display.figures`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pfl_lib.display.theme import blank, legend, theme
from pfl_lib.methods import waffle

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
