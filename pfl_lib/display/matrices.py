"""Matrices over rounds, such as who listens to whom: a heat map with a slider.

On a page that was made in batch the slider is a range input with a few lines of script, and every
frame a small picture within the page: nothing is fetched, arrow keys move it, and without scripts
or on paper the last frame stays.  In JupyterLab it is a widget.
"""

import base64
import hashlib
import html
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pfl_lib.display import player
from pfl_lib.display.table_format import show_table, written
from pfl_lib.errors import BadInput
from pfl_lib.progress import headless

SIDE = 260  # of a heat map, in the units of its SVG
MARGIN = 34  # left of and below it, for ticks and names of axes
LEVELS = 32  # colours; more would not be told apart, and fewer make smaller files
TICKS = 16  # up to so many clients each has its number on the axes


@dataclass(frozen=True)
class Matrices:
    """Frames [rounds, panels, N, N] to be shown with a slider: `rounds` has the number of each
    frame, `panels` the name of each heat map in a frame ("" where there is one).

    Row i of a matrix belongs to client i; `quantity` says what a cell is ("weight").  `groups`: the
    group of each client, () where there are none; lines stand between clients of different groups.
    """

    frames: np.ndarray
    rounds: tuple[int, ...]
    panels: tuple[str, ...]
    quantity: str
    title: str
    groups: tuple[int, ...] = ()

    @property
    def limits(self) -> tuple[float, float]:
        """The values of the first and last colour: from 0 to the largest value, or to 1 where that
        is a share; on both sides of 0 alike where there are negative values.
        """
        low, high = np.nanmin(self.frames), np.nanmax(self.frames)
        if low < 0:
            return -max(-low, high), max(-low, high)
        return 0.0, 1.0 if 0.5 < high <= 1 else float(high) or 1.0

    def words(self, place: int) -> str:
        """One sentence for a frame, from its numbers: the heat map's alt text."""
        parts = []
        for name, matrix in zip(self.panels, self.frames[place], strict=True):
            rows = np.arange(len(matrix))
            others = np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix)
            if np.isnan(others).all():
                parts.append(f"{name + ': ' if name else ''}no values")
                continue
            i, j = np.unravel_index(np.nanargmax(others), others.shape)
            own = matrix[rows, rows]
            said = (
                "" if np.isnan(own).all() else f"own {self.quantity} {written(np.nanmean(own))} on "
            )
            parts.append(
                f"{name + ': ' if name else ''}{said}{'average, ' if said else ''}largest between"
                f" two clients {written(others[i, j])} (client {i} for the model of {j})"
                + self._by_group(others)
            )
        return f"Round {self.rounds[place]}: {'; '.join(parts)}."

    def _by_group(self, others: np.ndarray) -> str:
        """The means of a matrix [N, N] without its diagonal, within groups and across."""
        if not self.groups:
            return ""
        same = np.equal.outer(self.groups, self.groups)
        told = [
            f"{name} {written(np.nanmean(others[where]))}"
            for name, where in (("the same group", same), ("other groups", ~same))
            if not np.isnan(others[where]).all()
        ]
        return f"; mean over other clients of {', of '.join(told)}" if told else ""


def matrices(
    frames: np.ndarray,
    rounds: Sequence[int],
    panels: Sequence[str] = (),
    quantity: str = "weight",
    title: str = "",
    groups: Sequence[int] = (),
) -> Matrices:
    """Check and keep matrices [rounds, N, N], or [rounds, L, N, N] with a heat map for each of the
    L layers named in `panels`; `groups`, where given: the group of each of the N clients.

    nan is shown in grey.  Raises `BadInput` for another shape, for numbers of rounds, names or
    groups that do not fit it, and where every value is nan or one is infinite.
    """
    values = np.asarray(frames, dtype=float)
    values = values[:, None] if values.ndim == 3 else values
    names = tuple(map(str, panels)) or ("",)
    if values.ndim != 4 or values.shape[2] != values.shape[3] or not values.size:
        raise BadInput(
            f"matrices of shape {np.shape(frames)}: give [rounds, N, N] or [rounds, L, N, N]"
        )
    if len(rounds) != len(values) or len(names) != values.shape[1]:
        raise BadInput(
            f"{len(rounds)} rounds and {len(names)} panels for matrices of shape"
            f" {np.shape(frames)}: give the number of each round and a name for each layer"
        )
    if len(groups) not in (0, values.shape[-1]):
        raise BadInput(
            f"{len(groups)} groups for {values.shape[-1]} clients: give the group of each client"
        )
    if np.isinf(values).any() or np.isnan(values).all():
        raise BadInput("matrices with infinite values, or with none: leave such rounds out")
    of = tuple(map(int, groups))
    return Matrices(values, tuple(map(int, rounds)), names, quantity, title, of)


