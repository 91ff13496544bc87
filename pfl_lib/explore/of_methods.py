"""Methods compared, by rounds or by seconds; and paired differences by seed."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pfl_lib.display import curves, play, table
from pfl_lib.errors import choose
from pfl_lib.results.comparison import compare
from pfl_lib.results.result import Result
from pfl_lib.results.several import Results

WORST = "accuracy of the worst client"
METRICS = {"accuracy": {}, WORST: {"over": "worst"}, "loss": {"metric": "loss"}}
"""What is shown, and how `Results.summary` reads it."""
ALONG = ("round", "seconds")


def methods(
    results: Mapping[str, Result | Results], to: str | None = None, title: str = ""
) -> play.Explorer:
    """Results by name, as `pfl_lib.compare` takes them: mean accuracy, the worst client's, or loss,
    by rounds or by seconds of training, with a band over seeds; below them the paired differences
    from the method named `to` (default: the first).

    Seconds are a run's own, spread evenly over its rounds.  Raises BadInput for what is no result
    and for an unknown name.
    """
    compared = compare(results)
    every = tuple(compared.results)
    first = every[0] if to is None else choose("name", to, every)
    by_round = compared.frame.groupby(["method", "seed", "round"])
    frame = compared.frame.assign(**{WORST: by_round["accuracy"].transform("min")})

    def draw(figure, names: Sequence[str], metric: str, along: str, against: str) -> None:
        shown = frame[frame["method"].isin(names or every)]
        curves.accuracy(shown, figure.add_subplot(), metric, along)

    def says(names: Sequence[str], metric: str, along: str, against: str) -> str:
        told = []
        for name in names or every:
            several = compared.results[name]
            last = several.summary("last", **METRICS[metric])
            counted = f"{last.mean:.2f} ({len(several)} seed{'s' * (len(several) > 1)})"
            told.append(f"{name} {last.status if last.diverged else counted}")
        unit = " in percent" if metric != "loss" else ""
        return f"{metric}{unit} by {along}, mean over seeds; in the last round: {', '.join(told)}."

    def below(names: Sequence[str], metric: str, along: str, against: str) -> str:
        over = {"clients": "mean over clients", "worst": "worst client"}
        frames = [
            compared.differences(against, "last", one).assign(**{"accuracy of": words})
            for one, words in over.items()
        ]
        rows = pd.concat(frames, ignore_index=True)
        rows = rows[rows["method"].isin(names or every)] if len(rows) else rows
        caption = f"Points above {against} in the last round, paired by seed, with 95 % intervals"
        return table.scrolling(rows, caption) if len(rows) else ""

    controls = {"methods": {"all": every}, "show": tuple(METRICS), "by": ALONG, "against": [first]}
    pictures = play.Pictures(draw, says, title, below)

    def widgets() -> dict[str, object]:
        """The methods, and the one that they are compared with, can be chosen too."""
        import ipywidgets

        names = ipywidgets.SelectMultiple(options=every, value=every)
        against = ipywidgets.Dropdown(options=every, value=first)
        return {**controls, "methods": names, "against": against}

    return play.explorer(pictures, controls, widgets)
