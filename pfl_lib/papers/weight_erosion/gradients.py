"""Weight Erosion, Appendix A: relative distances between full gradients, its three examples
computed.

The paper argues about them in words; here a client's loss is the paper's own, over all of its rows:
half the cross-entropy of the linear model plus 1e-3 * ||theta||^2 / 2, which is convex and has one
minimum.  Client 0 is Alice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
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

    def loss(self, theta: Tensor) -> Tensor:
        """The client's loss at theta [2 (F + 1)], a number."""
        logits = self.x @ theta.reshape(2, -1).T
        return LOSSES["half_cross_entropy"](logits, self.y).mean() + L2 / 2 * theta.square().sum()

    def gradient(self, theta: Tensor) -> Tensor:
        """Its gradient [2 (F + 1)]: X^T (p - onehot) / 2n + 1e-3 theta."""
        labels = torch.nn.functional.one_hot(self.y, 2)
        wrong = (self.x @ theta.reshape(2, -1).T).softmax(-1) - labels
        return (wrong.T @ self.x).reshape(-1) / (2 * len(self.y)) + L2 * theta

    def hessian(self, theta: Tensor) -> Tensor:
        """Its second derivative [2 (F + 1), 2 (F + 1)]: [[A, -A], [-A, A]] + 1e-3 I with A = X^T
        diag(p_0 p_1) X / 2n.
        """
        spread = (self.x @ theta.reshape(2, -1).T).softmax(-1).prod(-1)
        block = self.x.T @ (spread[:, None] * self.x) / (2 * len(self.y))
        signs = torch.tensor([[1, -1], [-1, 1]], dtype=torch.float64)
        return torch.kron(signs, block) + L2 * torch.eye(len(theta), dtype=torch.float64)


def clients(dataset: Dataset, partition: Partition) -> list[Rows]:
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


def _of_others(found: Tensor) -> dict[str, float]:
    return {f"client {i}": float(distance) for i, distance in enumerate(found) if i}


def example_1(everybody: Sequence[Rows], scales: Sequence[float], draws: int = 20) -> pd.DataFrame:
    """ "The model has just been randomly initialized and performs very sub-optimally": are the
    others close then?

    `scales`: standard deviations of a normal random model.  A row for each: the mean over `draws`
    models of Alice's loss and of each other client's relative distance.
    """
    rows, alice = [], everybody[0]
    for scale in scales:
        models = np.random.RandomState(0).randn(draws, 2 * alice.x.shape[1]) * scale
        models = [torch.from_numpy(model) for model in models]
        found = torch.stack([distances(everybody, model) for model in models]).mean(0)
        data_loss = np.mean([float(alice.loss(m) - L2 / 2 * m.square().sum()) for m in models])
        start = {"spread of the start": scale, "Alice's loss": data_loss}
        rows.append(start | _of_others(found))
    return pd.DataFrame(rows)


def example_2(everybody: Sequence[Rows]) -> pd.DataFrame:
    """ "f is the global model for 2 agents": the distance is 1 + |S_0| / |S_i| exactly, whatever
    the data.

    A row for each other client: sizes, the distance computed at the minimum over both clients'
    rows, and the formula's.
    """
    lines, (alice, *others) = [], everybody
    for i, other in enumerate(others, 1):
        both = Rows(torch.cat([alice.x, other.x]), torch.cat([alice.y, other.y]))
        line = {"client": i, "Alice's rows": len(alice.y), "client's rows": len(other.y)}
        line["computed"] = float(distances([alice, other], minimum(both))[1])
        lines.append(line | {"formula": 1 + len(alice.y) / len(other.y)})
    return pd.DataFrame(lines)


def example_3(everybody: Sequence[Rows], steps: int = 2_000, lr: float = 1.0) -> pd.DataFrame:
    """ "f is the local model of agent 0": on the way there distances grow without bound.

    Gradient descent on Alice's loss from zero; index step (those of the form 1, 2, 5, 10, ...), a
    column for each other client with its relative distance.
    """
    theta = torch.zeros(2 * everybody[0].x.shape[1], dtype=torch.float64)
    shown = {k * 10**d for d in range(9) for k in (1, 2, 5)}
    rows = {}
    for step in range(1, steps + 1):
        if step in shown:
            rows[step] = _of_others(distances(everybody, theta))
        theta = theta - lr * everybody[0].gradient(theta)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("step")
