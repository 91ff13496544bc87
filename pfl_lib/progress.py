"""Progress: a bar in a terminal or a notebook, a line now and then in a log, nothing in a page."""

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm


def headless() -> bool:
    """Whether output is kept for a page (PFL_HEADLESS=1): without bars and widgets."""
    return os.environ.get("PFL_HEADLESS", "") not in ("", "0")


@functools.cache
def tell(line: str) -> None:
    """Print a line, the first time that this process has it to say: on standard error, which a
    notebook shows in red, and there on standard output.
    """
    print(line, file=sys.stdout if _in_notebook() else sys.stderr)


@contextmanager
def progress(total: int, label: str, unit: str) -> Iterator[tqdm]:
    """Show progress over `total` steps by tqdm's bar, which says how many are done in `n`."""
    asked = {"total": total, "desc": label, "unit": unit}
    if headless():
        with open(os.devnull, "w") as nowhere, tqdm(**asked, file=nowhere) as bar:
            yield bar
    elif not _in_notebook():
        line = "{desc}: {n} of {total} {unit}s after {elapsed}\n"
        now_and_then = {"delay": 5, "mininterval": 30, "bar_format": line}
        how = {"dynamic_ncols": True} if _watched() else now_and_then
        with tqdm(**asked, leave=False, **how) as bar:
            yield bar
    else:
        from IPython.display import display
        from tqdm.notebook import tqdm as notebook_tqdm

        with notebook_tqdm(**asked, display=False) as bar:
            place = display(bar.container, display_id=True)
            try:
                yield bar
            finally:  # a notebook that is kept would show an error in place of a widget
                place.update({"text/html": "", "text/plain": ""}, raw=True)


def reach(bar: tqdm, steps: int) -> None:
    """Move on to so many steps: an interrupted run does not begin with the first."""
    bar.update(steps - bar.n)


def _in_notebook() -> bool:
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


def _watched() -> bool:
    """Whether standard error is a terminal that has a width."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):
        return False
