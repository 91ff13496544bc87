"""A user's own methods, partitions and data: what is stored of them, what tells of a change."""

import argparse
import ast
import builtins
import contextlib
import dataclasses
import dis
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import runpy
import textwrap
import types
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfl_lib.errors import BadInput, said
from pfl_lib.federation.behaviour import bytes_of
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import check_method
from pfl_lib.progress import tell

OURS = ("builtins", "typing", "pfl_lib", "torch")  # packages whose source is not a user's
PLAIN = (bool, int, float, str, types.NoneType)
HOLDERS = (list, tuple, set, frozenset, dict)
NAMESPACES = (types.SimpleNamespace, argparse.Namespace)


def check(what: str, own: Any, taken: Collection[str]) -> None:
    """BadInput, with what is missing, unless a method or partition of a user's own says what its
    results can be stored under: a frozen dataclass with a `name` of its own, a whole number as
    `version`, and fields that are numbers, texts or tuples of them.

    `what` is "method" or "distribution"; `taken` holds the package's own names.
    """
    is_dataclass = dataclasses.is_dataclass(own)
    fields = [field.name for field in dataclasses.fields(own)] if is_dataclass else []
    odd = next((name for name in fields if not _is_plain(getattr(own, name, None))), None)
    why = None
    if not is_dataclass or not type(own).__dataclass_params__.frozen:
        why = "make it a frozen dataclass"
    elif not isinstance(getattr(own, "name", None), str) or not own.name.strip():
        why = "give it a name, a text"
    elif own.name in taken:
        why = f"{own.name!r} is a name of the package's: give it another"
    elif type(getattr(own, "version", None)) is not int:
        why = "give it version = 1, and raise that by hand when its results change"
    elif odd is not None:
        why = f"its field {odd!r} is no number, text or tuple of them (NumPy's need float or int)"
    if why:
        raise BadInput(f"{what} {own!r} cannot be stored: {why}")


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    try:
        return isinstance(value, PLAIN) and bool(json.dumps(value, allow_nan=False))
    except ValueError:  # infinity or NaN, which JSON does not have
        return False


def source_of(*kinds: type) -> str:
    """16 hex digits over the source of classes: functions and values (`_value`) of their own, of
    their parents outside this package, of their closures and of what they name in their modules.

    Comments, docstrings and layout do not count.  "" where the source of a function is not to be
    had, as of one that was typed into a bare interpreter; what other modules hold is not seen.
    """
    seen: dict[int, Any] = {}
    try:
        parts = [part for kind in kinds for part in _parts(kind, seen)]
    except OSError:
        names = ", ".join(kind.__name__ for kind in kinds)
        tell(f"the source of {names} cannot be read: a change under one version goes unnoticed")
        return ""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] if parts else ""


def _parts(thing: Any, seen: dict[int, Any]) -> Iterator[str]:
    """The source of a class or function and of what it names in its module."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    if isinstance(thing, type):
        for kind in thing.__mro__:
            if kind.__module__.split(".")[0] in OURS:
                continue
            settings = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
            for name, value in sorted(vars(kind).items()):
                if name in [setting.name for setting in settings]:
                    continue  # its default: the setting itself is in the key
                if _says_again(thing, kind, name, value):
                    continue  # a class that was pickled for another process may lack it
                if _is_plain(value) and not name.startswith("__"):
                    yield f"{name} = {value!r}"
                elif function := _function(value):
                    if not _generated(name, function):
                        yield from _parts(function, seen)
                elif not (isinstance(value, type) or (name[0] == "_" == name[-1])):
                    yield from _value(name, value, kind.__module__, seen)
        return
    module, decorated = thing.__module__, getattr(thing, "__wrapped__", None)
    if decorated is not None:
        yield from _parts(decorated, seen)
    if not isinstance(thing, types.FunctionType) or thing.__globals__.get("__name__") != module:
        return  # a wrapper by another module, such as functools.cache's and torch.no_grad's
    source = inspect.getsource(thing.__code__)
    yield _bare(source)
    for name, value in _defaults(thing, source):
        yield from _value(name, value, module, seen)
    for name in sorted(_names(thing.__code__)):
        if (value := thing.__globals__.get(name)) is not None:
            yield from _value(name, value, module, seen)
    for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
        if name != "__class__":  # which `super` asks for
            with contextlib.suppress(ValueError):  # not filled yet
                yield from _value(name, cell.cell_contents, module, seen)


def _defaults(function: types.FunctionType, source: str) -> Iterator[tuple[str, Any]]:
    """The arguments' defaults that name something: the source does not tell their values."""
    values = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    with contextlib.suppress(SyntaxError):  # a lambda in the middle of a line
        tree = ast.walk(ast.parse(textwrap.dedent(source)))
        made = next((n for n in tree if isinstance(n, ast.FunctionDef | ast.Lambda)), None)
        given = (*made.args.defaults, *made.args.kw_defaults) if made else ()
        told = [one for one in given if one is not None]
        for place, (default, value) in enumerate(zip(told, values, strict=False)):
            names = {n.id for n in ast.walk(default) if isinstance(n, ast.Name)}
            if names - vars(builtins).keys():
                yield f"default {place}", value


