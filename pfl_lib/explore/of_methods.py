"""Methods compared: which of them, by which number, by rounds or by seconds; and by how much one is
above another, paired by seed.
"""

import html
from collections.abc import Mapping, Sequence

import pandas as pd

from pfl_lib.display import player, spread, tables, theme
from pfl_lib.explore.explorer import Explorer, choices, picture
from pfl_lib.results.result import Result
from pfl_lib.results.several import Comparison, Results, compare

METRICS = ("accuracy", "worst client", "loss")
ALONG = ("rounds", "seconds")


def methods(
    results: Mapping[str, Result | Results], to: str | None = None, title: str = ""
) -> Explorer:
    """Results by name, as `pfl_lib.compare` takes them: mean accuracy, the worst client's, or loss,
    by rounds or by seconds of training, with a band over seeds; below them the paired differences
    from the method named `to` (default: the first).

    Seconds are a run's own, spread evenly over its rounds.  Raises BadInput for what is no result
    and for an unknown name.
    """
    compared = compare(results)
    compared.differences(to)
    first = next(iter(compared.results)) if to is None else to
    _, words = drawn(compared, METRICS[0], ALONG[0])
    return Explorer(
        words, lambda: _choices(compared, first, title), lambda: _widget(compared, first, title)
    )


def drawn(
    compared: Comparison, metric: str, along: str, names: Sequence[str] | None = None
) -> tuple[bytes, str]:
    """The picture of one choice, a PNG, and its alt text; `names`: these methods alone."""
    shown = list(compared.results) if names is None else names
    runs = {name: compared.results[name].results for name in shown}
    figure, alt = spread.by_round(runs, metric, along)
    return theme.png(figure), alt


def differences(compared: Comparison, to: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The paired differences from one method, mean over clients and worst client."""
    frames = []
    for over, words in (("clients", "mean over clients"), ("worst", "worst client")):
        frame = compared.differences(to, "last", over)
        if len(frame):
            frame.insert(1, "accuracy of", words)
        frames.append(frame)
    rows = pd.concat(frames, ignore_index=True)
    return rows if names is None or not len(rows) else rows[rows["method"].isin(names)]


def _table(compared: Comparison, to: str, names: Sequence[str] | None = None) -> str:
    rows = differences(compared, to, names)
    caption = f"Points above {to} in the last round, paired by seed, with 95 % intervals"
    if not len(rows):
        return ""
    # As pictures: in a window narrower than its numbers the table scrolls, and not the page.
    return f'<div style="overflow-x:auto">{tables.to_html(rows, caption)}</div>'


def _choices(compared: Comparison, to: str, title: str) -> str:
    options = []
    for metric in METRICS:
        for along in ALONG:
            png, alt = drawn(compared, metric, along)
            piece = f"{picture(png, alt)}<p>{html.escape(alt)}</p>"
            options.append((f"{metric}, by {along}", piece))
    return choices("methods", "show", options, title) + _table(compared, to)


def _widget(compared: Comparison, to: str, title: str):
    import ipywidgets

    names = ipywidgets.SelectMultiple(
        options=list(compared.results), value=tuple(compared.results), description="methods"
    )
    metric = ipywidgets.Dropdown(options=METRICS, description="show")
    along = ipywidgets.Dropdown(options=ALONG, description="by")
    against = ipywidgets.Dropdown(options=list(compared.results), value=to, description="against")
    view = ipywidgets.HTML()

    def draw(change=None) -> None:
        chosen = names.value or tuple(compared.results)
        png, alt = drawn(compared, metric.value, along.value, chosen)
        heading = f"<div><strong>{html.escape(title)}</strong></div>" if title else ""
        table = _table(compared, against.value, chosen)
        view.value = f"{heading}{picture(png, alt)}<p>{html.escape(alt)}</p>{table}"

    for control in (names, metric, along, against):
        control.observe(draw, "value")
    draw()
    return player.column([names, metric, along, against], view)
