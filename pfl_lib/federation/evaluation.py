"""Losses and accuracies of models on clients' examples, in float64; both NaN where scores are."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pfl_lib.engine.flat import FlatModule
from pfl_lib.federation.clients import Split
from pfl_lib.rows import Rows, copies

EVALUATED = 1_000  # examples at once


def of_examples(flat: FlatModule, model: Rows, data: Split, client: int) -> tuple[Tensor, Tensor]:
    """Loss [b] and correctness (1, 0) [b] of a model [P] on a client's examples."""
    parts = (of[client].split(EVALUATED) for of in (data.index, data.labels))
    found = [_losses(flat, model, data, *part) for part in zip(*parts, strict=True)]
    losses, right = (torch.cat(of).double().cpu() for of in zip(*found, strict=True))
    return losses, right.where(~losses.isnan(), math.nan)


def of_clients(
    flat: FlatModule, model: Rows, data: Split, clients: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Mean loss [n] and accuracy [n] of a model ([P]) or of each client's own ([n, P])."""
    each, device = model["theta"].dim() == 2, data.pool.x.device
    if not clients:
        return torch.zeros(2, 0, dtype=torch.float64).unbind()
    if each or len(clients) == 1:  # Alice alone: the sums below would cost more than predictions
        rows = model if each else copies(model, 1)
        own = [{name: matrix[k] for name, matrix in rows.items()} for k in range(len(clients))]
        found = [of_examples(flat, row, data, i) for row, i in zip(own, clients, strict=True)]
        return tuple(torch.stack([one.mean() for one in of]) for of in zip(*found, strict=True))
    # All clients' examples in one stream of large batches, then summed per client.
    index, labels = (torch.cat([of[i] for i in clients]) for of in (data.index, data.labels))
    counts = torch.tensor([len(data.index[i]) for i in clients], device=device)
    owner = torch.arange(len(clients), device=device).repeat_interleave(counts)
    sums = torch.zeros(2, len(clients), dtype=torch.float64, device=device)
    for part in torch.arange(len(index), device=device).split(EVALUATED):
        found = _losses(flat, model, data, index[part], labels[part])
        sums.index_add_(1, owner[part], torch.stack(found).double())
    loss, right = (sums / counts).cpu().unbind()
    return loss, right.where(~loss.isnan(), math.nan)


def _losses(flat: FlatModule, model: Rows, data: Split, index: Tensor, labels: Tensor) -> tuple:
    inputs = data.pool.inputs(index)
    return flat.losses(model["theta"], model["statistics"], inputs, labels)
