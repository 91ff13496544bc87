"""The papers' networks, as ordinary modules.

Any `nn.Module` that maps inputs [b, ...] to logits [b, classes] takes part in a federation; these
are the ones that a paper's tables need, by name.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from pfl_lib.errors import BadInput, choose
from pfl_lib.models import linear
from pfl_lib.models.cnn import LeNet5, McMahanCNN, PFedLACNN, TFConvNet
from pfl_lib.models.dla import DLA

Build = Callable[[tuple[int, ...], int], nn.Module]
"""The shape of an input, without the batch, and the number of classes to a new module."""


def _images(
    name: str, make: Build, least: int = 1, multiple: int = 1, only: tuple[int, ...] | None = None
) -> Build:
    """Build a network for images of at least so many pixels a side, a multiple of `multiple`, or of
    the shape `only`; BadInput for any other input.
    """
    asked = f"images of {least}x{least} pixels or more"
    asked += f", in multiples of {multiple}" if multiple > 1 else ""
    asked = asked if only is None else f"{'x'.join(map(str, only))} images"

    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        fits = len(shape) == 3 and all(side >= least and side % multiple == 0 for side in shape[1:])
        if not fits or only not in (None, tuple(shape)):
            other = "another model, such as linear" if len(shape) == 3 else "model linear"
            given = "x".join(map(str, shape))
            raise BadInput(f"model {name} takes {asked}, not {given}; choose {other}")
        return make(tuple(shape), classes)

    return build


GREY = (1, 28, 28)

MODELS: dict[str, Build] = {
    "lenet5": _images("lenet5", lambda _, classes: LeNet5(classes), only=GREY),
    "lenet5-relu": _images("lenet5-relu", lambda _, classes: LeNet5(classes, "relu"), only=GREY),
    "lenet5-relu-groupnorm": _images(
        "lenet5-relu-groupnorm", lambda _, classes: LeNet5(classes, "relu", norm=True), only=GREY
    ),
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
"""Part of a result's key: raised by hand when a named network changes; 1 where not named."""

WITH_STATISTICS = frozenset({"pfedla_cnn-norm", "dla"})
"""The networks with BatchNorm's running statistics."""


def build(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A new module of the named architecture for inputs of `shape`, without the batch; its values
    are drawn in single precision, whatever torch's default is.
    """
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        return MODELS[choose("model", name, MODELS)](shape, classes)
    finally:
        torch.set_default_dtype(usual)


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
