"""The pictures of Weight Erosion's pages, each with an alt text made from what is drawn; see
`pfl_lib.display.figures`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.theme import ON_LINES, blank, look, theme
from pfl_lib.results.summary import status

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pfl_lib.results.result import Result

NAMES = {
    "Local": "Local",
    "WE": "Weight Erosion",
    "FedAvg": "FedAvg",
    "Global (code)": "Global (authors' code)",
}
CLIENT_COLOURS = ("#cc78bc", "#56b4e9", "#ca9161", "#000000")  # none of them a method's
BASELINE = "#d62728"
OUTPUTS = {"output for class 0": "#1a1a1a", "output for class 1": "#9a9a9a"}


def _figure(
    head: str,
    pictures: Sequence[Callable[["Axes"], str]],
    height: float,
    rest: float,
    title: str = "",
    below: str = "",
    same_y: bool = True,
) -> tuple["Figure", str]:
    """Pictures two in a row, `height` inches each, and `rest` for title and legends.

    Each picture draws itself and returns its words; with `head` before them they are the alt text.
    Clients and outputs are named in a legend below, with `below` as its title, all else in one
    above, which then has the title.
    """
    rows = (len(pictures) + 1) // 2
    with theme():
        figure, panels = blank(
            rows * height + rest, rows=rows, columns=min(2, len(pictures)), same_y=same_y
        )
        panels = list(np.ravel(panels))
        said = [draw(axes) for axes, draw in zip(panels, pictures, strict=False)]
        for axes in panels[len(pictures) :]:
            axes.set_axis_off()
        found = {}
        for axes in panels:
            handles, labels = axes.get_legend_handles_labels()
            found |= {
                label: found.get(label, handle)
                for handle, label in zip(handles, labels, strict=True)
            }
        lower = {name: handle for name, handle in found.items() if name[:6] in ("client", "output")}
        upper = {name: handle for name, handle in found.items() if name not in lower}
        if upper:
            shown = {"loc": "outside upper center", "ncols": 3, "title": title or None}
            figure.legend(upper.values(), upper, frameon=False, **shown)
        elif title:
            figure.suptitle(title, fontsize=11)
        if lower:
            shown = {"loc": "outside lower center", "ncols": len(lower), "title": below or None}
            figure.legend(lower.values(), lower, frameon=False, **shown)
    return figure, " ".join(filter(None, [head, *said]))


# --- Figure 1 ---


def accuracies_and_weights(
    results: Mapping[int, Mapping[str, "Result"]],
    prevalence: Mapping[int, float] | None,
    measure: str = "batch_accuracy",
    title: str = "",
    authors: Mapping[int, np.ndarray] | None = None,
) -> tuple["Figure", str]:
    """Figure 1, one of its two rows: for each client as Alice every method's accuracy (full) and
    Weight Erosion's weights (dotted) by round.

    Two pictures in a row, where the paper has four, so that they can be read at half a page's
    width.

    `results`: Alice -> method -> result, with round 0.  `measure` is the column of accuracies.
    `prevalence`: the share of class 1 among Alice's test examples; it and its complement are what
    always saying 1 or 0 would reach (dashed).  None draws no such lines.  `authors`: Alice -> the
    weights [rounds, 4] that the authors' program printed, drawn as points.  The lines of a run that
    diverged stop there, and its picture says so.
    """
    authors = authors or {}
    kinds = {
        "batch_accuracy": "as the mean over test batches",
        "accuracy": "as the share of test examples",
    }
    head = (
        f"{len(results)} line plots{', ' + title if title else ''}: accuracy ({kinds[measure]}) and"
        " weights by round."
    )
    pictures = [
        partial(_alice, alice, of, prevalence and prevalence[alice], measure, authors.get(alice))
        for alice, of in results.items()
    ]
    figure, alt = _figure(head, pictures, 2.5, 1.6, title, "weights, dotted")
    if drawn := authors.keys() & results.keys():
        alt += f" Points: the weights that the authors' program printed, for {len(drawn)} clients."
    return figure, alt


def _alice(
    alice: int,
    of_alice: Mapping[str, "Result"],
    share: float | None,
    measure: str,
    printed: np.ndarray | None,
    axes: "Axes",
) -> str:
    if share is not None:
        for height, label in ((share, "always 0, always 1"), (1 - share, "_")):
            axes.axhline(height, color=BASELINE, linestyle="--", linewidth=1.5, label=label)
    rounds, ends, gone = 1, [], ""
    for place, (method, result) in enumerate(of_alice.items()):
        diverged = result.diverged is not None
        if diverged:
            # One line below the other, from the middle down, where accuracies seldom are.
            below = {"transform": axes.transAxes, "ha": "center", "fontsize": 9, "zorder": 5}
            axes.text(0.5, 0.5 - 0.1 * place, f"{method} {status(result)}", bbox=ON_LINES, **below)
        ends.append(f"{NAMES[method]} {status(result)}")
        if result.metrics.empty:
            continue
        curve = result.metrics.set_index("round")[measure]
        if not diverged:
            ends[-1] = f"{NAMES[method]} {curve.iloc[-1]:.3f}"
        rounds = max(rounds, int(curve.index.max()))
        drawn = look(method, of_alice) | {"linestyle": "-", "linewidth": 1.6, "markersize": 4.5}
        axes.plot(curve.index, curve, label=NAMES[method], markevery=(place, 4), zorder=3, **drawn)
        if method == "WE" and result.weights is not None:
            weights = np.vstack([np.ones(result.weights.shape[1]), result.weights])
            for client, of_client in enumerate(weights.T):
                shown = {"color": CLIENT_COLOURS[client % 4], "linestyle": ":", "linewidth": 2.2}
                axes.plot(of_client, label=f"client {client}", **shown)
            if not diverged:
                zero = ", ".join(map(str, np.flatnonzero(result.weights[-1] == 0)))
                gone = f", the weight of clients {zero} is 0" if zero else ", no weight is 0"
    if printed is not None:
        _authors(axes, alice, printed)
    axes.set(title=f"Alice: client {alice}", xlabel="round", xlim=(-0.5, rounds + 0.5))
    axes.set(ylim=(-0.02, 1.02), yticks=np.linspace(0, 1, 6))
    if axes.get_subplotspec().is_first_col():
        axes.set_ylabel("accuracy, weight")
    return f"Client {alice}: in the end {', '.join(ends)}{gone}."


def _authors(axes: "Axes", alice: int, weights: np.ndarray) -> None:
    """Points in the clients' colours, every second round: the authors' own weights."""
    shown = {"marker": "o", "markersize": 4, "linestyle": "none", "markerfacecolor": "white"}
    rounds, label = np.arange(1, len(weights) + 1)[::2], "clients, authors' program"
    for client, of_client in enumerate(weights.T):
        if client != alice:
            colour = CLIENT_COLOURS[client % 4]
            axes.plot(rounds, of_client[::2], color=colour, label=label, zorder=4, **shown)
            label = "_"


# --- Figure 2 ---


def no_parameters(result: "Result") -> str:
    """Why a result has no final parameters to show: it diverged, or was published without its
    model; empty if it has them.
    """
    if result.diverged is not None:
        return status(result)
    return "" if result.model else "published without its model"


def learned(result: "Result", inputs: Sequence[str]) -> pd.DataFrame:
    """The final model's parameters: a row for the bias and for each input, a column for each
    output, as in Figure 2.
    """
    weight, bias = (result.model[f"linear.{part}"][0].double() for part in ("weight", "bias"))
    values = np.vstack([bias.numpy(), weight.numpy().T])
    return pd.DataFrame(values, index=["Bias term", *inputs], columns=["class 0", "class 1"])


# --- penalties ---


# --- Appendix A ---
