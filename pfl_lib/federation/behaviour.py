"""What a network does, as a part of its runs' key: no list of what it is made of can be whole."""

import copy
import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pfl_lib.federation.clients import Split
from pfl_lib.randomness import generator

PROBED = 256  # training examples; 8 where a network has a million parameters or more
DIGITS = {torch.float64: 6, torch.float32: 3}  # that no machine's rounding changes


def behaviour_of(module: nn.Module, split: Split, small: bool) -> str:
    """16 hex digits over scores and gradients of a network on some training examples and their
    labels; "" for one that does not run on a CPU.

    In double precision, in single where the network takes no other; on two examples where it takes
    no more.
    """
    every, labels = torch.cat(split.index), torch.cat(split.labels)
    some = slice(None, None, -(-len(every) // (PROBED if small else 8)))
    for place, dtype in ((p, d) for p in (some, slice(2)) for d in DIGITS):
        x = split.pool.to(torch.device("cpu"), dtype).inputs(every[place]).contiguous()
        try:
            numbers = [*_probe(copy.deepcopy(module).to("cpu", dtype), x, labels[place])]
        except Exception:  # noqa: BLE001  whatever a user's network does
            continue
        return hashlib.sha256(_words(numbers, DIGITS[dtype]).encode()).hexdigest()[:16]
    return ""


def _words(numbers: list[float], digits: int) -> str:
    """Numbers to so many digits; what is only rounding beside the largest one is 0."""
    finite = [abs(one) for one in numbers if abs(one) < torch.inf]
    least = max(finite, default=0.0) * 10.0 ** (-2 * digits)
    return " ".join(f"{0.0 if abs(one) <= least else one:.{digits - 1}e}" for one in numbers)


def _probe(network: nn.Module, x: Tensor, labels: Tensor) -> Iterator[float]:
    """Numbers that hang on all that the network computes: what it gives in training and after it,
    and each parameter's gradient.  Parameters are of their initial size and sign, where they have
    one sign, and not 0.
    """
    draw, parameters = generator(0, "behaviour"), [*network.parameters()]

    def drawn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=draw, dtype=torch.float64).to(like)

    with torch.no_grad():
        for parameter in parameters:
            size = float(f"{parameter.abs().mean().item():.2e}") or 0.1
            of_one_sign = (parameter > 0).all() or (parameter < 0).all()
            moved = parameter.sign() * (1 + 0.1 * drawn(parameter)) if of_one_sign else None
            parameter.copy_(size * (drawn(parameter) if moved is None else moved))
    scores = network.train()(x)
    weights = drawn(scores)
    told = (weights * scores).sum() + scores.gather(1, labels[:, None]).sum()
    yield told.item()
    yield (weights * network.eval()(x)).sum().item()
    for gradient in torch.autograd.grad(told, parameters, allow_unused=True):
        yield 0.0 if gradient is None else (drawn(gradient) * gradient).sum().item()
