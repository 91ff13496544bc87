"""A cure for a torchvision built for CUDA beside a torch built for the CPU, which pip may install.

Such a torchvision cannot load its compiled operators, and its import stops where it describes two
of them to torch.  Nothing here uses them (they detect objects), so it is enough to declare them.
"""

import functools
import importlib
import sys
from types import ModuleType

import torch

from pfl_lib.errors import BadInput

OPERATORS = ("nms", "qnms")


def import_torchvision() -> ModuleType:
    """The module torchvision, its operators declared if need be; BadInput if not installed."""
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        if error.name != "torchvision":
            raise
        why = "torchvision, which reads and downloads the pictures, is not installed"
        raise BadInput(f"{why}: pip install torchvision") from None
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    declared_operators()
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # what the failed import left behind
    return importlib.import_module("torchvision")


# Declarations last as long as the library object, and can be made only once per process
@functools.cache
def declared_operators() -> torch.library.Library:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
