"""Who listens to whom, by round: the heat maps of `display.matrices` with a slider."""

from collections.abc import Sequence

from pfl_lib.display import matrices
from pfl_lib.errors import BadInput, choose
from pfl_lib.explore.explorer import Explorer
from pfl_lib.results.result import Result


def matrix(
    result: Result, what: str = "weights", layers: Sequence[str] = (), title: str = ""
) -> Explorer:
    """A result's weights [rounds, N, N] or [rounds, L, N, N], or another matrix that its method
    logs, such as FedFomo's "affinity", as heat maps by round.

    `layers` names the L layers (default: "layer 1", "layer 2", ...).  Raises BadInput where the
    result has no such matrix.
    """
    several = result.weights is not None and result.weights.ndim > 2
    known = {**({"weights": result.weights} if several else {}), **result.matrices}
    if not known:
        cure = "" if result.weights is None else "; weights() shows its weights by round"
        raise BadInput(f"{result.config['method']['name']} has no matrix of clients{cure}")
    frames = known[choose("matrix", what, known)]
    rounds = result.weights_rounds if what == "weights" else result.matrices_rounds
    names = layers
    if frames.ndim == 4 and not names:
        names = [f"layer {place}" for place in range(1, frames.shape[1] + 1)]
    quantity = "weight" if what == "weights" else what
    shown = matrices.matrices(frames, rounds, names, quantity, title)
    return Explorer(
        shown.words(len(shown.rounds) - 1),
        lambda: matrices.to_html(shown),
        lambda: matrices.widget(shown),
    )
