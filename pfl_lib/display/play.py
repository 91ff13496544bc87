"""Pictures to turn by hand: widgets in JupyterLab; on a page that is kept, native controls that
choose among small pictures within the page.  The keyboard reaches all of them.
"""

import base64
import hashlib
import html
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pfl_lib.display import theme
from pfl_lib.progress import headless

PICTURES = 40  # on a page at most, evenly spaced: less than a megabyte
DPI, COLOURS = 120, 48  # of such a picture
ROUND = "round"  # the control that plays

SCRIPT = Path(__file__).with_name("explorer.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Explorer:
    """`words` say in a sentence what it shows first; `to_html()` is its piece of a page, `widget()`
    its widgets, `still()` the PNG that stands for these where nothing runs.  As the last line of a
    notebook's cell it shows itself.
    """

    words: str
    to_html: Callable[[], str]
    widget: Callable[[], Any]
    still: Callable[[], bytes] | None = None

    def _ipython_display_(self) -> None:
        from IPython.display import display

        bundle = {"text/html": self.to_html()} if headless() else self.widget()._repr_mimebundle_()
        if self.still is not None and not headless():
            bundle["image/png"] = base64.b64encode(self.still()).decode()
        alt = {"image/png": {"alt": self.words}} if "image/png" in bundle else {}
        display(bundle | {"text/plain": self.words}, metadata=alt, raw=True)

    def __repr__(self) -> str:
        return f"<Explorer: {self.words}>"


@dataclass(frozen=True)
class Pictures:
    """`draw(figure, *choice)` draws on an empty figure, `says(*choice)` is its sentence,
    `below(*choice)` HTML below it; a choice has a value of each control, in their order.
    `turn(figure, *choice)` gives a drawn figure the values of another choice, where nothing else of
    it changes: this takes less time than to draw it anew.
    """

    draw: Callable[..., object]
    says: Callable[..., str]
    title: str = ""
    below: Callable[..., str] = lambda *choice: ""
    turn: Callable[..., object] | None = None
    _drawn: list[Figure] = field(init=False, default_factory=list, repr=False, compare=False)

    def figure(self, choice: Sequence[object]):
        """The matplotlib figure of a choice; where it is turned, the same for each."""
        if self.turn and self._drawn:
            self.turn(self._drawn[0], *choice)
            return self._drawn[0]
        figure = Figure(figsize=(theme.WIDTH, 3.6), dpi=DPI, layout="constrained")
        self.draw(figure, *choice)
        if self.turn:
            figure.get_layout_engine().execute(figure)
            figure.set_layout_engine("none")  # what has its place keeps it
            self._drawn.append(figure)
        return figure

    def png(self, choice: Sequence[object]) -> bytes:
        """The picture of a choice."""
        with theme.theme():
            return theme.png(self.figure(choice), DPI, COLOURS)

    def picture(self, choice: Sequence[object]) -> str:
        """The picture of a choice and its sentence, as HTML."""
        words = self.says(*choice)
        with theme.theme():
            figure = self.figure(choice)
            image = picture(figure, words) if figure.axes else ""
        return f'{image}<p class="words">{html.escape(words)}</p>'


def first(controls: Mapping[str, Mapping[str, object]]) -> list[object]:
    """What is shown first, a value of each control: the middle round, of a list its first."""
    values = {name: list(of.values()) for name, of in controls.items()}
    return [of[len(of) // 2 if name == ROUND else 0] for name, of in values.items()]


def explorer(
    pictures: Pictures,
    controls: Mapping[str, Sequence | Mapping[str, object]],
    widgets: Callable[[], Mapping[str, Any]] | None = None,
    most: int = PICTURES,
) -> Explorer:
    """Pictures chosen by `controls`: values by name, or by the names to be shown for them; rounds
    have a slider that plays, others are lists.

    `widgets()`: controls of JupyterLab, where these have more to choose; one may be a widget.
    `most`: how many pictures a page has.
    """
    shown = {name: _named(values) for name, values in controls.items()}
    return Explorer(
        pictures.says(*first(shown)),
        lambda: to_html(pictures, shown, most),
        lambda: widget(pictures, shown if widgets is None else widgets()),
        lambda: pictures.png(first(shown)),
    )


def _named(values: Sequence | Mapping[str, object]) -> dict[str, object]:
    return dict(values) if isinstance(values, Mapping) else {str(value): value for value in values}


def picture(figure, words: str) -> str:
    """A figure as a PNG within the page, with its alt text; in narrow windows it scrolls."""
    image = base64.b64encode(theme.png(figure, DPI, COLOURS)).decode()
    wide = round(100 * figure.get_figwidth())
    return (
        '<div style="overflow-x:auto;margin-bottom:.5rem">'
        f'<img alt="{html.escape(words)}" style="width:min(100%,{wide}px);height:auto;'
        f'min-width:{min(4 * wide // 5, 540)}px" src="data:image/png;base64,{image}"></div>'
    )


def framed(inside: str, title: str = "", script: str = "") -> str:
    """HTML as a figure with an id of its own; the script that moves it calls it `root`."""
    id = f"explorer-{hashlib.sha256((title + inside).encode()).hexdigest()[:10]}"
    caption = f"<figcaption><strong>{html.escape(title)}</strong></figcaption>" if title else ""
    moved = f"<script>{{const root=document.getElementById('{id}');{script}}}</script>"
    return f'<figure class="explorer" id="{id}">{caption}{inside}{moved if script else ""}</figure>'


def thinned(controls: Mapping[str, Mapping], most: int = PICTURES) -> dict[str, dict]:
    """The controls with at most so many choices in all: evenly spaced ones of the longest."""
    counts = {name: len(of) for name, of in controls.items()}
    while math.prod(counts.values()) > most:
        counts[max(counts, key=counts.get)] -= 1
    kept = {}
    for name, of in controls.items():
        places = np.linspace(0, len(of) - 1, counts[name]).round().astype(int)
        kept[name] = dict(list(of.items())[k] for k in places)
    return kept


def to_html(pictures: Pictures, controls: Mapping[str, Mapping], most: int = PICTURES) -> str:
    """The pictures of a page, of which all but one are hidden, and native controls."""
    kept = thinned(controls, most)
    opened, shown = tuple(first(kept)), ""
    for choice in itertools.product(*(of.values() for of in kept.values())):
        hidden = "" if choice == opened else " hidden"
        shown += f'<div class="choice"{hidden}>{pictures.picture(choice)}</div>'
    head = "".join(_control(name, list(of)) for name, of in kept.items() if len(of) > 1)
    every, some = (math.prod(map(len, of.values())) for of in (controls, kept))
    told = f"<p>{some} of {every} pictures; in JupyterLab all.</p>" if some < every else ""
    inside = f'<p>{head}</p><div aria-live="polite">{shown}</div>{told}'
    return framed(inside + pictures.below(*opened), pictures.title, SCRIPT)


def _control(name: str, names: Sequence[str]) -> str:
    if name != ROUND:
        options = "".join(f"<option>{html.escape(option)}</option>" for option in names)
        box = f'<select autocomplete="off" style="max-width:100%">{options}</select>'
        return f'<label style="margin-right:1rem">{name} {box}</label>'
    last, middle = len(names) - 1, len(names) // 2
    return (
        f'<label>{name} <output>{names[middle]}</output> <input type="range" min="0" max="{last}"'
        f' value="{middle}" step="1" autocomplete="off" aria-valuetext="round {names[middle]}"'
        f" data-names='{html.escape(json.dumps(names))}'"
        ' style="width:min(22rem,60%)"></label> <button type="button" class="play">play</button>'
    )


def widget(pictures: Pictures, controls: Mapping[str, Any]):
    """The same in JupyterLab, where each picture is drawn when it is chosen."""
    import ipywidgets

    boxes, made = [], []
    for name, values in controls.items():
        if isinstance(values, ipywidgets.Widget):
            one = box = values
        elif name == ROUND:
            options = list(_named(values).items())
            one = ipywidgets.SelectionSlider(options=options, index=len(options) // 2)
            button = ipywidgets.Play(max=len(options) - 1, value=one.index, interval=350)
            ipywidgets.link((button, "value"), (one, "index"))
            box = ipywidgets.HBox([button, one], layout={"flex_flow": "row wrap"})
        else:
            one = box = ipywidgets.Dropdown(options=list(_named(values).items()))
        one.description = name
        made.append(one)
        boxes += [box] if len(getattr(one, "options", "two")) > 1 else []
    view = ipywidgets.HTML(layout={"overflow": "auto"})
    heading = f"<div><strong>{html.escape(pictures.title)}</strong></div>" if pictures.title else ""

    def draw(change=None) -> None:
        choice = [control.value for control in made]
        view.value = heading + pictures.picture(choice) + pictures.below(*choice)

    for control in made:
        control.observe(draw, "value")
    draw()
    return ipywidgets.VBox([*boxes, view])
