"""The papers' convolutional networks: LeNet-5, FedFomo's, McMahan's, pFedLA's."""

from torch import Tensor, nn
from torch.nn import functional as F

from pfl_lib.errors import choose
from pfl_lib.models.convpool import ACTIVATIONS, conv_pool, convolved, pooled


class LeNet5(nn.Module):
    """LeNet-5 for 28x28 grey images: 61,706 parameters with ten classes.

    Convolutions of 6 and 16 kernels 5x5 (the first padded by 2), each followed by 2x2 max-pooling,
    then 400-120-84-classes. `activation` is "tanh", as in LeCun's network, or "relu", with which
    SCAFFOLD and WAFFLE break down at the WAFFLE paper's learning rate of 0.1 (the page
    waffle-open-questions).  The activation comes after the pooling: both are monotone, so the
    function is the same as in the textbook order, with a quarter of the activations to compute.

    `norm` puts a GroupNorm of two groups, three and eight channels each, after each convolution (44
    parameters more).  It normalises each example by itself, so there are no running statistics.
    """

    def __init__(self, classes: int = 10, activation: str = "tanh", norm: bool = False) -> None:
        super().__init__()
        self.activation = choose("activation", activation, ("tanh", "relu"))
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.norm1 = nn.GroupNorm(2, 6) if norm else None
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.norm2 = nn.GroupNorm(2, 16) if norm else None
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        act = ACTIVATIONS[self.activation].of
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            if norm is not None:
                x = act(F.max_pool2d(norm(conv(x)), 2))
            elif conv._forward_hooks:  # somebody wants what the layer is given and gives, as DP-SGD
                x = act(F.max_pool2d(conv(x), 2))
            else:
                x = conv_pool(x, conv.weight, conv.bias, conv.padding[0], self.activation)
        return self.fc3(act(self.fc2(act(self.fc1(x.flatten(1))))))


class TFConvNet(nn.Module):
    """FedFomo's network: 3x3 convolutions of 32, 64 and 64 kernels, then 64-classes; after each of
    the first two 2x2 max-pooling.

    122,570 parameters for 3x32x32 images and ten classes, 128,420 for a hundred; 93,322 for 1x28x28
    (the authors' `TFConvNet` in federated/network.py, after TensorFlow's tutorial, all with ReLU).
    """

    def __init__(self, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> None:
        super().__init__()
        rows, columns = (((side - 2) // 2 - 2) // 2 - 2 for side in shape[1:])
        self.conv1 = nn.Conv2d(shape[0], 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.conv3 = nn.Conv2d(64, 64, 3)
        self.fc1 = nn.Linear(64 * rows * columns, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = convolved(pooled(pooled(x, self.conv1), self.conv2), self.conv3)
        return self.fc2(self.fc1(x.flatten(1)).relu())


class McMahanCNN(nn.Module):
    """The network of FedAvg's paper, which FedFomo names: two 5x5 convolutions of 32 and 64 kernels
    with padding, each followed by 2x2 max-pooling, then 512-classes with ReLU.

    1,663,370 parameters for 1x28x28 images and ten classes, as McMahan et al. (2016) count.  They
    name ReLU for the 512 units alone; here the convolutions have it too [our reading].
    """

    def __init__(self, shape: tuple[int, ...] = (1, 28, 28), classes: int = 10) -> None:
        super().__init__()
        rows, columns = (side // 2 // 2 for side in shape[1:])
        self.conv1 = nn.Conv2d(shape[0], 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * rows * columns, 512)
        self.fc2 = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.conv1(x), 2).relu()
        x = F.max_pool2d(self.conv2(x), 2).relu()
        return self.fc2(self.fc1(x.flatten(1)).relu())


class PFedLACNN(nn.Module):
    """pFedLA's network: convolutions of 16 and 32 kernels 5x5, each followed by 2x2 max-pooling,
    then 120-84-classes with ReLU.

    121,182 parameters for 3x32x32 images and ten classes, 128,832 for a hundred, 85,822 for
    1x28x28: pFedHN's `CNNTarget`, the one of the networks pFedLA names whose size gives the costs
    in its Table 3.  `norm` puts a BatchNorm after each convolution (96 parameters), as for CIFAR.
    """

    def __init__(
        self, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10, norm: bool = False
    ) -> None:
        super().__init__()
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
        self.conv1 = nn.Conv2d(shape[0], 16, 5)
        self.norm1 = nn.BatchNorm2d(16) if norm else nn.Identity()
        self.conv2 = nn.Conv2d(16, 32, 5)
        self.norm2 = nn.BatchNorm2d(32) if norm else nn.Identity()
        self.fc1 = nn.Linear(32 * rows * columns, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.norm1(self.conv1(x)), 2).relu()
        x = F.max_pool2d(self.norm2(self.conv2(x)), 2).relu().flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())
