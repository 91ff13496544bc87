"""The papers' networks, as ordinary modules.

Any `nn.Module` that maps inputs [b, ...] to logits [b, classes] takes part in a federation; these
are the ones that a paper's tables need, by name.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from pfl_lib.errors import BadInput, choose
from pfl_lib.models import linear
from pfl_lib.models.cnn import LeNet5, LeNet5GroupNorm, McMahanCNN, PFedLACNN, TFConvNet
from pfl_lib.models.dla import DLA


def _images(
    name: str, make: Callable[[tuple[int, ...], int], nn.Module], least: int, multiple: int = 1
):
    """Build a network for images of at least so many pixels a side, a multiple of `multiple`;
    BadInput for any other input.
    """

    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        if len(shape) != 3 or min(shape[1:]) < least or any(side % multiple for side in shape[1:]):
            asked = f"{least}x{least} pixels or more" + (
                f", in multiples of {multiple}" if multiple > 1 else ""
            )
            raise BadInput(
                f"model {name} takes images of {asked}, not {'x'.join(map(str, shape))}; choose"
                f" {_fitting(shape)}"
            )
        return make(tuple(shape), classes)

    return build


def _fitting(shape: tuple[int, ...]) -> str:
    return "model linear" if len(shape) != 3 else "another model, such as linear"


def _lenet5(make: Callable[[int], nn.Module]) -> Callable[[tuple[int, ...], int], nn.Module]:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        if tuple(shape) != (1, 28, 28):
            raise BadInput(
                f"model lenet5 takes 1x28x28 images, not {'x'.join(map(str, shape))}; choose"
                f" {_fitting(shape)}"
            )
        return make(classes)

    return build


MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "lenet5": _lenet5(functools.partial(LeNet5, activation="tanh")),
    "lenet5-relu": _lenet5(functools.partial(LeNet5, activation="relu")),
    "lenet5-relu-groupnorm": _lenet5(LeNet5GroupNorm),
    "tf_cnn": _images("tf_cnn", TFConvNet, least=18),
    "mcmahan_cnn": _images("mcmahan_cnn", McMahanCNN, least=4),
    "pfedla_cnn": _images("pfedla_cnn", PFedLACNN, least=16),
    "pfedla_cnn-norm": _images(
        "pfedla_cnn-norm", functools.partial(PFedLACNN, norm=True), least=16
    ),
    "dla": _images("dla", lambda shape, classes: DLA(classes, shape[0]), least=8, multiple=8),
    "linear": functools.partial(linear.build, start="haiku"),
    "linear-zero": functools.partial(linear.build, start="zero"),
    "linear-authors": functools.partial(linear.build, start="authors"),
}

VERSIONS: dict[str, int] = {}
"""Part of a result's key: raised by hand when a named network, or what it starts from, changes; 1
where not named.
"""

WITH_STATISTICS = frozenset({"pfedla_cnn-norm", "dla"})
"""The networks with BatchNorm's running statistics."""


def build(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A new module of the named architecture for inputs of `shape` (without the batch) and so many
    classes.
    """
    return MODELS[choose("model", name, MODELS)](shape, classes)


@dataclass(frozen=True)
class Architecture:
    """A named network for inputs of one shape, as a function that makes it.

    Two that are equal make networks of the same code and settings, so a federation may record what
    it learns about one for the other (`engine.recording`).
    """

    name: str
    shape: tuple[int, ...]
    classes: int

    def __call__(self) -> nn.Module:
        return build(self.name, self.shape, self.classes)
