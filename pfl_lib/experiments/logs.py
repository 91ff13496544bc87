"""Weights and matrices in a method's log: which shapes they have, and in which rounds they are
kept.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfl_lib.rows import weights_of_all

MOST_ROUNDS = 50
MOST_NUMBERS = 500_000
"""Of a run's matrices: 2 MB as float32, where they cannot be compressed."""


class BadLog(ValueError):
    """A log that does not fit; the message says what the round gives and what it should give."""


def kept_rounds(rounds: int, numbers: int) -> list[int]:
    """The rounds whose matrices of so many numbers are kept: evenly spaced, the first and the last
    among them.

    All of them, where they are at most 50 and hold at most half a million numbers together; always
    two at least.
    """
    most = min(rounds, MOST_ROUNDS, max(2, MOST_NUMBERS // max(1, numbers)))
    return np.unique(np.linspace(1, rounds, most).round().astype(int)).tolist()


def weights_in(log: Mapping[str, Any], participants: list[int], n: int) -> Tensor | None:
    """The log's weights: [N] in float64, [N, N] (row i: client i's model) or [L, N, N] (by layer)
    in float32; None where it has none.

    Weights [n] of the participants alone are put in their places.  Raises BadLog for other shapes.
    """
    if log.get("weights") is None:
        return None
    weights = torch.as_tensor(log["weights"]).detach().cpu()
    shape = list(weights.shape)
    if shape == [n]:
        return weights.double()
    if shape == [len(participants)]:
        return weights_of_all(weights, participants, n)
    if shape[-2:] == [n, n] and len(shape) in (2, 3) and len(weights):
        return weights.float()
    raise BadLog(
        f"weights {shape} in its log; it should give [{n}], one for each client, or"
        f" [{len(participants)}], one for each that took part, or [{n}, {n}], a row for each"
        f" client's model, or [layers, {n}, {n}]"
    )


def matrices_in(log: Mapping[str, Any]) -> dict[str, Tensor]:
    """The log's further matrices by name, in float32: {"affinity": [N, N]}.  Raises BadLog for
    anything else.
    """
    given = log.get("matrices", {})
    named = isinstance(given, Mapping) and all(
        isinstance(name, str) and name.isidentifier() for name in given
    )
    if not named:
        raise BadLog(
            f"matrices {given if not isinstance(given, Mapping) else list(given)} in its log; it"
            ' should give a dict of tensors by name, such as {"affinity": [N, N]}'
        )
    matrices = {
        name: torch.as_tensor(value).detach().cpu().float() for name, value in given.items()
    }
    for name, matrix in matrices.items():
        if not matrix.dim():
            raise BadLog(
                f"the number {name} among the matrices of its log; it should give a matrix"
            )
    return matrices


def check_same_shapes(before: dict[str, Tensor], now: dict[str, Tensor]) -> None:
    """Raise BadLog unless matrices and weights have the names and shapes of the round before."""
    shapes = [
        {name: list(matrix.shape) for name, matrix in matrices.items()}
        for matrices in (before, now)
    ]
    for name in {**before, **now}:
        earlier, given = (shape.get(name, "none") for shape in shapes)
        if earlier != given:
            raise BadLog(
                f"{name} {given} in its log; it should give {earlier}, as in the rounds before"
            )
