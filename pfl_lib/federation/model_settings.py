"""What a network is beside its tensors and parts: a constructor's scale, an activation, a mask."""

import dataclasses
import functools
import hashlib
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import nn


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
    if isinstance(value, torch.Tensor):
        try:
            flat = value.detach().cpu().resolve_conj().reshape(-1).contiguous()
            return f"{value.dtype} {[*value.shape]} {_digest(flat.view(torch.uint8).numpy())}"
        except (RuntimeError, TypeError):  # without bytes: a sparse one, one on meta
            return ""
    if isinstance(value, np.ndarray | np.generic):
        plain = not value.dtype.hasobject
        return f"{value.dtype} {value.shape} {_digest(value.tobytes())}" if plain else ""
    held = _held(value)
    if held is not None:
        words = [_told(one, (*within, id(value))) for one in held]
        return f"{type(value).__name__} [{', '.join(words)}]" if any(words) else ""
    name = getattr(value, "__qualname__", "") if callable(value) else ""
    code = getattr(value, "__code__", None) if "<lambda>" in name else None
    return f"{value.__module__}.{name} {_of_code(code) if code else ''}" if name else ""


def _held(value: Any) -> list[Any] | None:
    """What a container holds, in an order of its own; None for what is none."""
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
    consts = (_of_code(c) if isinstance(c, CodeType) else _sorted(c) for c in code.co_consts)
    return f"{code.co_code!r} {code.co_names} {', '.join(consts)}"


def _sorted(constant: Any) -> str:
    """A constant's `repr`; of a set, whose order is another in every process, the sorted parts."""
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _digest(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
