"""Progress for whoever reads it: a bar in a terminal or a notebook, a line now and then in a log,
nothing in a page.

A bar's refreshes would each end up as a line in a file, and any line at all in the page of a
notebook that is executed in batch.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS_BETWEEN_LINES = 30.0


class Bar(Protocol):
    """What every kind of progress offers: `update(n)` moves on by n steps, `label(text)` says
    something else before them, `say(line)` prints a line without breaking a bar.
    """

    def update(self, n: int = 1) -> None: ...

    def label(self, text: str) -> None: ...

    def say(self, line: str) -> None: ...


def headless() -> bool:
    """Whether output is being kept for a page (PFL_HEADLESS=1), so that bars and widgets have to
    stay away.
    """
    return os.environ.get("PFL_HEADLESS", "") not in ("", "0")


@contextmanager
def progress(total: int, label: str, unit: str, shown: bool = True) -> Iterator[Bar]:
    """Show progress over `total` steps; use as `with progress(10, "training", "run") as bar:
    bar.update()`.
    """
    if headless() or not shown:
        yield _Silent()
    elif not _watched():
        yield _Lines(total, label, unit)
    else:
        from tqdm.auto import tqdm

        # What ends within a second shows no bar: JupyterLab keeps one that is closed while it is
        # being drawn.
        shown = {"leave": False, "dynamic_ncols": True, "delay": 1}
        with tqdm(total=total, desc=label, unit=unit, **shown) as bar:
            yield _Shown(bar)


class _Silent:
    def update(self, n: int = 1) -> None:
        pass

    def label(self, text: str) -> None:
        pass

    def say(self, line: str) -> None:
        print(line, flush=True)


class _Lines(_Silent):
    def __init__(self, total: int, label: str, unit: str) -> None:
        self._steps, self._label = 0, label
        self._of = f"of {total} {unit}{'' if total == 1 else 's'}"
        self._began = self._said = time.monotonic()

    def update(self, n: int = 1) -> None:
        self._steps += n
        now = time.monotonic()
        if now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            print(
                f"{self._label}: {self._steps} {self._of} after {now - self._began:,.0f} s",
                file=sys.stderr,
                flush=True,
            )

    def label(self, text: str) -> None:
        self._label = text


class _Shown:
    def __init__(self, bar) -> None:
        self._bar = bar

    def update(self, n: int = 1) -> None:
        self._bar.update(n)

    def label(self, text: str) -> None:
        self._bar.set_description(text, refresh=False)

    def say(self, line: str) -> None:
        self._bar.write(line)


def _watched() -> bool:
    """True in a terminal and in a notebook."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()