def _says_again(of: type, kind: type, name: str, value: Any) -> bool:
    """Whether `kind`, a class or its parent, gives a name what the class `of` has without it."""
    for parent in of.__mro__[of.__mro__.index(kind) + 1 :]:
        if name in vars(parent):
            held = vars(parent)[name]
            if _is_plain(held) and _is_plain(value):
                return repr(held) == repr(value)
            function = _function(value)
            same = function is not None and function is _function(held)
            return held is value or (same and type(held) is type(value))
    return False


def _value(name: str, value: Any, module: str, seen: dict[int, Any]) -> Iterator[str]:
    """What a name holds: a number or text, an array, tensor or frame, a class or function of the
    module, and what lists, tuples, sets, dicts, namespaces, dataclasses and `functools.partial`
    hold of them; nothing for anything else.
    """
    if _is_plain(value):
        yield f"{name} = {value!r}"
    elif isinstance(value, type) or _function(value):
        if value.__module__ == module:
            yield from _parts(value, seen)
    elif isinstance(value, Tensor | np.ndarray | np.generic):
        if (content := bytes_of(value)) is not None:
            digest = hashlib.sha256(content).hexdigest()
            yield f"{name} = {value.dtype} {tuple(value.shape)} {digest}"
    elif isinstance(value, functools.partial):
        yield from _value(name, [value.func, [*value.args], value.keywords], module, seen)
    elif isinstance(value, pd.DataFrame | pd.Series):
        with contextlib.suppress(TypeError):  # a frame of lists
            yield from _value(name, pd.util.hash_pandas_object(value).to_numpy(), module, seen)
    elif dataclasses.is_dataclass(value) or isinstance(value, NAMESPACES):
        yield from _value(name, vars(value), module, seen) if hasattr(value, "__dict__") else ()
    elif isinstance(value, HOLDERS) and id(value) not in seen:
        seen[id(value)] = value
        if isinstance(value, set | frozenset):
            yield from sorted(part for one in value for part in _value(name, one, module, seen))
        else:
            held = value.items() if isinstance(value, dict) else enumerate(value)
            plain = ((repr(k), one) for k, one in held if _is_plain(k))
            for key, one in sorted(plain, key=lambda pair: pair[0]):
                yield from _value(f"{name}[{key}]", one, module, seen)


def named(kind: type) -> dict[str, Any]:
    """What functions of a class, and those of its module that they name, name there and hold in
    their closures.
    """
    held: dict[str, Any] = {}
    waiting, seen = [value for one in kind.__mro__ for value in vars(one).values()], set()
    while waiting:
        function = inspect.unwrap(_function(waiting.pop()) or len)
        if id(function) in seen or (function.__module__ or "").split(".")[0] in OURS:
            continue  # `len` stands for what is no function
        seen.add(id(function))
        of, code = function.__globals__, function.__code__
        there = {name: of[name] for name in _names(code) if name in of}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not filled yet
                there[name] = cell.cell_contents
        held |= {f"{function.__qualname__}: {name}": value for name, value in there.items()}
        of_module = (
            getattr(value, "__module__", None) == function.__module__ for value in there.values()
        )
        waiting += itertools.compress(there.values(), of_module)
    return held


