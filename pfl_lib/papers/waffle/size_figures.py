"""The pictures of the size-penalty study, each with an alt text made from what is drawn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.theme import blank, legend, theme
from pfl_lib.papers.waffle import size_penalty

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

PENALISED = {
    size_penalty.WITHOUT: {"color": "#0173b2", "linestyle": "--", "marker": "o"},
    size_penalty.WITH: {"color": "#d55e00", "linestyle": "-", "marker": "s"},
}


def mean_weights(
    weights: Mapping[tuple[str, str, str], np.ndarray],
) -> tuple["Figure", str] | None:
    """The mean of all weights by round without and with the size penalty, a panel for each setting,
    and the authors' in the rounds that are known (hollow).

    `weights`: `size_penalty.mean_weights`.  None where nothing was run.
    """
    settings = list(dict.fromkeys(place[:2] for place in weights))
    if not settings:
        return None
    columns = min(3, len(settings))
    told = []
    with theme():
        rows = -(-len(settings) // columns)
        figure, panels = blank(2.6 * rows + 0.9, rows=rows, columns=columns, same_y=True)
        panels = np.ravel(panels)
        for axes, setting in zip(panels, settings, strict=False):
            for penalty, style in PENALISED.items():
                if (curve := weights.get((*setting, penalty))) is None:
                    continue
                rounds = np.arange(1, len(curve) + 1)
                axes.plot(rounds, curve, label=penalty, markevery=5, **style)
                authors = size_penalty.AUTHORS[(*setting, penalty)][1:]
                hollow = style | {"linestyle": "none", "markerfacecolor": "white", "markersize": 8}
                axes.plot(size_penalty.SHOWN, authors, label=f"{penalty}, authors", **hollow)
                shown = [r for r in size_penalty.SHOWN if r <= len(curve)]
                told.append(
                    f"{size_penalty.setting_name(*setting)}, {penalty}: "
                    + ", ".join(f"{curve[r - 1]:.2f} in round {r}" for r in shown)
                )
            axes.set_title(size_penalty.setting_name(*setting), fontsize=12)
            axes.set(xlabel="round", ylim=(0, 1.03), xlim=(0, size_penalty.ROUNDS + 1))
        for axes in panels[::columns]:
            axes.set_ylabel("mean weight")
        for axes in panels[len(settings) :]:
            axes.set_visible(False)
        legend(figure, panels[0])
    return figure, f"Line plots of the mean of all 20 weights by round. {'; '.join(told)}."


def weight_by_size(sizes: pd.DataFrame) -> tuple["Figure", str] | None:
    """The mean weight over all rounds by client size, without and with the size penalty, a panel
    for each setting with uneven sizes.  `sizes`: `size_penalty.by_size`.  None where it is empty.
    """
    settings = list(sizes.groupby(["labels", "sizes"], sort=False))
    if not settings:
        return None
    columns = min(2, len(settings))
    top = 1.1 * sizes[list(PENALISED)].to_numpy().max()
    told = []
    with theme():
        rows = -(-len(settings) // columns)
        figure, panels = blank(2.4 * rows + 0.9, rows=rows, columns=columns, same_y=True)
        panels = np.ravel(panels)
        for axes, (setting, of_setting) in zip(panels, settings, strict=False):
            for penalty, style in PENALISED.items():
                axes.plot(of_setting["parts"], of_setting[penalty], label=penalty, **style)
            axes.set_title(size_penalty.setting_name(*setting), fontsize=12)
            axes.set(xlabel="size in parts", ylim=(0, top), xlim=(0, 23))
            axes.set_xticks(of_setting["parts"].tolist())
            told += [
                f"{size_penalty.setting_name(*setting)}, {row['parts']} parts:"
                f" {row[size_penalty.WITHOUT]:.2f} without, {row[size_penalty.WITH]:.2f} with"
                for row in of_setting.to_dict("records")
            ]
        for axes in panels[::columns]:
            axes.set_ylabel("mean weight, all rounds")
        for axes in panels[len(settings) :]:
            axes.set_visible(False)
        legend(figure, panels[0])
    head = "Line plots of clients' mean weight over the run by size, without and with the penalty."
    return figure, f"{head} {'; '.join(told)}."
