"""Progress of runs that train in other processes, by rounds: each run writes how many it has
finished to its place in one small file, which is looked at about twice a second.

It is for the eye alone.  Where the file cannot be written or read, as by a cluster's workers on
another machine, a run counts when it has ended.
"""

import contextlib
import contextvars
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.progress import headless, progress

SECONDS = 0.5  # between two writes of a run, and between two looks


@dataclass(frozen=True)
class Counts:
    """The file, and each run's place in it."""

    path: Path
    places: dict[str, int]

    def of(self, spec: RunSpec) -> Callable[[int], None]:
        """What a run calls with the number of each finished round.  It never makes the file: what
        goes on after the others were interrupted leaves nothing behind.
        """
        written, place = -SECONDS, 8 * self.places[spec.key]

        def reached(r: int) -> None:
            nonlocal written
            if time.monotonic() - written >= SECONDS:
                written = time.monotonic()
                with contextlib.suppress(OSError), open(self.path, "r+b", buffering=0) as file:
                    file.seek(place)
                    file.write(np.int64(r).tobytes())

        return reached


@contextlib.contextmanager
def rounds_shown(
    specs: Sequence[RunSpec], shown: bool = True
) -> Iterator[tuple[Counts | None, Callable[[str], None]]]:
    """One bar over the rounds of all runs; gives the counts that runs write to, if any, and what to
    call with the key of a run that has ended, however it did: its rounds then count as done.
    """
    rounds = np.array([spec.schedule.rounds for spec in specs])
    places = {spec.key: place for place, spec in enumerate(specs)}
    ended, before, over, turn = np.zeros(len(specs), bool), 0, threading.Event(), threading.Lock()
    with contextlib.ExitStack() as stack:
        counts = None
        if shown and not headless():
            with contextlib.suppress(OSError):
                folder = tempfile.TemporaryDirectory(prefix="pfl-", ignore_cleanup_errors=True)
                counts = Counts(Path(stack.enter_context(folder)) / "rounds", places)
                np.zeros(len(specs), np.int64).tofile(counts.path)
        bar = stack.enter_context(progress(int(rounds.sum()), _label(ended), "round", shown))

        def look() -> None:
            nonlocal before
            done = np.zeros(len(specs), np.int64)
            with contextlib.suppress(OSError, ValueError):
                if counts is not None:
                    done[:] = np.fromfile(counts.path, np.int64)
            with turn:
                now = int(np.where(ended, rounds, done.clip(0, rounds)).sum())
                if now > before:  # a run that begins again from a checkpoint moves nothing back
                    bar.update(now - before)
                    before = now

        def watch() -> None:
            while not over.wait(SECONDS):
                look()

        def end(key: str) -> None:
            with turn:
                ended[places[key]] = True
                bar.label(_label(ended))
            look()

        if counts is not None:
            # A notebook knows by the context which cell the bar belongs to.
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(watch,), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(over.set)
        yield counts, end


def _label(ended: np.ndarray) -> str:
    if len(ended) == 1:
        return "training"
    return f"training, {ended.sum()} of {len(ended)} runs finished"
