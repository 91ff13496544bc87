"""Loss and accuracy of models on clients' examples, in float64."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pfl_lib.engine.flat import FlatModule
from pfl_lib.federation.clients import Split
from pfl_lib.rows import Rows

BATCH = 1000


def evaluate(
    module: FlatModule, model: Rows, data: Split, clients: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Mean loss [n] and accuracy [n] (0 to 1) of one model ([P]) on n clients' data, or of the k-th
    of n models ([n, P]) on the k-th client's.
    """
    if not clients:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    if model["theta"].dim() == 2:
        rows = [{name: matrix[k] for name, matrix in model.items()} for k in range(len(clients))]
        each = [evaluate(module, row, data, [i]) for row, i in zip(rows, clients, strict=True)]
        return tuple(map(torch.cat, zip(*each, strict=True)))
    if len(clients) == 1:
        # Alice alone: the sums below would cost a small model more than its predictions.
        losses, correct = examples(module, model, data, clients[0])
        return losses.mean()[None], correct.mean()[None]
    # All clients' examples in one stream of large batches, then summed per client.
    index = torch.cat([data.index[i] for i in clients])
    labels = torch.cat([data.labels[i] for i in clients])
    device = index.device
    counts = torch.tensor([len(data.index[i]) for i in clients], device=device)
    owner = torch.arange(len(clients), device=device).repeat_interleave(counts)
    sums = torch.zeros(2, len(clients), dtype=torch.float64, device=device)
    for part in torch.arange(len(index), device=device).split(BATCH):
        x = data.pool.inputs(index[part])
        losses, correct = module.losses(model["theta"], model["statistics"], x, labels[part])
        sums.index_add_(1, owner[part], torch.stack([losses, correct]).double())
    return (sums / counts).cpu().unbind()


def examples(module: FlatModule, model: Rows, data: Split, client: int) -> tuple[Tensor, Tensor]:
    """Loss [b] and correctness (1 or 0) [b] of one model [P] on each of a client's examples."""
    index, labels = data.index[client], data.labels[client]
    parts = zip(index.split(BATCH), labels.split(BATCH), strict=True)
    theta, statistics = model["theta"], model["statistics"]
    found = [module.losses(theta, statistics, data.pool.inputs(part), own) for part, own in parts]
    return tuple(torch.cat(values).double().cpu() for values in zip(*found, strict=True))
