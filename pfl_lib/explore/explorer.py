"""What every explorer is: words, a piece of HTML for a page, widgets for JupyterLab."""

import hashlib
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pfl_lib.progress import headless


@dataclass(frozen=True)
class Explorer:
    """`words` say in a sentence what it shows first; `to_html()` is its piece of a page, `widget()`
    its widgets.  As the last line of a notebook's cell it shows itself.
    """

    words: str
    to_html: Callable[[], str]
    widget: Callable[[], Any]

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if headless():
            display({"text/html": self.to_html(), "text/plain": self.words}, raw=True)
        else:
            display(self.widget())

    def __repr__(self) -> str:
        return f"<Explorer: {self.words}>"


def figure(kind: str, inside: str, script: str, title: str = "") -> str:
    """A figure with an id of its own and the script that moves it, which calls it `root`."""
    id = f"{kind}-{hashlib.sha256((title + inside + script).encode()).hexdigest()[:10]}"
    caption = f"<figcaption><strong>{html.escape(title)}</strong></figcaption>" if title else ""
    return (
        f'<figure class="explorer {kind}" id="{id}">{caption}{inside}'
        f"<script>(function(){{const root=document.getElementById('{id}');{script}}})();</script>"
        "</figure>"
    )


def choices(kind: str, label: str, options: Sequence[tuple[str, str]], title: str = "") -> str:
    """A figure with a list of choices, each a name and the HTML that it shows; without scripts the
    first one stays.
    """
    names = "".join(f"<option>{html.escape(name)}</option>" for name, _ in options)
    shown = "".join(
        f'<div class="choice"{" hidden" if place else ""}>{inside}</div>'
        for place, (_, inside) in enumerate(options)
    )
    script = (
        "const pick=root.querySelector('select');"
        "pick.addEventListener('change',()=>root.querySelectorAll('.choice').forEach("
        "(choice,i)=>{choice.hidden=i!==pick.selectedIndex;}));"
    )
    inside = (
        f"<p><label>{html.escape(label)}"
        f' <select autocomplete="off" style="max-width:100%">{names}</select></label></p>'
        f'<div aria-live="polite">{shown}</div>'
    )
    return figure(kind, inside, script, title)


def picture(png: bytes, alt: str) -> str:
    """A PNG within the page, with its alt text; in narrow windows it scrolls, so that its letters
    stay readable.
    """
    import base64

    image = base64.b64encode(png).decode()
    return (
        '<div style="overflow-x:auto;margin-bottom:.5rem">'
        f'<img alt="{html.escape(alt)}" style="width:min(100%,840px);min-width:34rem;height:auto"'
        f' src="data:image/png;base64,{image}"></div>'
    )
