"""Clients side by side: `torch.func` over rows, one kernel launch for many clients' steps.

The GPU's default for small networks.  At every local step the clients that still have a batch are
grouped by its size: ragged clients and short last batches give `loop`'s numbers, BatchNorm too.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from pfl_lib.engine import Pool, Work
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.graphs import Played
from pfl_lib.engine.layout import views
from pfl_lib.engine.private import by_example, private_gradient
from pfl_lib.rows import Batch, Gradient, Rows, Step, take, velocity


def train(
    flat: FlatModule,
    pool: Pool,
    rows: Rows,
    work: Sequence[Work],
    step: Step,
    trained: Sequence[str],
    sgd: dict[str, float],
) -> Rows:
    """As `loop.train`, by one module."""
    rows = {of: row.clone(memory_format=torch.contiguous_format) for of, row in rows.items()}
    if sgd["momentum"]:
        rows |= {velocity(name): torch.zeros_like(rows[name]) for name in trained}
    gradient, noising = gradients_of(flat), [client.noising for client in work]
    clipped = any(noising) and by_example(flat, noising[0].settings.max_norm)
    placed = [client.placed() for client in work]
    for number in range(max((len(client.batches) for client in work), default=0)):
        # Those with equally large batches together
        sizes = {i: len(c.batches[number]) for i, c in enumerate(work) if number < len(c.batches)}
        for size in dict.fromkeys(sizes.values()):
            group = [i for i in sizes if sizes[i] == size]
            apart = len(group) < len(work)
            part = {name: matrix[group] for name, matrix in rows.items()} if apart else rows
            index, labels = (torch.stack([placed[i][k][number] for i in group]) for k in (0, 1))
            moves = [work[i].moves[number] for i in group if work[i].moves is not None]
            x = pool.inputs(index, torch.stack(moves) if moves else None)
            if clipped:
                gradient = private_gradient(clipped, [noising[i] for i in group])
            take(step, part, gradient, Batch(x, labels, number, **sgd))
            if apart:
                for name in part:
                    rows[name][group] = part[name]
    return {name: rows[name] for name in trained}


def gradients_of(flat: FlatModule) -> Gradient:
    """Models [n, P] and a batch each, x [n, b, ...], y [n, b], to the gradients [n, P]."""
    network, layout, loss = flat.network, flat.layout, flat.loss
    network.train()
    counters = {name: b for name, b in network.named_buffers() if not b.is_floating_point()}
    within = "" if network is flat.module else "module."

    def mean_loss(
        parameters: dict[str, Tensor], statistics: Tensor, x: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        # BatchNorm writes into the buffers it is given: hand it copies, and return what it wrote;
        # dense ones, since into columns of a matrix vmap's rule would write nothing.
        held = views(layout.statistics, statistics)
        running = {within + name: value.clone() for name, value in held.items()}
        counted = {name: counter.clone() for name, counter in counters.items()}
        named = {within + name: value for name, value in parameters.items()}
        logits = functional_call(network, {**named, **running, **counted}, (x,))
        written = [value.reshape(-1) for value in running.values()]
        return loss(logits, y).mean(), torch.cat(written) if written else statistics

    by_parameter = vmap(grad(mean_loss, has_aux=True))

    def each(theta: Tensor, statistics: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        # Of the parameters and not of theta: each slice of that would have a gradient [n, P].
        slopes, written = by_parameter(views(layout.parameters, theta), statistics, x, y)
        columns = [slopes[block.name].reshape(len(theta), -1) for block in layout.parameters]
        return torch.cat(columns, 1), written

    if flat.on_gpu and flat.recorded_as is not None:
        each = flat.played = flat.played or Played(each)

    def gradient(theta: Tensor, batch: Batch, statistics: Tensor | None = None) -> Tensor:
        before = theta.new_zeros(len(theta), layout.S) if statistics is None else statistics
        gradients, written = each(theta, before, batch.x, batch.y)
        if statistics is not None:
            statistics.copy_(written)
        return gradients

    return gradient
