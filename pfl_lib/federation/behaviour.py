"""What a network does, and what its parts are set to beside their tensors, such as a scale or an
activation, as a part of its runs' key: no list of what it is made of can be whole.
"""

import copy
import dataclasses
import functools
import hashlib
from collections.abc import Iterator
from types import CodeType
from typing import Any

import numpy as np
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
            with torch.enable_grad():
                numbers = [*_probe(copy.deepcopy(module).to("cpu", dtype), x, labels[place])]
        except Exception:  # noqa: BLE001  whatever a user's network does
            continue
        return _digest(_words(numbers, DIGITS[dtype]).encode())
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


def settings_of(module: nn.Module) -> str:
    """16 hex digits over the attributes of a network's parts, "" where there are none.

    Numbers, texts, functions and classes by name, lambdas by their code, arrays and tensors count,
    and what lists, tuples, dicts, dataclasses and partials hold of them; other objects do not.  Of
    torch's own parts only those count that print nothing of themselves.
    """
    told, of_every_module = [], vars(nn.Module()).keys()
    for place, part in module.named_modules():
        of_torch = type(part).__module__.startswith("torch.")
        if of_torch and type(part).extra_repr is not nn.Module.extra_repr:
            continue
        for name in sorted(vars(part).keys() - of_every_module):
            if words := "" if of_torch and name.startswith("_") else _told(vars(part)[name], ()):
                told.append(f"{place}.{name} = {words}")
    return _digest("\n".join(told).encode()) if told else ""


def _told(value: Any, within: tuple[int, ...]) -> str:
    """A value in words, the same in every process; "" for what has none or is `within` itself."""
    if isinstance(value, bool | int | float | str | None):
        return repr(value)
    if isinstance(value, nn.Parameter | nn.Module) or id(value) in within:
        return ""  # in the model's row, or a part
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if (content := bytes_of(value)) is None:
            return ""
        shape = [*value.shape] if isinstance(value, Tensor) else value.shape
        return f"{value.dtype} {shape} {_digest(content)}"
    held = _held(value)
    if held is not None:
        words = [_told(one, (*within, id(value))) for one in held]
        return f"{type(value).__name__} [{', '.join(words)}]" if any(words) else ""
    name = getattr(value, "__qualname__", "") if callable(value) else ""
    code = getattr(value, "__code__", None) if "<lambda>" in name else None
    return f"{value.__module__}.{name} {_of_code(code) if code else ''}" if name else ""


def _held(value: Any) -> list[Any] | None:
    """What a container holds, in the same order in every process; None for what is none."""
    if isinstance(value, list | tuple):
        return [*value]
    if isinstance(value, dict):
        plain = [key for key in value if isinstance(key, bool | int | float | str | None)]
        return [part for key in sorted(plain, key=repr) for part in (key, value[key])]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return None


def _of_code(code: CodeType) -> str:
    """Bytes, names and constants; a set's are sorted: their order is another in every process."""
    consts = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in code.co_consts]
    words = (_of_code(c) if isinstance(c, CodeType) else repr(c) for c in consts)
    return f"{code.co_code!r} {code.co_names} {', '.join(words)}"


def bytes_of(value: Tensor | np.ndarray | np.generic) -> bytes | None:
    """Its numbers' bytes; None where it has none: a sparse tensor, one on meta, objects."""
    if not isinstance(value, Tensor):
        return None if value.dtype.hasobject else value.tobytes()
    try:
        flat = value.detach().cpu().resolve_conj().reshape(-1).contiguous()
        return flat.view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError):
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