def _function(value: Any) -> Callable | None:
    """The function, decorated or not, of a class's member: a method, static or not, a property."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    value = getattr(value, "func", value) if isinstance(value, functools.cached_property) else value
    return value if isinstance(inspect.unwrap(value), types.FunctionType) else None


def _generated(name: str, function: types.FunctionType) -> bool:
    """Whether `dataclass` made it or, since 3.14, Python, from annotations."""
    made = name.startswith("__annotat") or function.__module__ == "dataclasses"
    code = inspect.unwrap(function).__code__
    return made or (name.startswith("__") and code.co_filename == "<string>")


@functools.cache
def _names(code: types.CodeType) -> set[str]:
    """What code reads from its module by name; an attribute of the same name is another thing."""
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    read = (one for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return {one.argval for one in read}.union(*map(_names, inner))


def _bare(source: str) -> str:
    """Source without comments, docstrings and layout."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:  # a lambda in the middle of a line
        return source
    for node in ast.walk(tree):
        match getattr(node, "body", None):
            case [ast.Expr(value=ast.Constant(value=str())), *others]:
                node.body = others or [ast.Pass()]
    return ast.unparse(tree)


def data_checksum(fed: Federation, *rows: Tensor) -> str:
    """16 hex digits over classes, shape, each client's examples and labels by split, and `rows`."""
    digest, cpu = hashlib.sha256(), torch.device("cpu")
    digest.update(f"{fed.clients.classes} {fed.clients.input_shape}\n".encode())
    for name, split in sorted(fed.clients.splits.items()):
        pool = split.pool
        if fed.dtype == torch.float64 and (pool.x.float().double() != pool.x.double()).any():
            pool = pool.to(cpu, fed.dtype)  # which tells apart what float32 rounds away
        black = pool.x.new_zeros(pool.x.shape[1:]) * pool.scale + pool.shift
        if fed.schedule.augment != "none" and black.any():  # with which it fills up
            digest.update(black.to(fed.dtype).cpu().contiguous().numpy().tobytes())
        for index, labels in zip(split.index, split.labels, strict=True):
            digest.update(f"{name} {len(index)}\n".encode())
            for part in (pool.inputs(index), labels):
                digest.update(part.cpu().contiguous().numpy().tobytes())
    for row in rows:
        digest.update(row.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def initial_checksum(fed: Federation) -> str:
    """16 hex digits over the model that every client starts from, in float32."""
    rows = [row.float().cpu().numpy().tobytes() for row in fed.initial().values()]
    return hashlib.sha256(b"".join(rows)).hexdigest()[:16]


def load(named: str) -> Any:
    """What "module:Name" or "path/to/file.py:Name" names, called without arguments where it is a
    class; a method of one's own for a table's page.

    Raises BadInput, one line, where there is no such file, module or name, or it fails.
    """
    place, _, name = named.rpartition(":") if isinstance(named, str) else ("", "", "")
    if not place or not name.isidentifier():
        raise BadInput(f"method {named!r}: give module:Class or path/to/file.py:Class")
    path = Path(place).expanduser().absolute()
    if place.endswith(".py") and not path.is_file():
        raise BadInput(f"method file {path} does not exist")
    try:
        if place.endswith(".py"):
            # Its module is in no list of modules afterwards: other processes get its classes whole.
            found = runpy.run_path(str(path), run_name=f"pfl_own_{path.stem}")
        else:
            found = vars(importlib.import_module(place))
        if name not in found:
            there = [n for n, v in found.items() if isinstance(v, type) and hasattr(v, "served")]
            words = f"; it has {', '.join(there)}" if there else ""
            raise BadInput(f"method {named!r}: {place} has no {name}{words}")
        return check_method(found[name]() if isinstance(found[name], type) else found[name])
    except BadInput:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a user's file does
        near = f" (did you mean {place}.py:{name}?)" if Path(f"{place}.py").is_file() else ""
        raise BadInput(f"method {named!r} cannot be loaded: {said(error)}{near}") from None


def absolute(named: str) -> str:
    """The same name for a notebook, which runs in another folder: a file with its whole path."""
    place, _, name = named.rpartition(":")
    return f"{Path(place).expanduser().absolute()}:{name}" if place.endswith(".py") else named
