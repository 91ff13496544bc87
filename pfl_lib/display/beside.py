"""The paper's values beside ours, as dots."""

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

PAPER, OURS = "black", "#de8f05"
WRAP = 4  # panels in a row


def dots(compared: pd.DataFrame) -> "Figure":
    """A panel for each row of the table: methods downwards, what the paper prints and our mean with
    their standard deviations.  `compared`: the frame of `papers.compare.beside`, one metric.
    """
    import seaborn

    methods = list(dict.fromkeys(compared["method"]))
    several = compared["dataset"].nunique() > 1
    place = compared["dataset"] + "\n" if several else ""
    compared = compared.assign(place=place + compared["setting"].str.replace("_", " "))
    panels = compared["place"].nunique()
    height = 1.5 + 0.24 * len(methods)
    size = {"height": height, "aspect": 2.9 / height, "col_wrap": min(WRAP, panels)}
    grid = seaborn.FacetGrid(compared, col="place", sharex=False, **size)

    def draw(data, **_):
        import matplotlib.pyplot

        axes = matplotlib.pyplot.gca()
        for name, shift, colour, marker in (
            ("printed", -0.14, PAPER, "o"),
            ("ours", 0.14, OURS, "X"),
        ):
            at = [methods.index(method) + shift for method in data["method"]]
            axes.errorbar(
                data[name],
                at,
                xerr=data[f"{name} std"].fillna(0),
                fmt=marker,
                color=colour,
                label=name,
            )

    grid.map_dataframe(draw)
    for axes in grid.axes.flat:
        axes.set(yticks=range(len(methods)), yticklabels=methods, ylim=(len(methods) - 0.5, -0.5))
    unit = compared["metric"].iloc[0].replace("_percent", ", %").replace("_", " ")
    grid.set_titles("{col_name}").set_axis_labels(unit, "").tight_layout()
    grid.add_legend()
    return grid.figure
