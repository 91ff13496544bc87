"""The matrix algebra that all methods share: copies of a model, weighted averages, one SGD step.

A model is a mapping of named rows, {"theta": [P], "statistics": [S]}; n clients' models are the
same names over [n, P] and [n, S].  Methods add rows of their own, such as a control variate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import BadInput

Rows = dict[str, Tensor]
"""Rows by name: a model, many models, or what a method keeps from round to round, its state."""
Gradient = Callable[..., Tensor]
"""`gradient(theta, batch, statistics=None)`: the mean loss's gradient at `theta`, in its shape, [P]
or [n, P].  BatchNorm's running statistics in `statistics` are updated in place."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A mini-batch of one client (x [b, ...], y [b]) or of n clients (x [n, b, ...], y [n, b]).

    `index` counts the local steps of this round from 0; `lr`, `momentum` and `weight_decay` are the
    schedule's for this round.
    """

    x: Tensor
    y: Tensor
    index: int
    lr: float
    momentum: float
    weight_decay: float


Step = Callable[[Rows, Gradient, Batch], None]
"""A local step changes the rows it is given in place: one client's ([P]) or many clients' ([n, P]).
It keeps nothing elsewhere: clients may be trained in several threads."""
IN_PLACE = 'rows["theta"].sub_(batch.lr * gradient(rows["theta"], batch, rows["statistics"]))'
"""A local step of plain SGD, in place."""


def take(step: Step, rows: Rows, gradient: Gradient, batch: Batch) -> None:
    """Take a local step; BadInput for one that returns what it should have written."""
    given = step(rows, gradient, batch)
    if given is not None and all(given is not own for own in (rows, *rows.values())):
        told = f"the local step returns {type(given).__name__}: it should change its rows in place"
        raise BadInput(f"{told}, as in {IN_PLACE}")


def model(rows: Rows) -> Rows:
    """The two rows that make a model, out of a state or a matrix that holds more."""
    return {"theta": rows["theta"], "statistics": rows["statistics"]}


def as_kept(method: object, fed: object, state: Rows) -> Rows:
    """`served` of a method whose state is what it serves: one model, or one for each client."""
    return model(state)


def copies(rows: Rows, n: int) -> Rows:
    """n copies of a model, [P] to [n, P]; a view, since training never writes into its input."""
    return {name: row.expand(n, -1) for name, row in model(rows).items()}


def select_rows(matrix: Tensor, clients: Sequence[int]) -> Tensor:
    """The rows of `clients` out of [N, ...]; for all clients in order the matrix, not a copy."""
    return matrix if _all_in_order(matrix, clients) else matrix[clients]


def with_rows(matrix: Tensor, clients: Sequence[int], rows: Tensor) -> Tensor:
    """The matrix [N, ...] with other rows for `clients`; for all in order the rows, not a copy."""
    if _all_in_order(matrix, clients):
        return rows
    matrix = matrix.clone(memory_format=torch.contiguous_format)
    matrix[clients] = rows
    return matrix


def _all_in_order(matrix: Tensor, clients: Sequence[int]) -> bool:
    return list(clients) == list(range(len(matrix)))


def average(weights: Tensor, rows: Rows) -> Rows:
    """The weighted sum of n models: `weights` [n] gives one model, `weights` [m, n] gives m.

    A model whose weight is 0 does not count, even where it holds NaN or infinity.
    """
    return {name: weighted_sum(weights, matrix) for name, matrix in model(rows).items()}


def weighted_sum(weights: Tensor, matrix: Tensor) -> Tensor:
    """`weights` [n] or [m, n] times a matrix [n, P]: [P] or [m, P]; see `average` for weight 0."""
    weights = torch.as_tensor(weights).to(matrix)
    if weights.shape[-1:] != matrix.shape[:1]:
        raise BadInput(f"weights {[*weights.shape]} of {len(matrix)} models: give each model one")
    out = weights @ matrix
    if finite_rows(out if out.dim() == 2 else out[None]).all():
        return out
    # 0 x NaN is NaN: once more without those rows, for the sums in which they have no weight.
    finite = finite_rows(matrix)
    without = weights @ matrix.where(finite[:, None], 0)
    counts = (weights[..., ~finite] != 0).any(-1, keepdim=True)
    return torch.where(counts, out, without)


def finite_rows(matrix: Tensor) -> Tensor:
    """Which rows of a matrix [n, P] hold neither NaN nor infinity, [n]; without a copy of it."""
    if not matrix.shape[1]:
        return torch.ones(len(matrix), dtype=torch.bool, device=matrix.device)
    return matrix.amax(1).isfinite() & matrix.amin(1).isfinite()


def distances(matrix: Tensor, row: Tensor) -> Tensor:
    """Euclidean distances [n], float64, of a matrix's rows [n, P] to one row [P]."""
    # Some rows at a time, so that no second matrix is made
    parts = matrix.split(max(1, 2**20 // max(1, matrix.shape[1])))
    return torch.cat([torch.linalg.vector_norm(part - row, dim=1) for part in parts]).double().cpu()


def descend(rows: Rows, name: str, gradient: Tensor, batch: Batch) -> None:
    """torch.optim.SGD's step on row `name`: v <- beta v + (g + wd theta); theta <- theta - lr v."""
    row = rows[name]
    if batch.weight_decay:
        gradient = gradient + batch.weight_decay * row
    if batch.momentum:
        gradient = rows[velocity(name)].mul_(batch.momentum).add_(gradient)
    row.sub_(gradient, alpha=batch.lr)


def velocity(name: str) -> str:
    """The row that holds the momentum of row `name` during local training."""
    return f"velocity of {name}"


def sgd(rows: Rows, gradient: Gradient, batch: Batch) -> None:
    """The plain local step: theta <- theta - lr * gradient(theta)."""
    descend(rows, "theta", gradient(rows["theta"], batch, rows["statistics"]), batch)


def penalised(pull: Callable[[Rows], Tensor]) -> Step:
    """A local step along the gradient of loss and penalty; `pull` gives the latter, [..., P]."""

    def step(rows: Rows, gradient: Gradient, batch: Batch) -> None:
        loss = gradient(rows["theta"], batch, rows["statistics"])
        descend(rows, "theta", loss + pull(rows), batch)

    step.__module__ = getattr(pull, "__module__", "")  # of a user's own the step is the user's
    return step


def uniform(n: int) -> Tensor:
    """Weights 1/n, [n] in float64."""
    return torch.full((n,), 1 / n, dtype=torch.float64)


def each_sends_a_model(weights: Tensor, clients: list[int], n: int, models: int = 1) -> dict:
    """The log of a round in which each participant receives and sends one model, or so many."""
    sent = models * len(clients)
    weights = weights_of_all(weights, clients, n)
    return {"weights": weights, "models_up": sent, "models_down": sent}


def models_of(state: Rows, clients: Sequence[int]) -> Rows:
    """The models of `clients`, [n, P] and [n, S], out of a state with all clients'."""
    return {name: select_rows(matrix, clients) for name, matrix in model(state).items()}


def with_models(state: Rows, clients: Sequence[int], own: Rows) -> Rows:
    """All clients' models out of a state, with `own` ones ([n, P] and [n, S]) for `clients`."""
    models = model(state).items()
    return {name: with_rows(matrix, clients, own[name]) for name, matrix in models}


def personal(models: Rows) -> Rows:
    """Models under the names that they have in a state with a shared model beside them."""
    return {"personal": models["theta"], "personal statistics": models["statistics"]}


def personal_models(state: Rows) -> Rows:
    """The way back from `personal`: {"theta", "statistics"}."""
    return {"theta": state["personal"], "statistics": state["personal statistics"]}


def weights_of_all(weights: Tensor, clients: list[int], n: int) -> Tensor:
    """Weights of the round's participants among all n clients, the others' 0: [n] in float64."""
    everybody = torch.zeros(n, dtype=torch.float64)
    everybody[clients] = weights.double()
    return everybody
