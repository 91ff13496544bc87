"""The fixed workloads: the papers' networks and numbers of clients, few images each, on pictures
drawn for the purpose.

How long a step takes does not depend on what is in the pictures.  They can be told apart all the
same (a pattern per class, and noise), so that ours and the reference are seen to learn equally well
in the rounds that were timed.
"""

from dataclasses import dataclass

import torch

from pfl_lib import models
from pfl_lib.data.source import Dataset
from pfl_lib.federation.clients import from_partition
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg
from pfl_lib.partitions.base import Partition

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

    @property
    def examples(self) -> float:
        """Examples that are trained on in one round."""
        return self.participation * self.clients * self.images

    @property
    def batches(self) -> float:
        """Batches in one round."""
        return self.participation * self.clients * -(-self.images // self.batch)


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


def draw(workload: Workload) -> Dataset:
    """The workload's examples, drawn from a fixed seed: uint8 images [n, C, H, W] or float32 tables
    [n, F], each client's in a row.
    """
    n, images = workload.clients * workload.images, len(workload.shape) == 3
    random = torch.Generator().manual_seed(1)
    y = torch.randint(workload.classes, (n + TEST,), generator=random)
    patterns = torch.randn(workload.classes, *workload.shape, generator=random)
    if images:  # blocks of 4x4 equal pixels, which convolutions and pooling can see
        patterns = patterns[..., ::4, ::4].repeat_interleave(4, -1).repeat_interleave(4, -2)
    x = torch.empty(n + TEST, *workload.shape)
    for part in torch.arange(n + TEST).split(1000):
        x[part] = patterns[y[part]] + 3 * torch.randn(len(part), *workload.shape, generator=random)
    if images:
        x = (x * 16 + 128).clamp(0, 255).to(torch.uint8)
    mean, std = ((128 / 255,), (64 / 255,)) if images else ((0.0,), (1.0,))
    return Dataset("drawn", x[:n], y[:n], x[n:], y[n:], workload.classes, mean, std, "drawn")


def federation(
    workload: Workload, threads: int = 1, alice: int | None = None, validation: float = 0.0
) -> Federation:
    """The workload's federation on the CPU; every client is tested on all test images, and
    validates on its last ones, so large a share of its own.
    """
    held_out = round(validation * workload.images)
    own = torch.arange(workload.clients * workload.images).split(workload.images)
    partition = Partition(
        "drawn",
        train=tuple(index[: workload.images - held_out] for index in own),
        test=(torch.arange(TEST),) * workload.clients,
        validation=tuple(index[workload.images - held_out :] for index in own) if held_out else (),
    )
    return Federation(
        from_partition(draw(workload), partition),
        models.Architecture(workload.model, workload.shape, workload.classes),
        Schedule(
            1000, batch_size=workload.batch, lr=workload.lr, participation=workload.participation
        ),
        alice=alice,
        device="cpu",
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
