"""Runs that end before their last round: out of time, or interrupted."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

RESUMES = "finished runs and checkpoints are kept, the same command goes on from there"


class Stopped(Exception):
    """A run stopped before its end, since its time was up; its checkpoint is saved."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM while runs were trained; its one line is shown, not a traceback."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = _one_line

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM interrupts as Ctrl-C does, unless it has a handler; both become `Interrupted`."""
    in_main = threading.current_thread() is threading.main_thread()  # signals reach no other
    taken = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if taken:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {RESUMES}") from None
    finally:
        if taken:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _one_line(kind, error, trace) -> None:
    """What Python calls for an exception that nobody caught, just before it ends."""
    if issubclass(kind, Interrupted):
        print(f"\n{error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
