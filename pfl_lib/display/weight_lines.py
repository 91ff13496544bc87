"""One client's weights for all models, round by round."""

from collections.abc import Sequence

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

DASHES = ("-", "--", "-.", ":")


def weight_lines(
    axes: Axes,
    rounds: Sequence[int],
    weights: np.ndarray,
    client: int,
    groups: np.ndarray,
    target: int | None = None,
) -> None:
    """Draw a line for each model, weights [rounds, N], with colour and dashes by its group [N]; the
    client's own is thick.  The title has the colour of its target's group (None: of its
    own), and a legend of groups stands below the figure once.
    """
    colours = seaborn.color_palette("colorblind", int(groups.max()) + 1)
    styles = [{"color": c, "linestyle": DASHES[k % 4]} for k, c in enumerate(colours)]
    for j, group in enumerate(groups):
        axes.plot(rounds, weights[:, j], linewidth=2.6 if j == client else 1.2, **styles[group])
    told = f"client {client}\ntrains on {groups[client]}"
    told += "" if target is None else f", target {target}"
    of_title = colours[groups[client] if target is None else target]
    axes.set_title(told, fontsize=11, color=of_title, fontweight="bold")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(ylim=(-0.03, 1.03), xlabel="round", ylabel="weight")
    handles = [Line2D([], [], label=f"trains on {k}", **styles[k]) for k in np.unique(groups)]
    if not axes.figure.legends:
        axes.figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
