"""DLA for 32x32 colour images: the network of WAFFLE's CIFAR-10 runs.

Deep Layer Aggregation (Yu et al. 2018), in the form that kuangliu/pytorch-cifar gave it for CIFAR
(`models/dla.py`), which is what WAFFLE's "following [Yu et al.]" with momentum 0.9 and weight decay
5e-4 points to: 16,291,386 parameters with ten classes, 43 BatchNorms.
"""

import torch
from torch import Tensor, nn


class DLA(nn.Module):
    """Three 3x3 convolutions (16, 16 and 32 channels), then trees of 64, 128, 256 and 512, mean
    over what is left, one linear layer.

    The trees are of depth 1, 2, 2 and 1, and all but the first halve the image: 32x32 becomes 4x4.
    Inputs [b, channels, h, w] with h and w multiples of 8.
    """

    def __init__(self, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        stem = (channels, 16), (16, 16), (16, 32)
        self.stem = nn.Sequential(*(_conv_norm(i, o, 3) for i, o in stem))
        self.trees = nn.Sequential(
            Tree(32, 64, depth=1, stride=1),
            Tree(64, 128, depth=2, stride=2),
            Tree(128, 256, depth=2, stride=2),
            Tree(256, 512, depth=1, stride=2),
        )
        self.head = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trees(self.stem(x)).mean((2, 3)))


class Tree(nn.Module):
    """A chain of blocks whose outputs a root joins: two blocks of its own and, below depth 1, what
    came before them.

    Depth d: the root sees a projection of the input, the trees of depth d - 1 to 1 in a chain, and
    the two blocks that follow them: d + 2 inputs; at depth 1 only the two blocks.
    """

    def __init__(self, inputs: int, outputs: int, depth: int, stride: int) -> None:
        super().__init__()
        self.projection = BasicBlock(inputs, outputs, stride) if depth > 1 else None
        # Only the first of the chain changes the number of channels and the image's size.
        starts = [(inputs, stride), *[(outputs, 1)] * depth]
        chain = zip(range(depth - 1, 0, -1), starts, strict=False)
        self.subtrees = nn.ModuleList(Tree(i, outputs, d, s) for d, (i, s) in chain)
        i, s = starts[len(self.subtrees)]
        self.left, self.right = BasicBlock(i, outputs, s), BasicBlock(outputs, outputs, 1)
        self.root = _conv_norm((depth + 2 if depth > 1 else 2) * outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        joined = [] if self.projection is None else [self.projection(x)]
        for part in (*self.subtrees, self.left, self.right):
            x = part(x)
            joined.append(x)
        return self.root(torch.cat(joined, 1))


class BasicBlock(nn.Module):
    """ResNet's block: two 3x3 convolutions and a shortcut, 1x1 where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _conv_norm(inputs, outputs, 3, stride)
        self.second = _conv_norm(outputs, outputs, 3)[:2]
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _conv_norm(inputs, outputs, 1, stride)[:2]

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias that keeps the size (but for its stride), BatchNorm, ReLU."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())
