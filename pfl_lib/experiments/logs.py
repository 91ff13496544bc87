"""What a method's log may hold: weights and matrices, the rounds in which they are kept, numbers,
and the bytes that were sent.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfl_lib.rows import weights_of_all

MOST_ROUNDS = 50
MOST_NUMBERS = 500_000
"""Of a run's matrices: 2 MB as float32, where they cannot be compressed."""
BYTES = 4
"""Of a number that is sent: single precision, whatever the run computes with."""


class BadLog(ValueError):
    """A log that does not fit: what the round gives, and what it should give."""


def kept_rounds(rounds: int, numbers: int) -> list[int]:
    """The rounds whose matrices of so many numbers are kept: evenly spaced, at most 50 that hold at
    most half a million numbers together; the first and the last in any case.
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
        f"weights {shape} in its log",
        f"[{n}], one for each client, or [{len(participants)}], one for each that took part, or"
        f" [{n}, {n}], a row for each client's model, or [layers, {n}, {n}]",
    )


def matrices_in(log: Mapping[str, Any]) -> dict[str, Tensor]:
    """The log's further matrices by name, in float32: {"affinity": [N, N]}.  Raises BadLog for
    anything else.
    """
    given = log.get("matrices", {})
    is_named = isinstance(given, Mapping) and all(
        isinstance(name, str) and name.isidentifier() for name in given
    )
    if not is_named:
        what = list(given) if isinstance(given, Mapping) else given
        wanted = 'a dict of tensors by name, such as {"affinity": [N, N]}'
        raise BadLog(f"matrices {what} in its log", wanted)
    matrices = {n: torch.as_tensor(value).detach().cpu().float() for n, value in given.items()}
    for name, matrix in matrices.items():
        if not matrix.dim():
            raise BadLog(f"the number {name} among the matrices of its log", "a matrix")
    return matrices


def numbers_in(log: Mapping[str, Any], n: int) -> dict[str, Tensor]:
    """All else in the log by name, each one number for all or one for each client [N], in float64.

    Raises BadLog for anything else.
    """
    numbers = {}
    for name in (n for n in log if n not in ("weights", "matrices")):
        try:
            value = torch.as_tensor(log[name]).detach().cpu().double()
            what = list(value.shape)
        except (TypeError, ValueError, RuntimeError):
            what = type(log[name]).__name__
        if what not in ([], [n]):
            raise BadLog(f"{name} {what} in its log", f"a number, or [{n}], one for each client")
        numbers[name] = value
    return numbers


def bytes_in(numbers: Mapping[str, Tensor], parameters: int) -> tuple[float, float]:
    """Bytes that all clients together sent and received in a round, nan where the log does not
    tell.

    They are the log's "bytes_up" and "bytes_down" ([N] by client, or one number for all together),
    else 4 bytes for each number of "models_up" and "models_down" models of so many parameters.
    """

    def total(way: str) -> float:
        if f"bytes_{way}" in numbers:
            return float(numbers[f"bytes_{way}"].sum())
        models = numbers.get(f"models_{way}")
        return math.nan if models is None else BYTES * parameters * float(models.sum())

    return total("up"), total("down")


def check_same_shapes(before: dict[str, Tensor], now: dict[str, Tensor]) -> None:
    """Raise BadLog unless matrices and weights have the names and shapes of the round before."""
    for name in {**before, **now}:
        earlier, given = (list(of[name].shape) if name in of else "none" for of in (before, now))
        if earlier != given:
            raise BadLog(f"{name} {given} in its log", f"{earlier}, as in the rounds before")
