"""One exception for everything a user can get wrong, and the sentence it is told in."""

from collections.abc import Iterable


class BadInput(ValueError):
    """A value the package cannot work with; the message names the value, what is allowed and what to do, in one line.

    The command line prints the message and exits with status 2; notebooks show the same single line instead of a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        # IPython calls this, where an exception has it, in place of its own traceback.
        return [f"BadInput: {self}"]


def choose(kind: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of `allowed`, else raise `BadInput` listing them ("distribution 'D' is not one of A, B, C")."""
    allowed = list(allowed)
    if value not in allowed:
        raise BadInput(f"{kind} {value!r} is not one of {', '.join(map(str, allowed))}")
    return value
