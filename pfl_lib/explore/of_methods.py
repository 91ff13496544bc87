"""Methods compared: which of them, by which number, by rounds or by seconds; and by how much one is
above another, paired by seed.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from pfl_lib.display import curves, play, table
from pfl_lib.results.result import Result
from pfl_lib.results.several import Comparison, Results, compare

METRICS = ("accuracy", "accuracy of the worst client", "loss")
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
    compared.differences(to)
    every, first = tuple(compared.results), next(iter(compared.results)) if to is None else to
    frame = compared.frame
    worst = frame.groupby(["method", "seed", "round"])["accuracy"].transform("min")
    frame = frame.assign(**{METRICS[1]: worst})

    def draw(figure, names: Sequence[str], metric: str, along: str, against: str) -> None:
        shown = frame[frame["method"].isin(names or every)]
        curves.accuracy(shown, figure.add_subplot(), metric, along)

    def says(names: Sequence[str], metric: str, along: str, against: str) -> str:
        of = {name: compared.results[name] for name in names or every}
        last = frame[frame["round"] == frame.groupby("method")["round"].transform("max")]
        means = last.groupby(["method", "seed"])[metric].mean().groupby("method").mean()
        told = ", ".join(f"{n} {means[n]:.2f} ({_seeds(len(one))})" for n, one in of.items())
        percent = " in percent" if metric != "loss" else ""
        return f"{metric}{percent} by {along}, mean over seeds; in the last round: {told}."

    def below(names: Sequence[str], metric: str, along: str, against: str) -> str:
        rows = differences(compared, against)
        rows = rows[rows["method"].isin(names or every)] if len(rows) else rows
        caption = f"Points above {against} in the last round, paired by seed, with 95 % intervals"
        page = table.styled(rows, caption).to_html() if len(rows) else ""
        return f'<div style="overflow-x:auto">{page}</div>' if page else ""

    controls = {"methods": {"all": every}, "show": METRICS, "by": ALONG, "against": [first]}
    pictures = play.Pictures(draw, says, title, below)
    return play.explorer(pictures, controls, lambda: _widgets(controls, every, first))


def _widgets(controls: dict, every: Sequence[str], first: str) -> dict:
    """In JupyterLab the methods, and the one that they are compared with, can be chosen too."""
    import ipywidgets

    names = ipywidgets.SelectMultiple(options=every, value=every)
    against = ipywidgets.Dropdown(options=every, value=first)
    return {**controls, "methods": names, "against": against}


def differences(compared: Comparison, to: str) -> pd.DataFrame:
    """The paired differences from one method, mean over clients and worst client."""
    frames = []
    for over, words in (("clients", "mean over clients"), ("worst", "worst client")):
        frame = compared.differences(to, "last", over)
        if len(frame):
            frame.insert(1, "accuracy of", words)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"
