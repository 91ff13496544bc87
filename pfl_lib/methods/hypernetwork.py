"""A small fully connected network kept as a row: what pFedLA's and pFedHN's servers hold.

An embedding goes through hidden layers with ReLU; what reads the last of them, the heads, belongs
to the method.  All functions take one network [K] or many side by side [n, K].
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, whole

WIDEST = 100_000


def check_sizes(embedding: int | None, hidden: Sequence[int]) -> None:
    """BadInput unless the embedding's size and each hidden layer's is a whole number, 1 or more."""
    if embedding is not None:
        whole("embedding", embedding, 1, WIDEST)
    if not isinstance(hidden, tuple):
        raise BadInput(f"hidden {hidden!r}: give a tuple of sizes, such as (100, 100, 100)")
    for size in hidden:
        whole("a hidden layer's size", size, 1, WIDEST)


def hidden_shapes(embedding: int, hidden: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The hidden layers' tensors by name: "weight k" [outputs, inputs] and "bias k" [outputs]."""
    shapes: dict[str, tuple[int, ...]] = {}
    for k, (inputs, outputs) in enumerate(pairwise((embedding, *hidden)), start=1):
        shapes |= {f"weight {k}": (outputs, inputs), f"bias {k}": (outputs,)}
    return shapes


def drawn_hidden(embedding: int, hidden: Sequence[int], random: torch.Generator) -> Tensor:
    """Starting values of the hidden layers as one row, float32: uniform within 1 / sqrt(inputs), as
    `nn.Linear` draws them.
    """
    parts = [torch.zeros(0)]
    for inputs, outputs in pairwise((embedding, *hidden)):
        drawn = torch.rand(outputs * inputs + outputs, generator=random)
        parts.append((2 * drawn - 1) / math.sqrt(inputs))
    return torch.cat(parts)


def features(named: Mapping[str, Tensor], embedding: Tensor) -> Tensor:
    """The last hidden layer's values [..., width] for embeddings [..., D]; the embeddings
    themselves where there is no hidden layer.

    `named` holds the tensors of `hidden_shapes`, of one network or of as many as there are
    embeddings.
    """
    k, x = 1, embedding
    while f"weight {k}" in named:
        x = torch.einsum("...oi,...i->...o", named[f"weight {k}"], x) + named[f"bias {k}"]
        x, k = x.relu(), k + 1
    return x
