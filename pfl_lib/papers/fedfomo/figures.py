"""FedFomo's own figures, each with an alt text made from what is drawn; accuracy by round and heat
maps are `pfl_lib.display`'s.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pfl_lib.display.theme import blank, legend, theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

COLUMNS = 3  # of small pictures, a client each
GROUP_COLOURS = (
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc",
    "#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9",
)  # fmt: skip
LINES = ("-", "--", "-.", ":")


def client_weights(
    weights: np.ndarray, rounds: Sequence[int], truth: np.ndarray
) -> tuple["Figure", str]:
    """Each client's weights for all clients by round (Figure 7): a picture a client, a line for
    each model it may listen to, in the colour and line of that model's latent group; its own model
    thick.

    `weights` [rounds, N, N], row i: client i's model; `truth` [N].
    """
    clients = weights.shape[1]
    rows = -(-clients // COLUMNS)
    with theme():
        figure, panels = blank(1.7 * rows + 0.6, rows=rows, columns=COLUMNS, same_y=True)
        panels = list(np.ravel(panels))
        for i, axes in enumerate(panels[:clients]):
            for j in range(clients):
                group = int(truth[j])
                axes.plot(
                    rounds,
                    weights[:, i, j],
                    color=GROUP_COLOURS[group % len(GROUP_COLOURS)],
                    linestyle=LINES[group % len(LINES)],
                    linewidth=2.6 if i == j else 1.1,
                )
            axes.set_title(f"client {i}, group {truth[i]}", fontsize=11)
            axes.xaxis.get_major_locator().set_params(integer=True)
        for axes in panels[clients:]:
            axes.set_axis_off()
        figure.supxlabel("round", fontsize=12)
        figure.supylabel("weight", fontsize=12)
        from matplotlib.lines import Line2D

        handles = [
            Line2D(
                [],
                [],
                color=GROUP_COLOURS[g % len(GROUP_COLOURS)],
                linestyle=LINES[g % len(LINES)],
                label=f"group {g}",
            )
            for g in np.unique(truth)
        ]
        figure.legend(  # above: below it would lie on "round"
            handles=handles, loc="outside upper center", ncols=min(len(handles), 5), frameon=False
        )
    same = truth[:, None] == truth[None]
    first, last = ((weights[k] * same).sum(1).mean() for k in (0, -1))
    return figure, (
        f"{clients} line plots, one for each client: its weights for all models by round, coloured"
        f" by latent group. On average {first:.0%} of the weight is on the client's own group in"
        f" round {rounds[0]}, {last:.0%} in round {rounds[-1]}."
    )


def components(vectors: np.ndarray, labels: np.ndarray) -> tuple["Figure", str]:
    """The first two principal components of vectors [n, width], coloured by group: `labels` [n]."""
    from sklearn.decomposition import PCA

    pca = PCA(2, random_state=0)
    points = pca.fit_transform(vectors)
    with theme():
        figure, axes = blank(4.4)
        for group in np.unique(labels):
            axes.scatter(
                *points[labels == group].T,
                s=7,
                color=GROUP_COLOURS[group % len(GROUP_COLOURS)],
                label=f"group {group}",
            )
        axes.set(xlabel="first component", ylabel="second component")
        legend(figure, axes, columns=5)
    sizes = ", ".join(
        f"{count} in group {group}" for group, count in enumerate(np.bincount(labels))
    )
    told = pca.explained_variance_ratio_.sum()
    return figure, (
        f"Scatter plot of {len(labels):,} pictures by two principal components, which hold"
        f" {told:.0%} of the variance, coloured by group: {sizes}."
    )