def show_matrices(shown: Matrices) -> None:
    """Show matrices with their slider, and below them the table of who listens to whom in the last
    frame; outside a notebook nothing happens.
    """
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        return
    if headless():
        words = " ".join([shown.title, shown.words(len(shown.rounds) - 1)]).strip()
        display({"text/html": to_html(shown), "text/plain": words}, raw=True)
    else:
        display(widget(shown))
    for place, name in enumerate(shown.panels):
        last = f"round {shown.rounds[-1]}: each client's {shown.quantity}"
        table = in_brief(shown.frames[-1, place], shown.quantity)
        folded = len(shown.panels) > 1 or len(table) > TICKS
        show_table(table, f"{name + ', ' if name else ''}{last}", folded=folded)


def in_brief(matrix: np.ndarray, quantity: str = "weight") -> pd.DataFrame:
    """A row for each client i of a matrix [N, N]: its own value, the other client with the largest,
    that value, and how many others have one above 0.
    """
    lines = []
    for i, row in enumerate(np.asarray(matrix, dtype=float)):
        others = np.where(np.arange(len(row)) == i, np.nan, row)
        first = None if np.isnan(others).all() else int(np.nanargmax(others))
        lines.append(
            {
                "client": i,
                f"own {quantity}": row[i],
                "most from": "–" if first is None else f"client {first}",
                f"its {quantity}": np.nan if first is None else others[first],
                "others above 0": int((others > 0).sum()),
            }
        )
    return pd.DataFrame(lines)


def to_html(shown: Matrices) -> str:
    """The heat maps of the last frame as SVG, a range input, and the script that moves between the
    frames; it needs nothing from outside.
    """
    last = len(shown.rounds) - 1
    pictures = [[pixels(matrix, shown.limits) for matrix in frame] for frame in shown.frames]
    words = [shown.words(place) for place in range(len(shown.rounds))]
    frames = json.dumps({"pictures": pictures, "words": words, "rounds": shown.rounds})
    id = "matrices-" + hashlib.sha256(frames.encode() + shown.title.encode()).hexdigest()[:10]
    panels = "".join(
        _panel(shown, panel, pictures[last][panel], words[last])
        for panel in range(len(shown.panels))
    )
    script = (
        "(function(){const root=document.getElementById('" + id + "');"
        f"const frames={frames};"
        "const range=root.querySelector('input');"
        "function draw(){const k=Number(range.value);"
        "root.querySelectorAll('image').forEach((image,i)=>"
        "image.setAttribute('href','data:image/png;base64,'+frames.pictures[k][i]));"
        "root.querySelectorAll('svg').forEach(svg=>"
        "svg.setAttribute('aria-label',frames.words[k]));"
        "root.querySelector('output').textContent=frames.rounds[k];"
        "root.querySelector('.words').textContent=frames.words[k];"
        "range.setAttribute('aria-valuetext','round '+frames.rounds[k]);}"
        f"range.addEventListener('input',draw);{player.SCRIPT}draw();}})();"
    )
    caption = f"<figcaption><strong>{html.escape(shown.title)}</strong></figcaption>"
    return (
        f'<figure class="matrices" id="{id}">{caption if shown.title else ""}'
        f'<div class="panels" style="display:flex;flex-wrap:wrap;gap:1rem">{panels}</div>'
        f"{_scale(shown)}"
        f"<p><label>round <output>{shown.rounds[last]}</output> "
        f'<input type="range" min="0" max="{last}" value="{last}" step="1"'
        f' aria-valuetext="round {shown.rounds[last]}" style="width:min(26rem,60%)"></label>'
        f" {player.BUTTON}</p>"
        f'<p class="words" aria-live="polite">{html.escape(words[last])}</p>'
        f"<script>{script}</script></figure>"
    )


