"""Who listens to whom, by round, as heat maps."""

from collections.abc import Sequence

import numpy as np

from pfl_lib.display import heat_maps, play
from pfl_lib.errors import BadInput, choose
from pfl_lib.results.result import Result


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

    `layers` names the L layers (default: "layer 1", "layer 2", ...); `groups`: each client's;
    `pictures`: how many rounds at most stand on a page that is kept (in JupyterLab all).  Raises
    BadInput where the result has no such matrix.
    """
    several = result.weights is not None and result.weights.ndim > 2
    known = {**({"weights": result.weights} if several else {}), **result.matrices}
    if not known:
        cure = "" if result.weights is None else "; weights() shows its weights by round"
        raise BadInput(f"{result.config['method']['name']} has no matrix of clients{cure}")
    frames = np.asarray(known[choose("matrix", what, known)], float)
    rounds = result.weights_rounds if what == "weights" else result.matrices_rounds
    frames = frames[:, None] if frames.ndim == 3 else frames
    count, limits = frames.shape[1], heat_maps.limits_of(frames)
    names = list(layers) or ([""] if count == 1 else [f"layer {k + 1}" for k in range(count)])
    if len(names) != count:
        raise BadInput(f"{len(names)} names for {count} layers: give one for each")
    quantity = "weight" if what == "weights" else what

    def draw(figure, place: int) -> None:
        across = min(3, count)
        down = -(-count // across)
        figure.set_size_inches(1.2 + 3.4 * across, 3.2 * down)
        panels = figure.subplots(down, across, squeeze=False).flat
        for axes, name, values in zip(panels, names, frames[place], strict=False):
            heat_maps.matrix(axes, values, groups, limits, quantity)
            axes.set_title(name)
        for axes in list(panels)[count:]:
            axes.set_axis_off()

    def says(place: int) -> str:
        told = []
        for name, values in zip(names, frames[place], strict=True):
            own, others = np.diag(values), values[~np.eye(len(values), dtype=bool)]
            told.append(
                f"{name + ': ' if name else ''}own {quantity} {np.nanmean(own):.2f} on average,"
                f" others' {np.nanmean(others):.2f}, largest {np.nanmax(others):.2f}"
            )
        return f"Round {rounds[place]}: {'; '.join(told)}."

    places = {str(number): place for place, number in enumerate(rounds)}
    return play.explorer(play.Pictures(draw, says, title), {play.ROUND: places}, most=pictures)
