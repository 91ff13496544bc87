"""One exception for everything a user can get wrong, and the sentences that tell it."""

import dataclasses
import math
import os
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

LARGEST = 1e15  # no rate, penalty or step is greater; single precision overflows soon after
MOST_SEEDS = 10_000


class BadInput(ValueError):
    """A value the package cannot work with; the message names the value, what is allowed and what
    to do, in one line, which notebooks show instead of a traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # a frame's value has lines of its own

    def _render_traceback_(self) -> list[str]:
        # IPython calls this, where an exception has it, in place of its own traceback.
        return [f"BadInput: {self}"]


def choose(kind: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of `allowed`; else BadInput, with the name likely meant."""
    allowed = list(allowed)
    if not isinstance(value, Hashable) or value not in allowed:
        names = [str(name) for name in allowed]
        near = likely(value, names)
        meant = f" (did you mean {near}?)" if near else ""
        raise BadInput(f"{kind} {value!r}{meant} is not one of {', '.join(names)}")
    return value


def likely(value: object, names: Iterable[str], alike: float = 0.75) -> str:
    """The name nearest to `value`, if it is so much `alike` (1: equal); else ""."""
    if not isinstance(value, str):
        return ""
    small = {name.lower(): name for name in names}
    near = get_close_matches(value.lower(), small, 1, alike)
    return small[near[0]] if near else ""


def whole(name: str, value: object, least: int | None = None, most: int = 2**63 - 1) -> None:
    """BadInput unless `value` is a whole number from `least` (else `-most`) to `most`."""
    if not _is_whole(value) or (least is not None and value < least):
        or_more = "" if least is None else f", {least} or more"
        raise BadInput(f"{name} {value!r}: give a whole number{or_more}{_of_numpy(value, 'int')}")
    if abs(value) > most:
        size = " in size" * (value < 0)
        raise BadInput(f"{name} {value!r}: give a whole number of {most:,} at most{size}")


def number(name: str, value: object, wanted: str, fits: Callable[[float], bool]) -> None:
    """BadInput unless `value` is a number that `fits` ("lr 0: give ...", with what is `wanted`)."""
    try:
        good = isinstance(value, int | float) and not isinstance(value, bool) and fits(float(value))
    except OverflowError:  # a whole number beyond the largest float
        good = False
    if not good:
        raise BadInput(f"{name} {value!r}: give {wanted}{_of_numpy(value, 'float')}")
    if LARGEST < abs(value) < float("inf"):
        raise BadInput(f"{name} {value!r}: give {wanted}, of {LARGEST:g} at most")


def _of_numpy(value: object, kind: str) -> str:
    # NumPy's and torch's numbers have a shape without dimensions.
    return f" of Python's own: {kind}(...) makes one" if getattr(value, "shape", None) == () else ""


def flag(name: str, value: object) -> None:
    """BadInput unless the value is True or False."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} {value!r}: give True or False")


def check_settings(self: Any) -> None:
    """A dataclass's `__post_init__`, or its first line: checks each `setting`, inherited too."""
    kinds = [vars(kind).get("__dataclass_fields__", {}) for kind in reversed(type(self).__mro__)]
    checks = {n: one for of in kinds for n, one in of.items() if "check" in one.metadata}
    for name, field in checks.items():
        value = getattr(self, name)
        if value is not None or field.default is not None:
            check, limits = field.metadata["check"]
            check(name, value, *limits)


def setting(default: Any, check: Callable, *limits: Any) -> Any:
    """A field for `check_settings`: `check`, such as `whole`, is called with its name and value and
    these limits.  None is not checked where it is the default.
    """
    return dataclasses.field(default=default, metadata={"check": (check, limits)})


# What several settings are checked by
NOT_NEGATIVE = (number, "a number 0 or more", lambda v: 0 <= v < math.inf)
ABOVE_0 = (number, "a number above 0", lambda v: 0 < v < math.inf)
BELOW_1 = (number, "a number from 0 to below 1", lambda v: 0 <= v < 1)
A_STEP = (number, "a step of 0 or more", lambda v: 0 <= v < math.inf)
A_SHARE = (number, "a share from 0 to 1", lambda v: 0 <= v <= 1)
PART = (number, "a share between 0 and 1", lambda v: 0 < v < 1)


def path_of(name: str, value: object) -> Path:
    """`value` as a path; BadInput where it is none."""
    if not isinstance(value, str | os.PathLike) or "\0" in os.fspath(value):
        shown = textwrap.shorten(repr(value), 80, placeholder=" ...")  # a frame is a page long
        raise BadInput(f"{name} {shown}: give the path of a file or folder")
    return Path(value)


def check_alice(alice: object, clients: int, names: Sequence[str] = ()) -> int | None:
    """The client's number of an `alice` by number or name, None for None; else BadInput."""
    alice = client_number("alice", alice, names)
    if alice is None or (_is_whole(alice) and 0 <= alice < clients):
        return alice
    told = f": {', '.join(names[:12])}{', ...' * (len(names) > 12)}" if names else ""
    raise BadInput(f"alice {alice!r} is not one of the clients 0 to {clients - 1}{told}")


def client_number(what: str, client: object, names: Sequence[str]) -> object:
    """The number of a client given by name; BadInput for a number that is another one's name."""
    if getattr(client, "shape", None) == ():  # NumPy's or torch's
        client = client.item()
    if isinstance(client, str) and client in names:
        return names.index(client)
    if _is_whole(client) and str(client) in names and str(client) not in names[client:][:1]:
        told = f"clients have numbers for names: give the name as text, such as '{client}'"
        raise BadInput(f"{what} {client}: {told}")
    return client


@contextmanager
def needs(what: str, package: str) -> Iterator[None]:
    """BadInput, with how to install it, where `package` cannot be imported within."""
    try:
        yield
    except ImportError:
        raise BadInput(f"{what}, which is missing: pip install {package}") from None


def said(error: BaseException) -> str:
    """An error and where a user's own code raised it: "KeyError: 'w' (my.py, line 1)"."""
    line = f"{type(error).__name__}: {error}".splitlines()[0]
    others = (Path(__file__).parent, sysconfig.get_path("stdlib"))
    others = (*(f"{folder}{os.sep}" for folder in others), "<")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = frame.filename
        if not (path.startswith(others) or "site-packages" in path or "dist-packages" in path):
            name = "a cell" if "ipykernel" in path else Path(path).name
            return f"{line} ({name}, line {frame.lineno})"
    return line


def _is_whole(value: object) -> bool:
    # True is an int to Python; from a user it is a slip.
    return isinstance(value, int) and not isinstance(value, bool)
