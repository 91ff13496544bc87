"""Progress: a bar in a terminal or a notebook, a line now and then in a log, nothing in a page."""

import functools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

SECONDS_BEFORE_FIRST_LINE = 5.0
SECONDS_BETWEEN_LINES = 30.0


def headless() -> bool:
    """Whether output is kept for a page (PFL_HEADLESS=1): without bars and widgets."""
    return os.environ.get("PFL_HEADLESS", "") not in ("", "0")


@functools.cache
def tell(line: str) -> None:
    """Print a line once a process: on stderr; in notebooks, where that is red, on stdout."""
    print(line, file=sys.stdout if _in_notebook() else sys.stderr)


@contextmanager
def progress(total: int, label: str, unit: str) -> Iterator["Bar"]:
    """Show progress over `total` steps, by the `Bar` that is given."""
    if headless():
        yield Bar()
    elif _in_notebook() and find_spec("ipywidgets"):
        from IPython.display import display
        from tqdm.notebook import tqdm

        with tqdm(total=total, desc=label, unit=unit, display=False) as bar:
            place = display(bar.container, display_id=True)
            try:
                yield _Shown(bar)
            finally:  # a notebook that is kept would show an error in place of a widget
                place.update({"text/html": "", "text/plain": ""}, raw=True)
    elif _in_notebook() or _watched():
        from tqdm import tqdm

        with tqdm(total=total, desc=label, unit=unit, leave=False, dynamic_ncols=True) as bar:
            yield _Shown(bar)
    else:
        yield _Lines(total, label, unit)


class Bar:
    """What every kind of progress offers; this one shows nothing but what is said."""

    steps = 0

    def reach(self, steps: int) -> None:
        """Move on to so many steps: an interrupted run does not begin with the first."""
        self.update(steps - self.steps)

    def update(self, n: int = 1) -> None:
        """Move on by n steps."""
        self.steps += n

    def label(self, text: str) -> None:
        """Show another text before the steps."""

    def say(self, line: str) -> None:
        """Print a line without breaking a bar."""
        print(line, flush=True)


class _Lines(Bar):
    def __init__(self, total: int, label: str, unit: str) -> None:
        self._label = label
        self._of = f"of {total} {unit}{'' if total == 1 else 's'}"
        self._began = time.monotonic()
        self._next = self._began + SECONDS_BEFORE_FIRST_LINE

    def update(self, n: int = 1) -> None:
        super().update(n)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SECONDS_BETWEEN_LINES
            told = f"{self._label}: {self.steps} {self._of} after {now - self._began:,.0f} s"
            print(told, file=sys.stderr, flush=True)

    def label(self, text: str) -> None:
        self._label = text


class _Shown(Bar):
    def __init__(self, bar) -> None:
        self._bar = bar

    def update(self, n: int = 1) -> None:
        super().update(n)
        self._bar.update(n)

    def label(self, text: str) -> None:
        self._bar.set_description(text, refresh=False)

    def say(self, line: str) -> None:
        self._bar.write(line)


def _in_notebook() -> bool:
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


def _watched() -> bool:
    """True in a terminal that has a width."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):
        return False
