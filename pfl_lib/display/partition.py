"""Who holds which labels."""

import os

import numpy as np
import seaborn
from matplotlib.figure import Figure

from pfl_lib import data, partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display import theme
from pfl_lib.partitions import Partition, Recipe

FEW = 20  # clients; more have no room for a number in each cell


def show(dataset: Dataset, partition: Partition, title: str) -> None:
    """Show training examples by client and label, and clients' own labels where they have some."""
    figure = Figure(layout="constrained")
    draw(figure, dataset, partition)
    figure.suptitle(title)
    theme.show(figure, f"{title}: {says(dataset, partition)}")


def plot(
    dataset: str = "digits",
    partition: str | Recipe = "C",
    clients: int | None = None,
    *,
    images: int | None = None,
    seed: int = 1,
    alice: int | None = 0,
    data_dir: str | os.PathLike | None = None,
) -> Figure:
    """Draw who holds which labels; the arguments are those of `pfl_lib.run`.  Returns the
    matplotlib figure, to be shown or saved.  Raises BadInput for what does not fit.
    """
    of = data.load(dataset, data_dir, images)
    with theme.theme():
        figure = Figure(layout="constrained")
        draw(figure, of, partitions.make(partition, of, clients, seed, alice))
    return figure


def says(dataset: Dataset, partition: Partition) -> str:
    """In a sentence, who holds how much."""
    counts = partition.label_matrix(dataset).numpy()
    held, labels = counts.sum(axis=1), (counts > 0).sum(axis=1)
    return (
        f"{len(counts)} clients hold {theme.span(held, ',')} training examples of"
        f" {theme.span(labels, ',')} labels each; most of one label: {counts.max():,}."
    )


def draw(figure: Figure, dataset: Dataset, partition: Partition) -> None:
    """Draw a heat map of training examples by client and label on a figure, which it makes as large
    as it needs; each client's sum stands beside its number.
    """
    counts, relabel = partition.label_matrix(dataset).numpy(), partition.relabel
    clients, classes = counts.shape
    shown = {"label": ("training examples by label", np.where(counts, counts, np.nan))}
    if relabel is not None:
        shown["class"] = ("label given to each class", relabel.numpy().astype(float))
    width = min(theme.WIDTH, 3.2 + 0.5 * classes)
    figure.set_size_inches(width, len(shown) * (1.3 + 0.27 * min(clients, 30)))
    grids = np.atleast_1d(figure.subplots(len(shown)))
    places = np.arange(0, clients, -(-clients // 15))
    called = [f"{k} ({counts[k].sum():,})" for k in places]
    for axes, (along, (title, values)) in zip(grids, shown.items(), strict=True):
        counted, words = along == "label", clients <= FEW and classes <= 12
        axes.grid(False)
        seaborn.heatmap(
            values,
            ax=axes,
            cmap="Blues" if counted else ["#ffffff"] if words else "viridis",
            vmin=0,
            # With numbers the darkest blue stays light enough for them.
            vmax=np.nanmax(values) * (1.5 if words else 1),
            annot=words,
            fmt=".0f",
            annot_kws={"fontsize": 10, "color": "#111111"},
            cbar=not words,
            linewidths=0.5 if clients <= FEW else 0,
            linecolor="#dddddd",
            xticklabels=max(1, classes // 12),
        )
        for text in axes.texts:
            text.set_in_layout(False)  # the layout takes long over hundreds
        axes.set_yticks(places + 0.5, called, rotation=0)
        axes.set(xlabel=along, ylabel="client (examples)", title=title)
    figure.supxlabel(f"{partition.name}, checksum {partition.checksum()}", fontsize=10)
