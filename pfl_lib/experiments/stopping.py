"""Runs that end before their last round: out of time, or interrupted."""

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

RESUMES = "finished runs and checkpoints are kept, the same command goes on from there"


@dataclass(frozen=True)
class Stop:
    """When runs stop by themselves, each after a round and with a checkpoint (`time.time()`)."""

    at: float = math.inf

    def now(self) -> bool:
        return time.time() >= self.at


NEVER = Stop()


class Stopped(Exception):
    """A run stopped before its end, as its `Stop` asked; its checkpoint is saved."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM while runs were trained; notebooks and scripts show its one line instead of
    a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def interrupted(words: str) -> Interrupted:
    """What to raise for Ctrl-C; a script that does not catch it ends with these words alone."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _one_line
    return Interrupted(words)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within, SIGTERM interrupts as Ctrl-C does, unless it has a handler already, and both become
    `Interrupted`.
    """
    in_main = threading.current_thread() is threading.main_thread()  # signals reach no other
    taken = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if taken:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise interrupted(f"interrupted: {RESUMES}") from None
    finally:
        if taken:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _one_line(kind, error, trace) -> None:
    """What Python calls for an exception that nobody caught, just before it ends."""
    if issubclass(kind, Interrupted):
        print(f"\n{error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
