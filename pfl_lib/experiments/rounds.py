"""Progress of many runs by rounds, also of those that train in other processes.

Each run writes how many rounds it has finished to its place in one small file, for the bar alone.
Where the file cannot be written or read, a run counts when it has ended.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.progress import Bar, headless, progress


class Rounds:
    """One bar over the rounds of all runs; `path` is their file, None where there is none."""

    def __init__(self, specs: Sequence[RunSpec], bar: Bar, path: Path | None) -> None:
        self._bar, self._path, self._shown = bar, path, 0
        self._places = {spec.key: place for place, spec in enumerate(specs)}
        self._rounds = np.array([spec.schedule.rounds for spec in specs])
        self._ended = np.zeros(len(specs), bool)
        bar.label(self._label())

    def writer(self, spec: RunSpec, here: bool) -> Callable[[int], None] | None:
        """What a run calls with the number of each finished round; it moves the bar by itself if
        it trains in this process.
        """
        if self._path is None:
            return None
        write = partial(_write, self._path, 8 * self._places[spec.key])
        return partial(self._written, write) if here else write

    def _written(self, write: Callable[[int], None], r: int) -> None:
        write(r)
        self.look()

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
        self._ended[self._places[spec.key]] = True
        self._bar.label(self._label())
        self.look()

    def _label(self) -> str:
        several = len(self._ended) > 1
        ended = f", {self._ended.sum()} of {len(self._ended)} runs finished" if several else ""
        return f"training{ended}"


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
    with contextlib.suppress(OSError), open(path, "r+b", buffering=0) as file:
        file.seek(place)
        file.write(np.int64(r).tobytes())
