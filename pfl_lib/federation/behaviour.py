"""What a network does, as a part of its runs' key: no list of what it is made of can be whole."""

import copy
import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pfl_lib.federation.clients import Split
from pfl_lib.randomness import generator

PROBED = 8  # training examples
DIGITS = {torch.float64: 6, torch.float32: 3}  # that no machine's rounding changes


def behaviour_of(module: nn.Module, split: Split) -> str:
    """16 hex digits over scores and gradients of a network on some training examples, in which all
    that it holds shows: settings, functions, masks, hooks; "" for one that does not run on a CPU.

    In double precision, in single where the network takes no other.
    """
    every = torch.cat(split.index)
    index = every[:: max(1, len(every) // PROBED)][:PROBED]
    for dtype, digits in DIGITS.items():
        x = split.pool.to(torch.device("cpu"), dtype).inputs(index).contiguous()
        try:
            numbers = [*_probe(copy.deepcopy(module).to("cpu", dtype), x)]
        except (RuntimeError, ValueError, TypeError, IndexError):
            continue
        least = max(map(abs, numbers)) * 10.0 ** (-2 * digits)  # below it is nothing but rounding
        words = [f"{one if abs(one) > least else 0.0:.{digits - 1}e}" for one in numbers]
        return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    return ""


def _probe(network: nn.Module, x: Tensor) -> Iterator[float]:
    """Numbers that hang on all that the network computes: what it gives in training and after it,
    and each parameter's gradient, at some distance from its initial model, which may be zeros.
    """
    draw, parameters = generator(0, "behaviour"), [*network.parameters()]

    def drawn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=draw, dtype=torch.float64).to(like)

    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(parameter.round(decimals=3) + 0.1 * drawn(parameter))
    scores = network.train()(x)
    weights = drawn(scores)
    yield (of_training := (weights * scores).sum()).item()
    yield (weights * network.eval()(x)).sum().item()
    for gradient in torch.autograd.grad(of_training, parameters, allow_unused=True):
        yield 0.0 if gradient is None else gradient.norm().item()
