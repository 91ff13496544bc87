"""Progress of many runs by rounds, also of those that train in other processes."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.progress import progress


@contextlib.contextmanager
def rounds_shown(specs: Sequence[RunSpec]) -> Iterator[tuple[Path, Callable[..., None]]]:
    """One bar over the rounds of all runs: the folder in which each writes how many it has
    finished, into a file named by its slug, and what moves the bar on, given the runs that have
    ended: these count in full, also where their file cannot be read, as from another machine.
    """
    done, running = dict.fromkeys(specs, 0), set(specs)
    with (
        tempfile.TemporaryDirectory(prefix="pfl-", ignore_cleanup_errors=True) as folder,
        progress(sum(spec.schedule.rounds for spec in specs), "training", "round") as bar,
    ):

        def look(*ended: RunSpec) -> None:
            running.difference_update(ended)
            done.update((spec, spec.schedule.rounds) for spec in ended)
            for spec in running:
                with contextlib.suppress(OSError, ValueError):
                    done[spec] = int(Path(folder, spec.slug).read_text())
            several = f", {len(done) - len(running)} of {len(done)} runs finished" * (len(done) > 1)
            bar.label("training" + several)
            bar.reach(max(bar.steps, sum(done.values())))

        look()
        yield Path(folder), look
