"""A small fully connected network kept as a row: what pFedLA's and pFedHN's servers hold.

An embedding goes through hidden layers with ReLU; what reads the last of them, the heads, belongs
to the method.  `features` takes one network [K] or many side by side [n, K].
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pfl_lib.engine.layout import Block, blocks_of
from pfl_lib.errors import BadInput, whole

WIDEST = 100_000


def check_sizes(name: str, hidden: object) -> None:
    """BadInput unless `hidden` is a tuple of sizes of layers, whole numbers, 1 or more."""
    if not isinstance(hidden, tuple):
        raise BadInput(f"{name} {hidden!r}: give a tuple of sizes, such as (100, 100, 100)")
    for size in hidden:
        whole("a hidden layer's size", size, 1, WIDEST)


def columns(
    embedding: tuple[int, ...], hidden: Sequence[int], heads: tuple[int, ...]
) -> tuple[Block, ...]:
    """The columns of a row [K] that hold "embedding" [..., D]; of each hidden layer "weight k"
    [outputs, inputs] and "bias k" [outputs]; "head weight" [*heads, inputs], "head bias" [*heads].
    """
    shapes, widths = {"embedding": embedding}, (embedding[-1], *hidden)
    for k, (inputs, outputs) in enumerate(pairwise(widths), start=1):
        shapes |= {f"weight {k}": (outputs, inputs), f"bias {k}": (outputs,)}
    return blocks_of(shapes | {"head weight": (*heads, widths[-1]), "head bias": heads})


def drawn(blocks: Sequence[Block], random: torch.Generator) -> Tensor:
    """Starting values of a row of these columns, float32: embeddings from a normal distribution;
    hidden layers uniform within 1 / sqrt(inputs), as `nn.Linear` draws them; heads 0.
    """
    embedding, *hidden, _, last = blocks
    how = {"generator": random, "dtype": torch.float32}
    row = torch.zeros(last.stop, dtype=torch.float32)
    row[: embedding.stop] = torch.randn(embedding.stop, **how)
    for weight, bias in zip(hidden[::2], hidden[1::2], strict=True):
        uniform = torch.rand(bias.stop - weight.start, **how)
        row[weight.start : bias.stop] = (2 * uniform - 1) / math.sqrt(weight.shape[1])
    return row


def features(named: Mapping[str, Tensor], embedding: Tensor) -> Tensor:
    """The last hidden layer's values [..., width] for embeddings [..., D]; the embeddings
    themselves where there is no hidden layer.

    `named` holds tensors by the names of `columns`, of one network or of one for each embedding.
    """
    k, x = 1, embedding
    while f"weight {k}" in named:
        x = torch.einsum("...oi,...i->...o", named[f"weight {k}"], x) + named[f"bias {k}"]
        x, k = x.relu(), k + 1
    return x
