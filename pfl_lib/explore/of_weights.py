"""Whose models a client's model is made of, by round."""

from collections.abc import Mapping, Sequence

import numpy as np

from pfl_lib.display import heat_maps, play, theme
from pfl_lib.errors import BadInput, choose, whole
from pfl_lib.results.result import Result
from pfl_lib.results.weights import shares as shares_of_average

LARGEST = 11_000  # points^2: the disc of the whole average
LETTER = 0.06  # the most that a letter of a name is wide, where the picture is 2.8
OWN, OTHERS = "#de8f05", "#0173b2"


def weights(result: Result, layers: Sequence[str] = (), title: str = "") -> play.Explorer:
    """The weights of a result by round, with the client they are for in the centre: Alice's, or any
    client's where each has its own, for each layer where layers have theirs.

    `layers` names the layers (default: "layer 1", "layer 2", ...).  The area of a disc is a share
    of all weights.  Raises BadInput for a result without weights, with a negative one, or with
    another number of names.
    """
    shares, alice = shares_of(result), result.config.get("alice")
    count, own = shares.shape[1], result.weights.ndim > 2
    names, called_by = _named(layers, count), result.client_names
    rounds = {str(number): place for place, number in enumerate(result.weights_rounds)}
    rows = range(shares.shape[2]) if own else [-1 if alice is None else int(alice)]

    def called(client: int) -> str:
        words = "the shared model" if client < 0 else called_by.get(client, f"client {client}")
        return "Alice" if client == alice else words

    def says(client: int, layer: int, place: int) -> str:
        of = shares[place, layer, client if own else 0]
        largest = [int(k) for k in np.argsort(-of, kind="stable")[:3] if of[k] > 0]
        parts = ", ".join(f"{100 * of[k]:.1f} % {called(k)}'s" for k in largest) or "nobody's"
        where = f"Round {list(rounds)[place]}, " + f"{names[layer]}: " * (count > 1)
        whose = called(client) + "'s model" * (client >= 0)
        return f"{where}{whose} is {parts}; {int((of > 0).sum())} of {len(of)} clients count."

    def draw(figure, client: int, layer: int, place: int) -> None:
        share = shares[place, layer, client if own else 0]
        discs(figure, share, client, theme.plain(called(client)), called_by)

    controls = {
        "client": {called(client): client for client in rows},
        "layer": {name: place for place, name in enumerate(names)},
        play.ROUND: rounds,
    }
    return play.explorer(play.Pictures(draw, says, title), controls)


def matrix(
    result: Result,
    what: str = "weights",
    layers: Sequence[str] = (),
    title: str = "",
    groups: Sequence[object] | None = None,
    pictures: int = play.PICTURES,
) -> play.Explorer:
    """A result's weights [rounds, N, N] or [rounds, L, N, N], or another matrix that its method
    logs, such as FedFomo's "affinity", as heat maps by round.

    `layers`: as for `weights`; `groups`: each client's, which sort them; `pictures`: how many
    rounds a page has at most.  Raises BadInput where the result has no such matrix.
    """
    _check(result)
    whole("pictures", pictures, 1)
    several = result.weights is not None and result.weights.ndim > 2
    known = {**({"weights": result.weights} if several else {}), **result.matrices}
    if not known:
        cure = "" if result.weights is None else "; weights() shows its weights by round"
        raise BadInput(f"{result.config['method']['name']} has no matrix of clients{cure}")
    frames = np.asarray(known[choose("matrix", what, known)], float)
    frames = frames[:, None] if frames.ndim == 3 else frames
    if frames.ndim != 4 or frames.shape[2] != frames.shape[3]:
        raise BadInput(f"matrix {what!r} is {list(frames.shape[1:])} a round: give one of [N, N]")
    of_weights = what == "weights"
    rounds = result.weights_rounds if of_weights else result.matrices_rounds
    quantity = "weight" if of_weights else what
    count, limits = frames.shape[1], heat_maps.limits_of(frames)
    names = _named(layers, count) if layers or count > 1 else [""]

    def draw(figure, place: int) -> None:
        across, down = min(3, count), -(-count // 3)
        figure.set_size_inches(1.2 + 3.4 * across, 3.2 * down)
        panels = list(figure.subplots(down, across, squeeze=False).flat)
        for axes, name, values in zip(panels, names, frames[place], strict=False):
            heat_maps.matrix(axes, values, groups, limits, quantity, result.client_names)
            axes.set_title(name)
        for axes in panels[count:]:
            axes.set_axis_off()

    def turn(figure, place: int) -> None:
        for axes, values in zip(figure.axes, frames[place], strict=False):  # colour bars follow
            heat_maps.turn(axes, values, groups)

    def says(place: int) -> str:
        told = []
        for name, values in zip(names, frames[place], strict=True):
            others = np.nanmean(values[~np.eye(len(values), dtype=bool)])
            own = f"own {quantity} {np.nanmean(np.diag(values)):.2f} on average"
            told.append(f"{name}: " * bool(name) + f"{own}, others' {others:.2f}")
        return f"Round {rounds[place]}: {'; '.join(told)}."

    places = {str(number): place for place, number in enumerate(rounds)}
    drawn = play.Pictures(draw, says, title, turn=turn)
    return play.explorer(drawn, {play.ROUND: places}, most=pictures)


def _named(layers: Sequence[str], count: int) -> list[str]:
    names = list(map(str, layers)) or [f"layer {k + 1}" for k in range(count)]
    if len(names) != count:
        raise BadInput(f"{len(names)} names for {count} layers: give one for each")
    return names


def _check(result: object) -> None:
    if not isinstance(result, Result):
        raise BadInput(f"result {result!r}: give a Result, as pfl_lib.run returns it")


def shares_of(result: Result) -> np.ndarray:
    """Shares of the average [rounds, layers, models, N]: one model where all or Alice have it."""
    _check(result)
    if result.weights is None:
        raise BadInput(f"{result.config['method']['name']} has no weights: nothing to show")
    values = np.nan_to_num(np.asarray(result.weights, float))
    if (values < 0).any():
        raise BadInput("a negative weight is no share of an average: see matrix()")
    shape = (len(values), *[1] * (4 - values.ndim), *values.shape[1:])
    return shares_of_average(values.reshape(shape))


def discs(figure, share: np.ndarray, client: int, name: str, names: Mapping[int, str]) -> None:
    """Draw shares [N] as discs, `client` (-1: none) in the centre, a line to each of the others,
    which have their names where these have room, else their numbers.
    """
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
    names = names if len(share) <= heat_maps.EACH else heat_maps.NUMBERS
    for other in np.flatnonzero(others).tolist():
        name_of = heat_maps.short(names, other)
        inside = 1.36 - LETTER * len(name_of) / 2
        x, y = 1.27 * around[other]
        axes.text(np.clip(x, -inside, inside), y, name_of, **words)
    axes.scatter([0], [0], LARGEST * share[client] if client >= 0 else 0, color=OWN, zorder=3)
    axes.text(0, 0, name, weight="bold", **words)
