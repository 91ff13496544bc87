"""Who holds which labels."""

from typing import TYPE_CHECKING

import numpy as np

from pfl_lib.display import theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

    from pfl_lib.data.source import Dataset
    from pfl_lib.partitions.base import Partition

FEW = 20  # clients; more have no room for a number in each cell


def show(dataset: "Dataset", partition: "Partition", title: str) -> None:
    """Show training images by client and label; where clients give the classes labels of their own,
    these too.
    """
    counts = partition.label_matrix(dataset).numpy()
    held = (counts > 0).sum(axis=1)
    theme.show(
        figure(dataset, partition, title),
        f"{title}: {len(counts)} clients hold {_span(counts.sum(axis=1))} training images of"
        f" {_span(held)} of {counts.shape[1]} labels each.",
    )


def figure(dataset: "Dataset", partition: "Partition", title: str) -> "Figure":
    """A heat map of training images by client and label, beside each client's sum."""
    from matplotlib.figure import Figure

    counts, relabel = partition.label_matrix(dataset).numpy(), partition.relabel
    clients, classes = counts.shape
    panels = 1 if relabel is None else 2
    size = (min(theme.WIDTH, 3.2 + 0.5 * classes), panels * (1.3 + 0.27 * min(clients, 30)))
    made = Figure(figsize=size, layout="constrained")
    grids = np.atleast_1d(made.subplots(panels))
    _grid(grids[0], np.where(counts, counts, np.nan), counts.sum(axis=1), "label")
    grids[0].set_title("training images by label")
    if relabel is not None:
        _grid(grids[1], relabel.numpy().astype(float), counts.sum(axis=1), "class")
        grids[1].set_title("label given to each class")
    made.suptitle(title)
    made.supxlabel(f"{partition.name}, checksum {partition.checksum()}", fontsize=10)
    return made


def _grid(axes, values: np.ndarray, sizes: np.ndarray, along: str) -> None:
    import seaborn

    clients, classes = values.shape
    every = max(1, -(-clients // 15))
    counted, words = along == "label", clients <= FEW and classes <= 12
    axes.grid(False)
    seaborn.heatmap(
        values,
        ax=axes,
        cmap="Blues" if counted else ["#ffffff"],
        vmin=0,
        # With numbers the darkest blue stays light enough for them.
        vmax=np.nanmax(values) * (1.5 if words else 1),
        annot=words,
        fmt=".0f",
        annot_kws={"fontsize": 10, "color": "#111111"},
        cbar=counted and not words,
        linewidths=0.5 if clients <= FEW else 0,
        linecolor="#dddddd",
        xticklabels=max(1, classes // 12),
    )
    places = np.arange(0, clients, every)
    axes.set_yticks(places + 0.5, [f"{k} ({sizes[k]:,})" for k in places], rotation=0)
    axes.set(xlabel=along, ylabel="client (images)")


def _span(numbers: np.ndarray) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
