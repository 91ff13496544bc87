"""Who holds which labels, as a picture with an alt text made from its numbers."""

from typing import TYPE_CHECKING

import numpy as np

from pfl_lib.display.theme import blank, theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pfl_lib.data.source import Dataset
    from pfl_lib.partitions.base import Partition


def partition_card(partition: "Partition", dataset: "Dataset") -> tuple["Figure", str]:
    """Who holds which labels: training images by client and label as a heat map, sizes beside it,
    the checksum below.

    Labels are the clients' own; where clients give the classes other labels, a second grid shows
    which.
    """
    from matplotlib.colors import Normalize

    counts = partition.label_matrix(dataset).numpy()
    sizes = partition.sizes.numpy()
    clients, classes = counts.shape
    relabel = None if partition.relabel is None else partition.relabel.numpy()
    height = 1.3 + 0.27 * min(clients, 30)
    with theme():
        grids = 1 if relabel is None else 2
        figure, panels = blank(height * grids, rows=grids, columns=2, widths=[3.2, 1])
        panels = np.reshape(panels, (grids, 2))
        # Half as much again as is there: the darkest blue stays light enough for the numbers
        # written on it.
        blues = Normalize(0, 1.5 * counts.max())
        _grid(panels[0, 0], counts, blues, "training images by label", annotate=clients <= 20)
        bars = panels[0, 1]
        bars.barh(range(clients), sizes, color="#0173b2")
        bars.set(
            ylim=(clients - 0.5, -0.5),
            yticks=[],
            xlabel="training images",
            xlim=(0, 1.6 * sizes.max()),
        )
        bars.grid(False, axis="y")
        for client, size in enumerate(sizes) if clients <= 20 else ():
            bars.text(1.03 * size, client, f"{size:,}", va="center", fontsize=10)
        if relabel is not None:
            _grid(
                panels[1, 0],
                relabel,
                None,
                "label given to each class",
                annotate=clients <= 20,
                xlabel="class",
            )
            panels[1, 1].set_axis_off()
        figure.supxlabel(
            f"{dataset.name}, distribution {partition.name}, checksum {partition.checksum()}",
            fontsize=10,
        )
    held = (counts > 0).sum(axis=1)
    own = 0 if relabel is None else int((relabel != np.arange(classes)).any(axis=1).sum())
    mine = ", ".join(
        f"{count:,} of label {label}" for label, count in enumerate(counts[0]) if count
    )
    alt = (
        f"Heat map of training images by client and label, {dataset.name}, distribution"
        f" {partition.name}: {clients} clients of {_range(sizes)} images, {_range(held)} of"
        f" {classes} labels each. Client 0 holds {mine} and has {len(partition.test[0]):,} test"
        " images."
    )
    return figure, alt + (f" {own} clients give the classes labels of their own." if own else "")


def _grid(
    axes: "Axes", values: np.ndarray, norm, title: str, annotate: bool, xlabel: str = "label"
) -> None:
    import seaborn

    clients, classes = values.shape
    axes.grid(False)
    seaborn.heatmap(
        values,
        ax=axes,
        cmap="Blues" if norm else ["#ffffff"],
        norm=norm,
        annot=annotate and classes <= 12,
        fmt="d",
        annot_kws={"fontsize": 10, "color": "#111111"},
        cbar=False,
        linewidths=0.5,
        linecolor="#dddddd",
        mask=values == 0 if norm else None,
        yticklabels=max(1, clients // 10),
        xticklabels=max(1, classes // 10),
    )
    axes.set(xlabel=xlabel, ylabel="client", title=title)
    axes.tick_params(axis="y", rotation=0)


def _range(numbers: np.ndarray) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
