"""The papers' networks, as ordinary modules.

Any `nn.Module` that maps inputs [b, ...] to logits [b, classes] takes part in a federation; these are the ones that a
paper's tables need, by name.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pfl_lib.convpool import conv_pool
from pfl_lib import linear
from pfl_lib.errors import BadInput, choose

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class LeNet5(nn.Module):
    """LeNet-5 for 28x28 grey images: 61,706 parameters with ten classes.

    Convolutions of 6 and 16 kernels 5x5 (the first padded by 2), each followed by 2x2 max-pooling, then 400-120-84-classes.
    `activation` is "tanh", as in LeCun's network, or "relu": with ReLU and the WAFFLE paper's learning rate of 0.1, SCAFFOLD and WAFFLE
    diverge within ten rounds.  The activation comes after the pooling: both are monotone, so the function is the same as in
    the textbook order, with a quarter of the activations to compute.
    """

    def __init__(self, classes: int = 10, activation: str = "tanh") -> None:
        super().__init__()
        self.activation = choose("activation", activation, ACTIVATIONS)
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        act = ACTIVATIONS[self.activation]
        x = act(conv_pool(x, self.conv1.weight, self.conv1.bias, padding=2))
        x = act(conv_pool(x, self.conv2.weight, self.conv2.bias)).flatten(1)
        return self.fc3(act(self.fc2(act(self.fc1(x)))))


def _lenet5(activation: str) -> Callable[[tuple[int, ...], int], nn.Module]:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        if tuple(shape) != (1, 28, 28):
            raise BadInput(
                f"model lenet5 takes 1x28x28 images, not {'x'.join(map(str, shape))}; choose another model or data set"
            )
        return LeNet5(classes, activation)

    return build


MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "lenet5": _lenet5("tanh"),
    "lenet5-relu": _lenet5("relu"),
    "linear": functools.partial(linear.build, start="haiku"),
    "linear-zero": functools.partial(linear.build, start="zero"),
    "linear-authors": functools.partial(linear.build, start="authors"),
}


def build(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A new module of the named architecture for inputs of `shape` (without the batch) and so many classes."""
    return MODELS[choose("model", name, MODELS)](shape, classes)
