"""Progress of many runs by rounds, also of those that train in other processes."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.progress import Bar, headless, progress


class Rounds:
    """One bar over the rounds of all runs.

    Each run writes how many it has finished to its place in one small file, `path`; where there is
    none, or it cannot be written or read, a run counts when it has ended.
    """

    def __init__(self, specs: Sequence[RunSpec], bar: Bar, path: Path | None) -> None:
        self._bar, self._path, self._shown = bar, path, 0
        self._places = {spec: place for place, spec in enumerate(specs)}
        self._rounds = np.array([spec.schedule.rounds for spec in specs])
        self._ended = np.zeros(len(specs), bool)
        self._label()

    def writer(self, spec: RunSpec, here: bool) -> Callable[[int], None] | None:
        """What a run calls with the number of each finished round; `here`, in this process, it
        moves the bar as well.
        """
        if self._path is None:
            return None
        write = partial(_write, self._path, self._places[spec])
        return (lambda r: (write(r), self.look())) if here else write

    def look(self) -> None:
        """Move the bar on to what the runs have written."""
        done = np.zeros_like(self._rounds)
        with contextlib.suppress(OSError, ValueError):
            if self._path is not None:
                done[:] = np.fromfile(self._path, np.int64)
        now = int(np.where(self._ended, self._rounds, done.clip(0, self._rounds)).sum())
        if now > self._shown:  # a run that begins again from a checkpoint moves nothing back
            self._bar.update(now - self._shown)
            self._shown = now

    def end(self, spec: RunSpec) -> None:
        """Count all rounds of a run that has ended, however it did."""
        self._ended[self._places[spec]] = True
        self._label()
        self.look()

    def _label(self) -> None:
        several = f", {self._ended.sum()} of {len(self._ended)} runs finished"
        self._bar.label("training" + several * (len(self._ended) > 1))


@contextlib.contextmanager
def rounds_shown(specs: Sequence[RunSpec], shown: bool = True) -> Iterator[Rounds]:
    """Show progress over these runs."""
    with contextlib.ExitStack() as stack:
        path = None
        if shown and not headless():
            with contextlib.suppress(OSError):
                folder = tempfile.TemporaryDirectory(prefix="pfl-", ignore_cleanup_errors=True)
                path = Path(stack.enter_context(folder)) / "rounds"
                np.zeros(len(specs), np.int64).tofile(path)
        total = sum(spec.schedule.rounds for spec in specs)
        yield Rounds(specs, stack.enter_context(progress(total, "training", "round", shown)), path)


def _write(path: Path, place: int, r: int) -> None:
    """It never makes the file: a run that goes on when the others are gone leaves nothing."""
    with contextlib.suppress(OSError, ValueError):
        np.memmap(path, np.int64, "r+")[place] = r
