"""The reference that needs no installation: federated averaging as most code writes it, a module
and an optimiser per client.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.workloads import Workload
from pfl_lib import models
from pfl_lib.federation.clients import Split
from pfl_lib.federation.federation import Federation


class TextbookLeNet5(models.LeNet5):
    """LeNet-5 as textbooks write it: convolution, activation, pooling.  The same function and the
    same parameters as ours.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.max_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def network(workload: Workload, fed: Federation) -> nn.Module:
    """The workload's network in its plain form, with the federation's initial values; only LeNet-5
    has a form of its own.
    """
    if workload.model == "lenet5":
        module = TextbookLeNet5(workload.classes)
    else:
        module = models.build(workload.model, workload.shape, workload.classes)
    start = fed.layout.named(*fed.initial().values())
    module.load_state_dict(start, strict=False)  # all but BatchNorm's counters
    return module


def examples(split: Split, client: int) -> tuple[Tensor, Tensor]:
    """A client's inputs and labels as most code stores them: normalised beforehand, channels
    first.
    """
    x = split.pool.to("cpu", torch.float32).inputs(split.index[client])
    return x.contiguous(memory_format=torch.contiguous_format), split.labels[client]


def train(module: nn.Module, x: Tensor, y: Tensor, batch_size: int, lr: float) -> None:
    """One local epoch of SGD on inputs in memory, shuffled."""
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for batch in torch.randperm(len(x)).split(batch_size):
        optimiser.zero_grad()
        F.cross_entropy(module(x[batch]), y[batch]).backward()
        optimiser.step()


class Plain:
    """Uniform FedAvg in the rounds, clients and batches of `workloads.Ours`: each client trains a
    copy of the shared module, their state dicts are averaged.
    """

    def __init__(self, workload: Workload, fed: Federation) -> None:
        self.workload, self.fed, self.done = workload, fed, 0
        self.module = network(workload, fed)
        splits = fed.clients.splits
        self.clients = [examples(splits["train"], client) for client in range(len(fed))]
        self.test = examples(splits["test"], 0)

    def round(self) -> None:
        self.done += 1
        taking_part = self.fed.participants(self.done)
        mean: dict[str, Tensor] = {}
        for client in taking_part:
            own = copy.deepcopy(self.module)
            train(own, *self.clients[client], self.workload.batch, self.workload.lr)
            for name, value in own.state_dict().items():
                mean[name] = mean.get(name, 0) + value / len(taking_part)
        self.module.load_state_dict(mean)

    @torch.no_grad()
    def accuracy(self) -> float:
        """Accuracy (0 to 1) of the shared model on the test images."""
        self.module.eval()
        x, y = self.test
        return (self.module(x).argmax(1) == y).double().mean().item()
