"""What a network is beside its tensors and parts: a constructor's scale, an activation, a mask."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn


def settings_of(module: nn.Module) -> str:
    """16 hex digits over the attributes of a network's parts, "" where there are none.

    Numbers, texts, functions and classes by name, arrays and tensors, and lists, tuples, dicts,
    dataclasses and partials of them count; of torch's own parts only what their `repr` leaves out.
    """
    told, of_every_module = [], vars(nn.Module()).keys()
    for place, part in module.named_modules():
        of_torch = type(part).__module__.startswith("torch.")
        if of_torch and type(part).extra_repr is not nn.Module.extra_repr:
            continue
        for name in sorted(vars(part).keys() - of_every_module):
            if words := "" if of_torch and name.startswith("_") else _told(vars(part)[name]):
                told.append(f"{place}.{name} = {words}")
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16] if told else ""


def _told(value: Any) -> str:
    """A value in words that are the same in every process; "" for what has none."""
    if isinstance(value, bool | int | float | str | None):
        return repr(value)
    if isinstance(value, nn.Parameter | nn.Module):
        return ""  # in the model's row, or a part
    if isinstance(value, torch.Tensor):
        return _told(value.detach().cpu().numpy()) if value.layout == torch.strided else ""
    if isinstance(value, np.ndarray | np.generic):
        return "" if value.dtype.hasobject else f"{value.dtype} {value.shape} {value.tobytes()!r}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(words)}]" if any(words := [_told(one) for one in value]) else ""
    if isinstance(value, dict):
        return _told([part for key in sorted(value, key=repr) for part in (repr(key), value[key])])
    if isinstance(value, functools.partial):
        return _told([value.func, *value.args, value.keywords])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _told(
            [type(value), {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}]
        )
    return _of_function(value) if callable(value) else ""


def _of_function(value: Callable) -> str:
    name = getattr(value, "__qualname__", "")
    code = getattr(value, "__code__", None) if "<lambda>" in name else None
    written = f" {code.co_code!r} {code.co_consts!r} {code.co_names!r}" if code else ""
    return f"{value.__module__}.{name}{written}" if name else ""