def _panel(shown: Matrices, panel: int, picture: str, words: str) -> str:
    """A heat map as SVG: the picture of its cells, one pixel each, between axes."""
    clients = shown.frames.shape[-1]
    cell, every = SIDE / clients, 1 if clients <= TICKS else -(-clients // 10)
    ticks = ""
    for client in range(0, clients, every):
        at = (client + 0.5) * cell
        ticks += (
            f'<text x="{MARGIN - 5}" y="{at + 3.5:.1f}" text-anchor="end">{client}</text>'
            f'<text x="{MARGIN + at:.1f}" y="{SIDE + 12}" text-anchor="middle">{client}</text>'
        )
    name = html.escape(shown.panels[panel])
    head = f"<figcaption>{name}</figcaption>" if name else ""
    return (
        f'<div style="flex:0 1 {SIDE + MARGIN + 40}px">{head}'
        f'<svg role="img" aria-label="{html.escape(words)}" viewBox="0 0'
        f' {SIDE + MARGIN + 4} {SIDE + MARGIN}" style="width:100%;height:auto" font-size="10"'
        f' fill="currentColor"><image x="{MARGIN}" y="0" width="{SIDE}" height="{SIDE}"'
        ' preserveAspectRatio="none" style="image-rendering:pixelated"'
        f' href="data:image/png;base64,{picture}"/>'
        f'<rect x="{MARGIN}" y="0" width="{SIDE}" height="{SIDE}" fill="none" stroke="#888"/>'
        f"{_borders(shown.groups, cell)}{ticks}"
        f'<text x="{MARGIN + SIDE / 2}" y="{SIDE + 28}" text-anchor="middle">from client'
        f'</text><text transform="translate(9 {SIDE / 2}) rotate(-90)" text-anchor="middle">for'
        " client</text></svg></div>"
    )


def _borders(groups: Sequence[int], cell: float) -> str:
    """Lines across a heat map between neighbouring clients of different groups."""
    lines = ""
    for client in range(1, len(groups)):
        if groups[client] != groups[client - 1]:
            at = client * cell
            lines += (
                f'<path d="M{MARGIN} {at:.1f}h{SIDE}M{MARGIN + at:.1f} 0v{SIDE}" stroke="#555"'
                ' stroke-width="1"/>'
            )
    return lines


def _scale(shown: Matrices) -> str:
    """The colours with the values they stand for."""
    low, high = shown.limits
    levels = np.linspace(0, 1, LEVELS)[None]
    values = low + (high - low) * (levels**2 if low == 0 else levels)  # even steps of colour
    bar, bottom = pixels(values, shown.limits), f"{low:.3g}".replace("-", "−")
    return (
        f'<p class="scale" style="display:flex;gap:.5rem;align-items:center">{shown.quantity}'
        f' {bottom} <img alt="colours from {bottom} to {high:.3g}" width="160" height="12"'
        ' style="image-rendering:pixelated;height:12px;width:160px;border:1px solid #888"'
        f' src="data:image/png;base64,{bar}"> {high:.3g}</p>'
    )


def pixels(matrix: np.ndarray, limits: tuple[float, float]) -> str:
    """A matrix as a PNG of one pixel a cell, base64: white is 0, grey is nan; colours follow the
    square root, so that a tenth is still told from a hundredth.
    """
    import seaborn

    low, high = limits
    share = (matrix - low) / (high - low)
    share = np.sqrt(share.clip(0, 1)) if low == 0 else share
    palette = seaborn.color_palette("mako_r" if low == 0 else "vlag", as_cmap=True)
    colours = np.round(255 * palette(np.linspace(0, 1, LEVELS))[:, :3]).astype(np.uint8)
    cells = np.round(np.nan_to_num(share) * (LEVELS - 1)).astype(np.uint8)
    cells[matrix == 0] = LEVELS
    cells[np.isnan(matrix)] = LEVELS + 1
    return _png(cells, np.vstack([colours, [[255] * 3, [190] * 3]]).astype(np.uint8))


def _png(cells: np.ndarray, palette: np.ndarray) -> str:
    """A PNG of palette entries `cells` [height, width], base64: a third of the size of one with
    colours, which is what matplotlib writes.
    """
    height, width = cells.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits a cell, by palette
    lines = np.hstack([np.zeros((height, 1), np.uint8), cells]).tobytes()  # 0: no filter
    content = chunk(b"IHDR", header) + chunk(b"PLTE", palette.tobytes())
    content += chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def widget(shown: Matrices):
    """The same in JupyterLab: a slider of ipywidgets over the SVG of one frame."""
    import ipywidgets

    slider, moves = player.widgets(shown.rounds)
    view = ipywidgets.HTML()

    def draw(change=None) -> None:
        frame, words = shown.frames[slider.value], shown.words(slider.value)
        panels = "".join(
            _panel(shown, panel, pixels(matrix, shown.limits), words)
            for panel, matrix in enumerate(frame)
        )
        view.value = (
            f"<strong>{html.escape(shown.title)}</strong>"
            f'<div style="display:flex;flex-wrap:wrap;gap:1rem">{panels}</div>'
            f"{_scale(shown)}<p>{html.escape(words)}</p>"
        )

    slider.observe(draw, "value")
    draw()
    return player.column([moves], view)
