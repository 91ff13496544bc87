"""What a picture shows, as numbers: a layer of a small network trained on the labels.

FedFomo (appendix A.5) takes the second fully connected layer (4,096 numbers) of a VGG-11, trained
to at least 85 % on the data set; its released code starts from one trained on ImageNet.  This
network needs no download, and minutes of one core.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from pfl_lib.data.source import Dataset
from pfl_lib.errors import choose
from pfl_lib.randomness import generator, number

CHANNELS = (32, 64, 128)
WIDTH = 512  # of the two fully connected layers
LAYERS = {"last block": -5, "second fully connected layer": -1}  # where the network is cut
BATCH = 128
PEAK_LR, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 5e-4


@dataclass(frozen=True, eq=False)
class Embedding:
    """`vectors` in floating point [n, width]: the training pool's examples, then the test pool's;
    `accuracy`: of the network on the test pool; `made_by`: one line.
    """

    vectors: Tensor
    accuracy: float
    made_by: str


def small_cnn(dataset: Dataset, epochs: int, seed: int, layer: str = "last block") -> Embedding:
    """Train the network on the data set's training pool and embed every example of both pools.

    Three blocks of convolution, batch normalisation, ReLU and pooling; two fully connected layers
    of 512; a classifier.  SGD with a learning rate that rises to 0.1 over the first quarter of the
    steps and falls to 0 over the rest; coloured pictures are mirrored at random.  A vector is what
    the `layer`, one of `LAYERS`, gives, in half precision.

    The package's groups of digits come from this network, as do those of CIFAR by labels; the
    others of CIFAR come from one trained on ImageNet (docs/imagenet_groups.py).
    """
    choose("layer", layer, LAYERS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number(seed, "embedding"))
        network = _network(dataset)
    mean, std = (torch.tensor(of).reshape(1, -1, 1, 1) for of in (dataset.mean, dataset.std))

    def inputs(x: Tensor) -> Tensor:
        return ((x / 255 - mean) / std).contiguous(memory_format=torch.channels_last)

    optimiser = torch.optim.SGD(
        network.parameters(), PEAK_LR, MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True
    )
    n = len(dataset.train_y)
    steps, done = epochs * (n // BATCH), 0
    for epoch in range(epochs):
        random = generator(seed, "embedding batches", epoch)
        for batch in torch.randperm(n, generator=random).split(BATCH)[: n // BATCH]:
            x = dataset.train_x[batch]
            mirrored = torch.rand(len(batch), generator=random) < 0.5
            if len(dataset.mean) == 3:  # a mirrored digit is no digit
                x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
            rising, falling = (done + 1) / (steps / 4), (steps - done) / (steps * 3 / 4)
            optimiser.param_groups[0]["lr"] = PEAK_LR * min(rising, falling)
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(network(inputs(x)), dataset.train_y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            done += 1
    network.eval()
    with torch.inference_mode():
        pictures = torch.cat([dataset.train_x, dataset.test_x])
        cut = LAYERS[layer]
        vectors = torch.cat([network[:cut](inputs(part)) for part in pictures.split(1000)])
        guesses = network[cut:](vectors[n:]).argmax(1)
    accuracy = (guesses == dataset.test_y).double().mean().item()
    made_by = (
        f"{layer} of a CNN {CHANNELS} with fully connected layers of {WIDTH}, {WIDTH};"
        f" {epochs} epochs of SGD, batch {BATCH}, seed {seed}"
    )
    return Embedding(vectors.half().clone(), accuracy, made_by)


def _network(dataset: Dataset) -> nn.Sequential:
    channels, height, width = dataset.input_shape
    blocks = []
    for before, after in pairwise((channels, *CHANNELS)):
        convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
        blocks += [convolution, nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    network = nn.Sequential(
        *blocks,
        nn.Flatten(),
        nn.Linear(CHANNELS[-1] * (height // 8) * (width // 8), WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, dataset.classes),
    )
    return network.to(memory_format=torch.channels_last)
