"""Whose models a client's model is made of, by round: the others around the client."""

from collections.abc import Sequence

import numpy as np

from pfl_lib.display import play
from pfl_lib.errors import BadInput
from pfl_lib.results.result import Result

LARGEST = 11_000  # points^2: the disc of the whole average
OWN, OTHERS = "#de8f05", "#0173b2"


def weights(result: Result, layers: Sequence[str] = (), title: str = "") -> play.Explorer:
    """The weights of a result by round, with the client they are for in the centre: Alice's, or any
    client's where each has its own, for each layer where layers have theirs.

    `layers` names the layers (default: "layer 1", "layer 2", ...).  Weights are shown as shares of
    their sum: the area of a disc is a share.  Raises BadInput for a result without weights, with a
    negative one, or with another number of names.
    """
    shares, alice = shares_of(result), result.config.get("alice")
    count, own = shares.shape[1], result.weights.ndim > 2
    names = list(map(str, layers)) or [f"layer {k + 1}" for k in range(count)]
    if len(names) != count:
        raise BadInput(f"{len(names)} names for {count} layers: give one for each")
    rounds = {str(number): place for place, number in enumerate(result.weights_rounds)}
    rows = range(shares.shape[2]) if own else [-1 if alice is None else int(alice)]

    def called(client: int) -> str:
        words = "the shared model" if client < 0 else f"client {client}"
        return "Alice" if client == alice else words

    def share(client: int, layer: int, place: int) -> np.ndarray:
        return shares[place, layer, client if own else 0]

    def says(client: int, layer: int, place: int) -> str:
        of = share(client, layer, place)
        others = np.where(np.arange(len(of)) == client, -1, of)
        first = int(others.argmax())
        parts = [] if client < 0 else [f"{100 * of[client]:.1f} % its own"]
        if others[first] > 0:
            other = "" if client < 0 else "other "
            parts.append(f"{100 * of[first]:.1f} % client {first}'s, the largest {other}share")
        where = f"Round {list(rounds)[place]}, " + f"{names[layer]}: " * (count > 1)
        whose = called(client) + "'s model" * (client >= 0)
        return (
            f"{where}{whose} is {', '.join(parts)}; {int((of > 0).sum())} of {len(of)} clients"
            " count."
        )

    def draw(figure, client: int, layer: int, place: int) -> None:
        discs(figure, share(client, layer, place), client, called(client))

    controls = {
        "client": {called(client): client for client in rows},
        "layer": dict(zip(names, range(count), strict=True)),
        play.ROUND: rounds,
    }
    away = abs(shares.max(-1).mean((1, 2)).round(6) - 0.5)[::-1]
    start = len(away) - 1 - int(away.argmin())  # neither all alike nor one alone; the last such
    return play.explorer(play.Pictures(draw, says, title, start=start), controls)


def shares_of(result: Result) -> np.ndarray:
    """Shares of the average [rounds, layers, models, N]: one model where all or Alice have it."""
    if result.weights is None:
        raise BadInput(f"{result.config['method']['name']} has no weights: nothing to show")
    values = np.nan_to_num(np.asarray(result.weights, float))
    if (values < 0).any():
        raise BadInput("a negative weight is no share of an average: see matrix()")
    values = values.reshape(len(values), *[1] * (4 - values.ndim), *values.shape[1:])
    sums = values.sum(-1, keepdims=True)
    return np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)


def discs(figure, share: np.ndarray, client: int, name: str) -> None:
    """Draw shares [N] as discs, `client` (-1: none) in the centre, a line to each of the others."""
    figure.set_size_inches(4.2, 4.2)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-1.4, 1.4), ylim=(-1.4, 1.4))
    axes.set_axis_off()
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(share)) / len(share)
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    others = np.arange(len(share)) != client
    for place, part in zip(around[others], share[others], strict=True):
        axes.plot([0, place[0]], [0, place[1]], color="#888888", linewidth=25 * part, zorder=1)
    axes.scatter(*around[others].T, LARGEST * share[others], color=OTHERS, zorder=2)
    words = {"ha": "center", "va": "center", "zorder": 4}
    words |= {"bbox": {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1}}
    for other in np.flatnonzero(others):
        axes.text(*(1.27 * around[other]), str(other), **words)
    axes.scatter([0], [0], LARGEST * share[client] if client >= 0 else 0, color=OWN, zorder=3)
    axes.text(0, 0, name, weight="bold", **words)
