"""The reference that needs no installation: federated averaging as most code writes it, a module
and an optimiser per client.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfl_lib import models


class TextbookLeNet5(models.LeNet5):
    """LeNet-5 as textbooks write it: convolution, activation, pooling.  The same function and the
    same parameters as ours.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.max_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def network(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A model of the package in its plain form; only LeNet-5 has another."""
    return TextbookLeNet5(classes) if name == "lenet5" else models.build(name, shape, classes)


def train(module: nn.Module, x: Tensor, y: Tensor, batch_size: int, lr: float) -> None:
    """One local epoch of SGD on inputs in memory, shuffled."""
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for batch in torch.randperm(len(x)).split(batch_size):
        optimiser.zero_grad()
        F.cross_entropy(module(x[batch]), y[batch]).backward()
        optimiser.step()


class PlainFedAvg:
    """Rounds of uniform FedAvg over modules: each client trains a copy of the shared one, their
    state dicts are averaged.
    """

    def __init__(
        self,
        module: nn.Module,
        clients: Sequence[tuple[Tensor, Tensor]],
        batch_size: int,
        lr: float,
    ) -> None:
        self.module, self.clients, self.batch_size, self.lr = module, clients, batch_size, lr

    def round(self, taking_part: Sequence[int]) -> None:
        mean: dict[str, Tensor] = {}
        for client in taking_part:
            own = copy.deepcopy(self.module)
            train(own, *self.clients[client], self.batch_size, self.lr)
            for name, value in own.state_dict().items():
                mean[name] = mean.get(name, 0) + value / len(taking_part)
        self.module.load_state_dict(mean)

    @torch.no_grad()
    def accuracy(self, x: Tensor, y: Tensor) -> float:
        self.module.eval()
        return (self.module(x).argmax(1) == y).double().mean().item()
