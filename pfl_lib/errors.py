"""One exception for everything a user can get wrong, and the sentences that tell it."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches


class BadInput(ValueError):
    """A value the package cannot work with; the message names the value, what is allowed and what
    to do, in one line, which notebooks show instead of a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        # IPython calls this, where an exception has it, in place of its own traceback.
        return [f"BadInput: {self}"]


def choose(kind: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of `allowed`; else BadInput, with the name likely meant."""
    allowed = list(allowed)
    if value not in allowed:
        names = [str(name) for name in allowed]
        near = likely(value, names)
        meant = f": did you mean {near}?" if near else ""
        raise BadInput(f"{kind} {value!r} is not one of {', '.join(names)}{meant}")
    return value


def likely(value: object, names: Iterable[str], alike: float = 0.75) -> str:
    """The name nearest to `value`, if it is so much `alike` (1: equal); else ""."""
    if not isinstance(value, str):
        return ""
    small = {name.lower(): name for name in names}
    near = get_close_matches(value.lower(), small, 1, alike)
    return small[near[0]] if near else ""


def whole(name: str, value: object, least: int | None = None) -> None:
    """BadInput unless `value` is a whole number, `least` or more."""
    if not _is_whole(value) or (least is not None and value < least):
        or_more = "" if least is None else f", {least} or more"
        raise BadInput(f"{name} {value!r}: give a whole number{or_more}")


def number(name: str, value: object, wanted: str, fits: Callable[[float], bool]) -> None:
    """BadInput unless `value` is a number that `fits` ("lr 0: give ...", with what is `wanted`)."""
    try:
        good = isinstance(value, int | float) and not isinstance(value, bool) and fits(float(value))
    except OverflowError:  # a whole number beyond the largest float
        good = False
    if not good:
        raise BadInput(f"{name} {value!r}: give {wanted}")


def check_alice(alice: object, clients: int) -> None:
    """BadInput unless `alice` is None or the number of one of so many clients."""
    if alice is not None and not (_is_whole(alice) and 0 <= alice < clients):
        raise BadInput(f"alice {alice!r} is not one of the clients 0 to {clients - 1}")


def _is_whole(value: object) -> bool:
    # True is an int to Python; from a user it is a slip.
    return isinstance(value, int) and not isinstance(value, bool)
