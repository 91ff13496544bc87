"""Whose models a client's model is made of, by round: the client in the centre, the others around.

The area of a disc is the client's share of the average; a line to the centre is as thick as that.
"""

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfl_lib.display import player
from pfl_lib.errors import BadInput
from pfl_lib.explore.explorer import Explorer, figure
from pfl_lib.results.result import Result

SIZE, RING = 420, 150  # of the picture and its ring, in the units of its SVG
LARGEST = 84  # radius of a disc that is the whole average
NUMBERS = 60_000  # on a page at most; of more only some rounds are shown


@dataclass(frozen=True)
class Shares:
    """Shares [rounds, layers, rows, N] of the average in thousandths: row k is the model of client
    `rows[k]`, or one that all share (-1).  `rounds` has the number of each, `layers` their names
    ("" for one).
    """

    values: np.ndarray
    rounds: tuple[int, ...]
    layers: tuple[str, ...]
    rows: tuple[int, ...]
    alice: int | None

    def words(self, place: int, layer: int, row: int) -> str:
        """One sentence for a picture, from its numbers."""
        shares, own = self.values[place, layer, row], self.rows[row]
        others = np.where(np.arange(len(shares)) == own, -1, shares)
        first = int(others.argmax())
        name = f"{self.layers[layer]}: " if self.layers[layer] else ""
        said = [] if own < 0 else [f"{shares[own] / 10:.1f} % its own"]
        whose = "" if own < 0 else "'s model"
        if others[first] > 0 or own < 0:
            share = "share" if own < 0 else "other share"
            said.append(f"{others[first] / 10:.1f} % client {first}'s, the largest {share}")
        return (
            f"Round {self.rounds[place]}, {name}{self.called(own)}{whose} is"
            f" {', '.join(said)}; {int((shares > 0).sum())} of {len(shares)} clients count."
        )

    def called(self, client: int) -> str:
        """ "Alice", "client 3" or "the shared model"."""
        if client < 0:
            return "the shared model"
        return "Alice" if client == self.alice else f"client {client}"


def weights(result: Result, layers: Sequence[str] = (), title: str = "") -> Explorer:
    """The weights of a result by round, with the client they are for in the centre: Alice's, or any
    client's where each has its own, for each layer where layers have theirs.

    `layers` names the layers (default: "layer 1", "layer 2", ...).  Weights are shown as shares of
    their sum; of more than 60,000 numbers only evenly spaced rounds.  Raises BadInput for a result
    without weights, with a negative one, or with another number of names.
    """
    shown = shares_of(result, layers)
    last = len(shown.rounds) - 1
    return Explorer(
        shown.words(last, 0, 0), lambda: to_html(shown, title), lambda: widget(shown, title)
    )


def shares_of(result: Result, layers: Sequence[str] = ()) -> Shares:
    """A result's weights as `weights` shows them."""
    values, alice = result.weights, result.config.get("alice")
    if values is None:
        raise BadInput(f"{result.config['method']['name']} has no weights: nothing to show")
    alone = values.ndim == 2
    if alone:
        values = values[:, None]  # one row: the model that is read
    values = values[:, None] if values.ndim == 3 else values
    names = tuple(map(str, layers))
    if not names:
        count = values.shape[1]
        names = ("",) if count == 1 else tuple(f"layer {k}" for k in range(1, count + 1))
    if len(names) != values.shape[1]:
        raise BadInput(f"{len(names)} names for {values.shape[1]} layers: give one for each")
    values = np.nan_to_num(values.astype(float))
    if (values < 0).any():
        raise BadInput("a negative weight is no share of an average: see matrix()")
    frames = max(2, NUMBERS // values[0].size)
    kept = np.unique(np.linspace(0, len(values) - 1, min(frames, len(values))).round().astype(int))
    sums = values.sum(-1, keepdims=True)
    shares = np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
    rounds = tuple(int(r) for r in np.asarray(result.weights_rounds)[kept])
    one = -1 if alice is None else int(alice)
    rows = (one,) if alone else tuple(range(values.shape[2]))
    return Shares(np.round(1000 * shares[kept]).astype(int), rounds, names, rows, alice)


def radius(share: float) -> float:
    """Of a disc, for a share in thousandths: areas are as shares are."""
    return LARGEST * math.sqrt(share / 1000)


def svg(shown: Shares, place: int, layer: int, row: int) -> str:
    """One round, layer and client as SVG."""
    shares, own = shown.values[place, layer, row], shown.rows[row]
    middle, n, parts = SIZE / 2, len(shares), []
    for client in range(n):
        angle = 2 * math.pi * client / n - math.pi / 2
        x, y = middle + RING * math.cos(angle), middle + RING * math.sin(angle)
        share = 0 if client == own else int(shares[client])
        parts.append(
            f'<line x1="{middle}" y1="{middle}" x2="{x:.1f}" y2="{y:.1f}"'
            f' stroke="currentColor" stroke-opacity=".45" stroke-width="{share / 40:.2f}"/>'
            f'<circle class="other" cx="{x:.1f}" cy="{y:.1f}" r="{radius(share):.2f}"'
            ' fill="#0173b2" stroke="currentColor" stroke-width=".5"/>'
            f'<text x="{middle + (RING + 46) * math.cos(angle):.1f}"'
            f' y="{middle + (RING + 46) * math.sin(angle) + 4:.1f}" text-anchor="middle"'
            f' fill="currentColor" font-size="13">{client if client != own else "·"}</text>'
        )
    mine = 0 if own < 0 else int(shares[own])
    parts.append(
        f'<circle class="own" cx="{middle}" cy="{middle}" r="{radius(mine):.2f}"'
        ' fill="#de8f05" stroke="currentColor" stroke-width=".5"/>'
        f'<text class="name" x="{middle}" y="{middle + 5}" text-anchor="middle"'
        # Read on the disc and on a ground of any colour.
        ' fill="#000" stroke="#fff" stroke-width="3" paint-order="stroke"'
        f' font-size="15" font-weight="bold">{shown.called(own)}</text>'
    )
    words = html.escape(shown.words(place, layer, row))
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {SIZE} {SIZE}"'
        f' style="width:min(100%,{SIZE}px);height:auto">{"".join(parts)}</svg>'
    )


