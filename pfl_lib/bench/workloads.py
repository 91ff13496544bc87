"""The fixed workloads: the papers' networks and numbers of clients, few images each, on pictures
drawn for the purpose.

How long a step takes does not depend on what is in the pictures.  They can be told apart all the
same (a pattern per class, and noise), so that ours and the reference are seen to learn equally well
in the rounds that were timed.
"""

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib import data, models
from pfl_lib.bench import plain
from pfl_lib.engine import Pool
from pfl_lib.federation import clients as client_data
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg

TEST = 500  # images that both are tested on


@dataclass(frozen=True)
class Workload:
    """A network, how many clients with how many images, and the paper's batch size and learning
    rate.
    """

    title: str
    model: str
    shape: tuple[int, ...]
    clients: int
    images: int
    batch: int
    lr: float
    classes: int = 10
    participation: float = 1.0
    rounds: int = 1  # rounds in one timing: several where a round is too short for a clock
    slow: bool = False  # a third of the timings


WORKLOADS = {
    # WAFFLE's MNIST half: 6,000 images a client there, hence the same steps, a tenth as many
    "lenet5": Workload(
        "LeNet-5 on MNIST, 10 clients, batch 32", "lenet5", (1, 28, 28), 10, 640, 32, 0.1
    ),
    "fedfomo": Workload(
        "FedFomo's network, 15 clients, batch 50", "tf_cnn", (3, 32, 32), 15, 100, 50, 0.1
    ),
    "pfedla": Workload(
        "pFedLA's network, 10 of 100 clients, batch 32",
        "pfedla_cnn-norm",
        (3, 32, 32),
        100,
        128,
        32,
        0.01,
        participation=0.1,
    ),
    "dla": Workload(
        "DLA on CIFAR-10's shape, batch 128", "dla", (3, 32, 32), 1, 128, 128, 0.01, slow=True
    ),
    "linear": Workload(
        "linear model, the Titanic's size, batch 161",
        "linear",
        (9,),
        4,
        322,
        161,
        3.0,
        classes=2,
        rounds=50,
    ),
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """Training images [clients * images, ...] in the clients' order and test images, uint8 (float32
    for tables), with labels.
    """

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


def draw(workload: Workload, data_dir: str | os.PathLike | None = None) -> Drawn:
    """The workload's images: drawn from a fixed seed, or MNIST's first ones where `data_dir` has
    them and they fit.
    """
    n = workload.clients * workload.images
    if data_dir is not None and workload.shape == (1, 28, 28):
        mnist = data.load("mnist", data_dir, n)
        return Drawn(mnist.train_x, mnist.train_y, mnist.test_x[:TEST], mnist.test_y[:TEST])
    random = torch.Generator().manual_seed(1)
    y = torch.randint(workload.classes, (n + TEST,), generator=random)
    patterns = torch.randn(workload.classes, *workload.shape, generator=random)
    if (
        len(workload.shape) == 3
    ):  # blocks of 4x4 equal pixels, which convolutions and pooling can see
        patterns = patterns[..., ::4, ::4].repeat_interleave(4, -1).repeat_interleave(4, -2)
    x = torch.empty(n + TEST, *workload.shape)
    for part in torch.arange(n + TEST).split(1000):
        x[part] = patterns[y[part]] + 3 * torch.randn(len(part), *workload.shape, generator=random)
    if len(workload.shape) == 3:
        x = (x * 16 + 128).clamp(0, 255).to(torch.uint8)
    return Drawn(x[:n], y[:n], x[n:], y[n:])


def federation(
    workload: Workload,
    drawn: Drawn,
    threads: int = 1,
    device: str = "cpu",
    alice: int | None = None,
    validation: float = 0.0,
) -> Federation:
    """The workload's federation; every client is tested on all test images, and validates on its
    last ones, so large a share of its own.
    """
    images = drawn.x.dtype == torch.uint8
    scale, shift = torch.tensor(1 / 64 if images else 1.0), torch.tensor(-2.0 if images else 0.0)
    own = (torch.arange(len(drawn.x)).split(workload.images), drawn.y.split(workload.images))
    everything = (
        (torch.arange(len(drawn.test_y)),) * workload.clients,
        (drawn.test_y,) * workload.clients,
    )
    pool = Pool(drawn.x, scale, shift)
    kept = workload.images - round(validation * workload.images)
    splits = {
        "train": client_data.Split(pool, *(tuple(one[:kept] for one in part) for part in own)),
        "test": client_data.Split(Pool(drawn.test_x, scale, shift), *everything),
    }
    if validation:
        held_out = (tuple(one[kept:] for one in part) for part in own)
        splits["validation"] = client_data.Split(pool, *held_out)
    held = client_data.Clients(splits, workload.classes, workload.shape)
    schedule = Schedule(
        1000, batch_size=workload.batch, lr=workload.lr, participation=workload.participation
    )
    network = models.Architecture(workload.model, workload.shape, workload.classes)
    return Federation(
        held,
        network,
        schedule,
        alice=alice,
        device=device,
        threads=threads,
    )


class Ours:
    """FedAvg on a workload's federation, round after round."""

    def __init__(self, fed: Federation) -> None:
        self.fed, self.method, self.done = fed, FedAvg("uniform"), 0
        self.state = self.method.start(fed)

    def round(self) -> None:
        self.done += 1
        self.state, _ = self.method.round(self.fed, self.state, self.done)

    def accuracy(self) -> float:
        """Accuracy (0 to 1) of the shared model on the test images."""
        return self.fed.evaluate(self.method.served(self.fed, self.state), clients=[0])[1].item()


class Plain:
    """The same rounds, clients, batches and model by the plain loop, on inputs that are normalised
    and in memory beforehand.
    """

    def __init__(self, workload: Workload, fed: Federation) -> None:
        self.fed, self.done = fed, 0
        module = plain.network(workload.model, workload.shape, workload.classes)
        start = fed.layout.named(*fed.initial().values())
        module.load_state_dict(start, strict=False)  # all but BatchNorm's counters
        train, test = (fed.clients.splits[name] for name in ("train", "test"))
        self.test = (inputs(test.pool, test.index[0]), test.labels[0])
        clients = [
            (inputs(train.pool, i), y) for i, y in zip(train.index, train.labels, strict=True)
        ]
        self.loop = plain.PlainFedAvg(module, clients, workload.batch, workload.lr)

    def round(self) -> None:
        self.done += 1
        self.loop.round(self.fed.participants(self.done))

    def accuracy(self) -> float:
        return self.loop.accuracy(*self.test)


def inputs(pool: Pool, index: Tensor) -> Tensor:
    """Examples as a network takes them, stored as most code stores them: channels first."""
    return pool.inputs(index).contiguous(memory_format=torch.contiguous_format)
