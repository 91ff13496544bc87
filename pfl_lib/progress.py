"""Progress that a person watches, and silence where nobody does.

A bar in a terminal or in JupyterLab; no bar at all where the output is kept (notebooks executed in batch, continuous integration, logs), because a
bar's refreshes would end up in the page.  There one line goes to the log instead.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

log = logging.getLogger("pfl_lib")


class Bar(Protocol):
    """What both kinds of progress offer: `update(n)` moves on by n steps, `say(line)` prints a line without breaking the bar."""

    def update(self, n: int = 1) -> None: ...

    def say(self, line: str) -> None: ...


def headless() -> bool:
    """Whether output is being kept for a page (PFL_HEADLESS=1), so that bars and widgets have to stay away."""
    return os.environ.get("PFL_HEADLESS", "") not in ("", "0")


@contextmanager
def progress(total: int, label: str, unit: str = "it") -> Iterator[Bar]:
    """Show progress over `total` steps; use as `with progress(10, "training", "cell") as bar: bar.update()`."""
    started = time.monotonic()
    if headless() or not _watched():
        bar = _Silent()
        yield bar
        log.info("%s: %d of %d %s in %.1f s", label, bar.steps, total, unit, time.monotonic() - started)
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc=label, unit=unit, leave=False, dynamic_ncols=True) as shown:
        yield _Shown(shown)


class _Silent:
    def __init__(self) -> None:
        self.steps = 0

    def update(self, n: int = 1) -> None:
        self.steps += n

    def say(self, line: str) -> None:
        print(line, flush=True)


class _Shown:
    def __init__(self, bar) -> None:
        self._bar = bar

    def update(self, n: int = 1) -> None:
        self._bar.update(n)

    def say(self, line: str) -> None:
        self._bar.write(line)


def _watched() -> bool:
    """True in a terminal and in a notebook; a file or a pipe would keep every refresh of a bar as a line."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()