def to_html(shown: Shares, title: str = "") -> str:
    """The last round as SVG, a slider with a play button, a list of clients and of layers where
    there are several, and the script that moves between them.
    """
    last = len(shown.rounds) - 1
    data = {
        "values": shown.values.tolist(),
        "rounds": shown.rounds,
        "layers": shown.layers,
        "rows": shown.rows,
        "alice": shown.alice,
    }
    lists = ""
    for name, label, options in (
        ("row", "client", [shown.called(client) for client in shown.rows]),
        ("layer", "layer", shown.layers),
    ):
        made = "".join(f"<option>{html.escape(option)}</option>" for option in options)
        lists += (
            f'<label{" hidden" if len(options) == 1 else ""} style="margin-right:1rem">{label}'
            f' <select class="{name}" autocomplete="off">{made}</select></label>'
        )
    script = (
        f"const d={json.dumps(data, separators=(',', ':'))};"
        "const range=root.querySelector('input'),row=root.querySelector('.row'),"
        "layer=root.querySelector('.layer'),say=root.querySelector('.words'),"
        "picture=root.querySelector('svg');"
        "const others=[...root.querySelectorAll('.other')];"
        "const lines=[...root.querySelectorAll('line')],"
        "texts=[...root.querySelectorAll('svg text:not(.name)')];"
        "const called=i=>i<0?'the shared model':i===d.alice?'Alice':'client '+i;"
        f"const radius=s=>({LARGEST}*Math.sqrt(s/1000)).toFixed(2);"
        "function draw(){const k=Number(range.value),l=layer.selectedIndex,"
        "own=d.rows[row.selectedIndex],w=d.values[k][l][row.selectedIndex];let first=-1,count=0;"
        "w.forEach((s,i)=>{const there=i===own?0:s;others[i].setAttribute('r',radius(there));"
        "lines[i].setAttribute('stroke-width',(there/40).toFixed(2));"
        "texts[i].textContent=i===own?'·':i;"
        "if(s>0)count+=1;if(i!==own&&(first<0||s>w[first]))first=i;});"
        "root.querySelector('.own').setAttribute('r',radius(own<0?0:w[own]));"
        "root.querySelector('.name').textContent=called(own);"
        "const name=d.layers[l]?d.layers[l]+': ':'';"
        "const said=own<0?[]:[(w[own]/10).toFixed(1)+' % its own'];"
        "if(own<0||w[first]>0)said.push((w[first]/10).toFixed(1)+' % client '+first"
        "+\"'s, the largest \"+(own<0?'':'other ')+'share');"
        "say.textContent='Round '+d.rounds[k]+', '+name+called(own)+(own<0?' is ':\"'s model is \")"
        "+said.join(', ')+'; '+count+' of '+w.length+' clients count.';"
        "picture.setAttribute('aria-label',say.textContent);"
        "root.querySelector('output').textContent=d.rounds[k];"
        "range.setAttribute('aria-valuetext','round '+d.rounds[k]);}"
        "[range,row,layer].forEach(one=>one.addEventListener('input',draw));"
        f"{player.SCRIPT}draw();"
    )
    inside = (
        f"<p>{lists}</p>{svg(shown, last, 0, 0)}"
        f'<p><label>round <output>{shown.rounds[last]}</output> <input type="range" min="0"'
        f' max="{last}" value="{last}" step="1" autocomplete="off"'
        f' aria-valuetext="round {shown.rounds[last]}" style="width:min(22rem,60%)"></label>'
        f" {player.BUTTON}</p>"
        f'<p class="words" aria-live="polite">{html.escape(shown.words(last, 0, 0))}</p>'
    )
    return figure("weights", inside, script, title)


def widget(shown: Shares, title: str = ""):
    """The same in JupyterLab."""
    import ipywidgets

    slider, moves = player.widgets(shown.rounds)
    row = ipywidgets.Dropdown(
        options=[(shown.called(client), k) for k, client in enumerate(shown.rows)],
        description="client",
    )
    layer = ipywidgets.Dropdown(
        options=[(name or "all", k) for k, name in enumerate(shown.layers)], description="layer"
    )
    view = ipywidgets.HTML()

    def draw(change=None) -> None:
        at = (slider.value, layer.value, row.value)
        words = html.escape(shown.words(*at))
        heading = f"<div><strong>{html.escape(title)}</strong></div>" if title else ""
        view.value = f"{heading}{svg(shown, *at)}<p>{words}</p>"

    for control in (slider, row, layer):
        control.observe(draw, "value")
    draw()
    lists = [one for one in (row, layer) if len(one.options) > 1]
    return player.column([*lists, moves], view)
