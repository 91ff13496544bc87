"""Logistic regression, the model of Weight Erosion's Titanic: a linear map to a score per class.

The log-softmax belongs to the loss.  What differs is where training starts: at a random draw as
Haiku makes it, at zero, or at the very draw of the authors' published runs.
"""

import math
from collections import OrderedDict

import torch
from torch import nn

from pfl_lib.errors import BadInput

TWO_DEVIATIONS = math.erf(math.sqrt(2))

# The authors' initial weights, [input, class]: Haiku's truncated normal with standard deviation 1/3
# from JAX's key 278, the seed under Figure 1; a test draws them again from the key.  With them the
# weights of WE follow the authors' printed traces to every digit.  Biases start at 0.
AUTHORS = (
    (-0.01799530, -0.62274741),
    (-0.18674023, 0.06159120),
    (0.24632696, -0.22639026),
    (-0.22034256, 0.30453912),
    (0.18070425, 0.16771396),
    (-0.39738101, 0.13451590),
    (0.30105599, -0.34876359),
    (0.04808485, 0.05775246),
    (-0.42057479, -0.39900079),
)


def build(shape: tuple[int, ...], classes: int, start: str) -> nn.Module:
    """A linear module for flattened inputs, with `linear.weight` [classes, inputs], `linear.bias`.

    `start`: "haiku" draws weights from a normal distribution of standard deviation 1 /
    sqrt(inputs), cut at two of them; "zero" and "authors" draw nothing.  The bias is 0 in every
    case.  Raises `BadInput` where the authors' 9 inputs and 2 classes do not fit.
    """
    inputs = math.prod(shape)
    linear = nn.Linear(inputs, classes)
    if start == "authors" and linear.weight.shape != (2, 9):
        why = "model linear-authors has the Titanic's 9 inputs and 2 classes"
        raise BadInput(f"{why}, not {inputs} and {classes}: choose model linear or linear-zero")
    with torch.no_grad():
        linear.bias.zero_()
        if start == "zero":
            linear.weight.zero_()
        elif start == "authors":
            linear.weight.copy_(torch.tensor(AUTHORS).T)
        else:
            # As JAX, by the inverse distribution function; torch's trunc_normal_ has changed.
            uniform = 2 * torch.rand_like(linear.weight) - 1
            linear.weight.copy_(torch.erfinv(TWO_DEVIATIONS * uniform) * math.sqrt(2 / inputs))
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=linear))
