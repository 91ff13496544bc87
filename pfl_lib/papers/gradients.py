"""Full gradients of Weight Erosion's own losses, for the three examples of its Appendix A.

A client's loss is over all of its rows: half the cross-entropy of the linear model plus 1e-3 *
||theta||^2 / 2, which is convex and has one minimum.  Client 0 is Alice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.data.source import Dataset
from pfl_lib.engine import LOSSES
from pfl_lib.methods.weight_erosion import relative_distances
from pfl_lib.partitions.base import Partition

L2 = 1e-3
ENOUGH = 1e-12  # length of a gradient that counts as zero
CONSTANT = torch.ones(1, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Rows:
    """A client's rows: inputs [n, F + 1] in float64, the last one being 1 for the bias, and labels
    [n].
    """

    x: Tensor
    y: Tensor

    def data_loss(self, theta: Tensor) -> Tensor:
        """Half the mean cross-entropy at theta [2 (F + 1)], a number."""
        logits = self.x @ theta.reshape(2, -1).T
        return LOSSES["half_cross_entropy"](logits, self.y).mean()

    def loss(self, theta: Tensor) -> Tensor:
        """The client's loss at theta [2 (F + 1)], a number."""
        return self.data_loss(theta) + L2 / 2 * theta.square().sum()

    def gradient(self, theta: Tensor) -> Tensor:
        """Its gradient [2 (F + 1)]."""
        return torch.func.grad(self.loss)(theta)

    def hessian(self, theta: Tensor) -> Tensor:
        """Its second derivative [2 (F + 1), 2 (F + 1)]."""
        return torch.func.jacrev(torch.func.grad(self.loss))(theta)


def rows_of_clients(dataset: Dataset, partition: Partition) -> list[Rows]:
    """Every client of a table's partition with all of its rows, training and test."""
    held = [torch.cat(both) for both in zip(partition.test, partition.train, strict=True)]
    inputs = dataset.train_x.double()
    return [
        Rows(torch.cat([inputs[r], CONSTANT.expand(len(r), 1)], dim=1), dataset.train_y[r])
        for r in held
    ]


def minimum(rows: Rows) -> Tensor:
    """The one theta where the gradient is zero, by Newton's method with halved steps."""
    theta = torch.zeros(2 * rows.x.shape[1], dtype=torch.float64)
    for _ in range(100):
        gradient = rows.gradient(theta)
        if gradient.norm() < ENOUGH:
            break
        direction = torch.linalg.solve(rows.hessian(theta), gradient)
        step = 1.0
        while rows.loss(theta - step * direction) > rows.loss(theta) and step > 1e-9:
            step /= 2
        theta = theta - step * direction
    return theta


def distances(everybody: Sequence[Rows], theta: Tensor) -> Tensor:
    """Eq. 4 with full gradients at one model: each client's relative distance to Alice's, [n]."""
    return relative_distances(torch.stack([rows.gradient(theta) for rows in everybody]), 0)
