"""What a method's log may hold: weights, matrices, numbers, and the bytes that were sent."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfl_lib.rows import weights_of_all

MOST_ROUNDS = 50
MOST_NUMBERS = 500_000  # of a run's matrices: 2 MB as float32, where they cannot be compressed
BYTES = 4  # of a number that is sent: single precision, whatever the run computes with


class BadLog(ValueError):
    """A log that does not fit: what the round gives, and what it should give."""


def kept_rounds(rounds: int, numbers: int) -> list[int]:
    """The rounds whose matrices of so many numbers are kept: evenly spaced, at most 50 that hold at
    most half a million numbers together; the first and the last in any case.
    """
    most = min(rounds, MOST_ROUNDS, max(2, MOST_NUMBERS // max(1, numbers)))
    return np.unique(np.linspace(1, rounds, most).round().astype(int)).tolist()


def weights_in(log: Mapping[str, Any], participants: list[int], n: int) -> Tensor | None:
    """The log's weights: [N] in float64, [N, N] (row i: client i's model) or [L, N, N] by layer,
    both in float32; None where it has none.

    Weights [n] of the participants alone are put in their places; of theirs [n, n] too, and who was
    away keeps its own model.  Raises BadLog for other shapes.
    """
    if log.get("weights") is None:
        return None
    weights = _copied("weights", log["weights"])
    shape = list(weights.shape)
    if shape == [n]:
        return weights
    if shape == [len(participants)]:
        return weights_of_all(weights, participants, n)
    if shape == [len(participants)] * 2 != [n, n]:
        everybody = torch.eye(n, dtype=torch.float64)
        everybody[np.ix_(participants, participants)] = weights
        return everybody.float()
    if shape[-2:] == [n, n] and len(shape) in (2, 3) and len(weights):
        return weights.float()
    raise BadLog(
        f"weights {shape} in its log",
        f"[{n}], one for each client, or [{len(participants)}], one for each that took part, or"
        f" [{n}, {n}], a row for each client's model, or [layers, {n}, {n}]",
    )


def matrices_in(log: Mapping[str, Any]) -> dict[str, Tensor]:
    """The log's matrices by name, in float32: {"affinity": [N, N]}; BadLog for anything else."""
    given = log.get("matrices", {})
    is_dict = isinstance(given, Mapping)
    if not is_dict or not all(isinstance(name, str) and name.isidentifier() for name in given):
        what = list(given) if is_dict else given
        wanted = 'a dict of tensors by name, such as {"affinity": [N, N]}'
        raise BadLog(f"matrices {what} in its log", wanted)
    matrices = {name: _copied(name, value).float() for name, value in given.items()}
    for name, matrix in matrices.items():
        if not matrix.dim():
            raise BadLog(f"the number {name} among the matrices of its log", "a matrix")
    return matrices


def numbers_in(log: Mapping[str, Any], n: int) -> dict[str, Tensor]:
    """All else by name, a number for all or one for each client [N], in float64; else BadLog."""
    numbers, wanted = {}, f"a number, or [{n}], one for each client"
    for name in (n for n in log if n not in ("weights", "matrices")):
        if not (isinstance(name, str) and name.isprintable()):
            raise BadLog(f"the name {name!r} in its log", "a text of one line")
        numbers[name] = _copied(name, log[name], wanted)
        if (shape := list(numbers[name].shape)) not in ([], [n]):
            raise BadLog(f"{name} {shape} in its log", wanted)
    return numbers


def _copied(name: str, value: Any, wanted: str = "a tensor of real numbers") -> Tensor:
    """What a name holds as float64 on the CPU, copied: a method may change it.  Else BadLog."""
    try:
        exact = torch.float64 if isinstance(value, float | list | tuple) else None
        given = torch.as_tensor(value, dtype=exact).detach()
    except (TypeError, ValueError, RuntimeError):
        raise BadLog(f"{name} {type(value).__name__} in its log", wanted) from None
    if given.is_complex():
        raise BadLog(f"complex {name} in its log", wanted)
    return given.to("cpu", torch.float64, copy=True)


def bytes_in(numbers: Mapping[str, Tensor], parameters: int) -> tuple[float, float]:
    """Bytes that all clients sent and received in a round, nan where the log does not tell.

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
