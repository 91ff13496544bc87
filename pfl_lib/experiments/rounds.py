"""Progress of many runs by rounds, also of those that train in other processes."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.progress import Bar, progress


class Rounds:
    """One bar over the rounds of all runs.

    Each run writes how many it has finished into a small file in `folder` (`count`).  Where that
    cannot be read, as from another machine, a run counts when it has ended.
    """

    def __init__(self, specs: Sequence[RunSpec], bar: Bar, folder: Path) -> None:
        self.folder, self._bar = folder, bar
        self._running = {spec: folder / spec.slug for spec in specs}
        self._done = dict.fromkeys(specs, 0)
        self._label()

    def look(self) -> None:
        """Move the bar on to what the runs have written."""
        for spec, file in self._running.items():
            with contextlib.suppress(OSError, ValueError):
                self._done[spec] = int(file.read_text())
        self._bar.reach(max(self._bar.steps, sum(self._done.values())))

    def end(self, spec: RunSpec) -> None:
        """Count all rounds of a run that has ended, however it did."""
        del self._running[spec]
        self._done[spec] = spec.schedule.rounds
        self._label()
        self.look()

    def _label(self) -> None:
        ended = len(self._done) - len(self._running)
        several = f", {ended} of {len(self._done)} runs finished" * (len(self._done) > 1)
        self._bar.label("training" + several)


@contextlib.contextmanager
def rounds_shown(specs: Sequence[RunSpec]) -> Iterator[Rounds]:
    """Show progress over these runs."""
    total = sum(spec.schedule.rounds for spec in specs)
    with (
        tempfile.TemporaryDirectory(prefix="pfl-", ignore_cleanup_errors=True) as folder,
        progress(total, "training", "round") as bar,
    ):
        yield Rounds(specs, bar, Path(folder))


def count(file: Path, r: int) -> None:
    """Write that a run has finished round r; nothing where the folder is gone or full."""
    with contextlib.suppress(OSError):
        file.write_text(str(r))
