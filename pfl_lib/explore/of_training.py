"""A run to start, watch and stop; stopped, it keeps its finished rounds and goes on from there."""

import html
import os
import threading
import time
from collections.abc import Callable

import pandas as pd

from pfl_lib.display import curves, play, theme
from pfl_lib.errors import BadInput, said
from pfl_lib.experiments.runner import find, stored_config, training
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.results.store import NotStored, Store

DRAWN_EVERY = 0.7  # seconds between two pictures: drawing takes time from training


class Training:
    """A run in a thread of its own: `start`, `stop`, and where it stands.

    `watch(training)` is called now and then while it runs and once when it ends, in that thread.
    `place`: the data's folder and the device, as `experiments.runner.training` takes them.
    """

    def __init__(self, spec: RunSpec, store: Store, **place) -> None:
        self.spec, self.store, self._place = spec, store, place
        self.watch: Callable[[Training], object] = lambda training: None
        self._stop, self._thread = threading.Event(), None
        self.result = find(spec, store, place.get("data_dir"))
        self.accuracy = self.result.accuracy_by_round() if self.result else pd.Series(dtype=float)
        self.state = "stored" if self.result else "not started"

    @property
    def done(self) -> int:
        """The number of finished rounds."""
        return int(self.accuracy.index.max()) if len(self.accuracy) else 0

    def start(self) -> None:
        """Go on from the last finished round; nothing happens where it runs or has a result."""
        if self.state != "training" and self.result is None:
            self._stop.clear()
            self.state = "training"
            self._thread = threading.Thread(target=self._train, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop after the round that it is in, which is kept."""
        self._stop.set()

    def _train(self) -> None:
        try:
            rounds, drawn = training(self.spec, self.store, **self._place), 0.0
            for run in rounds:
                metrics = pd.DataFrame(run.metrics, columns=["round", "accuracy"])
                self.accuracy = metrics.groupby("round")["accuracy"].mean()
                if self._stop.is_set() and not run.finished:
                    rounds.close()  # saves the checkpoint
                    kept = self.store.checkpoint_path(self.spec).is_file()
                    told = ", which is kept" if kept else "; it could not be kept"
                    self.state = f"stopped after round {run.done}{told if run.done else ''}"
                    break
                if time.monotonic() - drawn >= DRAWN_EVERY:
                    self.watch(self)
                    drawn = time.monotonic()
            else:
                self.result = run.result(stored_config(self.spec, run.fed))
                self.store.save(self.spec, self.result)
                self.state = "finished and stored"
        except NotStored as error:
            self.state = f"finished; {error}"
        except Exception as error:  # noqa: BLE001  a thread's error is told where it is watched
            self.state = said(error)
        self.watch(self)

    def words(self) -> str:
        """One sentence: where it stands."""
        rounds = self.spec.schedule.rounds
        last = f", accuracy {self.accuracy.iloc[-1]:.1%}" if len(self.accuracy) else ""
        stopping = self.state == "training" and self._stop.is_set()
        state = "stopping after this round" if stopping else self.state
        return f"{self.spec.method.name}: {state}; round {self.done} of {rounds}{last}."

    def picture(self) -> str:
        """Accuracy by round so far and its sentence, as HTML; no picture before the first round."""
        words = f"<p>{html.escape(self.words())}</p>"
        if not len(self.accuracy):
            return words
        rows = {"method": self.spec.method.name, "seed": self.spec.seed}
        frame = (100 * self.accuracy).rename("accuracy").reset_index().assign(**rows)
        with theme.theme():
            axes = curves.accuracy(frame)
            axes.set_xlim(0, self.spec.schedule.rounds + 1)
            return play.picture(axes.figure, self.words()) + words


def live(
    spec: RunSpec,
    results_dir: str | os.PathLike | None = None,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
) -> play.Explorer:
    """A run to start, watch and stop in JupyterLab.  Stopped, or the kernel interrupted, it keeps
    its finished rounds; the next start goes on from there, and the finished run is stored.  A page
    that is kept trains nothing.  Raises BadInput for what is no run description.
    """
    if not isinstance(spec, RunSpec):
        raise BadInput(f"run {spec!r}: give a run description, RunSpec(method, schedule, ...)")
    of = Training(spec, Store(results_dir), data_dir=data_dir, device=device)
    return play.Explorer(of.words(), lambda: play.framed(of.picture()), lambda: _widget(of))


def _widget(of: Training):
    import ipywidgets

    start, stop = (ipywidgets.Button(description=name) for name in ("start", "stop"))
    bar = ipywidgets.IntProgress(of.done, 0, of.spec.schedule.rounds, description="round")
    view = ipywidgets.HTML(layout={"overflow": "auto"})

    def show(training: Training) -> None:
        bar.value = training.done
        start.disabled = training.state == "training"
        view.value = training.picture()

    of.watch = show
    start.on_click(lambda button: (of.start(), show(of)))
    stop.on_click(lambda button: (of.stop(), show(of)))
    show(of)
    return ipywidgets.VBox([ipywidgets.HBox([start, stop]), bar, view])
