"""Weight Erosion, Appendix A: relative distances between full gradients, its three examples
computed.

The paper argues about them in words; here an agent's loss is the paper's own, over all of its rows:
half the cross-entropy of the linear model plus 1e-3 * ||theta||^2 / 2, which is convex and has one
minimum.
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
class Agent:
    """An agent's rows: inputs [n, F + 1] in float64, the last one being 1 for the bias, and labels
    [n].
    """

    x: Tensor
    y: Tensor

    def loss(self, theta: Tensor) -> Tensor:
        """The agent's loss at theta [2 (F + 1)], a number."""
        logits = self.x @ theta.reshape(2, -1).T
        return LOSSES["half_cross_entropy"](logits, self.y).mean() + L2 / 2 * theta.square().sum()

    def gradient(self, theta: Tensor) -> Tensor:
        """Its gradient [2 (F + 1)]: X^T (p - onehot) / 2n + 1e-3 theta."""
        wrong = (self.x @ theta.reshape(2, -1).T).softmax(-1) - torch.nn.functional.one_hot(
            self.y, 2
        )
        return (wrong.T @ self.x).reshape(-1) / (2 * len(self.y)) + L2 * theta

    def hessian(self, theta: Tensor) -> Tensor:
        """Its second derivative [2 (F + 1), 2 (F + 1)]: [[A, -A], [-A, A]] + 1e-3 I with A = X^T
        diag(p_0 p_1) X / 2n.
        """
        spread = (self.x @ theta.reshape(2, -1).T).softmax(-1).prod(-1)
        block = self.x.T @ (spread[:, None] * self.x) / (2 * len(self.y))
        signs = torch.tensor([[1, -1], [-1, 1]], dtype=torch.float64)
        return torch.kron(signs, block) + L2 * torch.eye(len(theta), dtype=torch.float64)


def agents(dataset: Dataset, partition: Partition) -> list[Agent]:
    """Every agent of a table's partition with all of its rows, training and test."""
    rows = [
        torch.cat([test, train])
        for test, train in zip(partition.test, partition.train, strict=True)
    ]
    inputs = dataset.train_x.double()
    return [
        Agent(torch.cat([inputs[r], CONSTANT.expand(len(r), 1)], dim=1), dataset.train_y[r])
        for r in rows
    ]


def union(several: Sequence[Agent]) -> Agent:
    """The agents' rows as one agent's."""
    return Agent(
        torch.cat([agent.x for agent in several]), torch.cat([agent.y for agent in several])
    )


def minimum(agent: Agent) -> Tensor:
    """The one theta where the agent's gradient is zero, by Newton's method with halved steps."""
    theta = torch.zeros(2 * agent.x.shape[1], dtype=torch.float64)
    for _ in range(100):
        gradient = agent.gradient(theta)
        if gradient.norm() < ENOUGH:
            break
        direction = torch.linalg.solve(agent.hessian(theta), gradient)
        step = 1.0
        while agent.loss(theta - step * direction) > agent.loss(theta) and step > 1e-9:
            step /= 2
        theta = theta - step * direction
    return theta


def distances(everybody: Sequence[Agent], theta: Tensor, user: int = 0) -> Tensor:
    """Eq. 4 with full gradients at one model: each agent's relative distance to the user's, [n]."""
    return relative_distances(torch.stack([agent.gradient(theta) for agent in everybody]), user)


def example_1(
    everybody: Sequence[Agent], scales: Sequence[float], draws: int = 20, user: int = 0
) -> pd.DataFrame:
    """ "The model has just been randomly initialized and performs very sub-optimally": are the
    others close then?

    `scales`: standard deviations of a normal random model.  A row for each: the mean over `draws`
    models of the user's loss, of the loss of predicting nothing (all scores equal) and of each
    other agent's relative distance.
    """
    rows = []
    for scale in scales:
        models = np.random.RandomState(0).randn(draws, 2 * everybody[user].x.shape[1]) * scale
        models = [torch.from_numpy(model) for model in models]
        found = torch.stack([distances(everybody, model, user) for model in models]).mean(0)
        data_loss = np.mean(
            [float(everybody[user].loss(m) - L2 / 2 * m.square().sum()) for m in models]
        )
        others = {f"agent {i}": float(found[i]) for i in range(len(everybody)) if i != user}
        rows.append({"spread of the start": scale, "user's loss": data_loss, **others})
    return pd.DataFrame(rows)


def example_2(everybody: Sequence[Agent], user: int = 0) -> pd.DataFrame:
    """ "f is the global model for 2 agents": the distance is 1 + |S_0| / |S_i| exactly, whatever
    the data.

    A row for each other agent: sizes, the distance computed at the minimum over both agents' rows,
    and the formula's.
    """
    rows = []
    for i, other in enumerate(everybody):
        if i != user:
            theta = minimum(union([everybody[user], other]))
            size, theirs = len(everybody[user].y), len(other.y)
            found = float(distances([everybody[user], other], theta)[1])
            rows.append(
                {
                    "agent": i,
                    "user's rows": size,
                    "agent's rows": theirs,
                    "computed": found,
                    "formula": 1 + size / theirs,
                }
            )
    return pd.DataFrame(rows)


def example_3(
    everybody: Sequence[Agent], steps: int = 2_000, lr: float = 1.0, user: int = 0
) -> pd.DataFrame:
    """ "f is the local model of agent 0": on the way there distances grow without bound.

    Gradient descent on the user's loss from zero; index step (those of the form 1, 2, 5, 10, ...),
    a column for each other agent with its relative distance.
    """
    theta = torch.zeros(2 * everybody[user].x.shape[1], dtype=torch.float64)
    shown = {k * 10**d for d in range(9) for k in (1, 2, 5) if k * 10**d <= steps}
    rows = {}
    for step in range(1, steps + 1):
        if step in shown:
            found = distances(everybody, theta, user)
            rows[step] = {f"agent {i}": float(found[i]) for i in range(len(everybody)) if i != user}
        theta = theta - lr * everybody[user].gradient(theta)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("step")
