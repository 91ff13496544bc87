"""A cell is one run: method x data x partition x model x schedule x seed.  Run cells, resume them, keep their results."""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pfl_lib import clients as client_data
from pfl_lib import data, engine, measures, models, partition
from pfl_lib.backends import BACKENDS, completed, completed_by_dask
from pfl_lib.errors import BadInput, check_alice, choose, whole
from pfl_lib.federation import Federation, cores
from pfl_lib.methods import METHODS, Method
from pfl_lib.progress import progress as shown
from pfl_lib.schedule import Schedule
from pfl_lib.store import Result, Store
from pfl_lib.training import Run

CHECKPOINT_SECONDS = 15.0


@dataclass(frozen=True)
class Cell:
    """A run's full description.

    `images` keeps the first so many training images; `alice` is the client whose model is read (None: all).  `measures` names what
    is recorded beside accuracy and loss (`measures.MEASURES`), and "start" that the initial model is evaluated too, as round 0.
    `evaluate_every`: every so many rounds models are evaluated, and after the last one in any case.
    """

    method: Method
    schedule: Schedule
    dataset: str = "mnist"
    partition: str = "C"
    model: str = "lenet5"
    clients: int = 10
    images: int | None = None
    seed: int = 1
    alice: int | None = 0
    loss: str = "cross_entropy"
    measures: tuple[str, ...] = ()
    evaluate_every: int = 1

    def __post_init__(self) -> None:
        choose("dataset", self.dataset, data.DATASETS)
        choose("distribution", self.partition, partition.PARTITIONS)
        choose("model", self.model, models.MODELS)
        choose("loss", self.loss, engine.LOSSES)
        for measure in self.measures:
            choose("measure", measure, (measures.START, *measures.MEASURES))
        whole("seed", self.seed)
        whole("clients", self.clients, 1)
        whole("evaluate_every", self.evaluate_every, 1)
        if self.images is not None:
            whole("images", self.images, 1)
        check_alice(self.alice, self.clients)

    def config(self) -> dict[str, Any]:
        """Everything the numbers depend on, as JSON has it.

        Raises BadInput for a method that is not the package's own: no version number tells when it changes, so its results
        cannot be told from older ones, nor a subclass's from its parent's.
        """
        method = self.method
        if type(method) is not METHODS.get(getattr(method, "name", None)):
            raise BadInput(
                f"method {method!r} is not the package's own, so its results are not stored: use pfl_lib.run"
            )
        recipe = partition.PARTITIONS[self.partition]
        versions = {
            f"dataset {self.dataset}": data.DATASETS[self.dataset].version,
            f"model {self.model}": models.VERSIONS.get(self.model, 1),
            **{f"measure {name}": measures.VERSIONS.get(name, 1) for name in self.measures},
        }
        if hasattr(method, "versions"):
            versions |= method.versions(self.schedule)
        raised = {name: version for name, version in versions.items() if version != 1}
        return {
            "method": {"name": method.name, "version": method.version, **_fields(method)},
            "dataset": self.dataset,
            "fingerprint": data.fingerprint(self.dataset),
            "images": self.images,
            "partition": {"name": self.partition, "version": recipe.version},
            "model": self.model,
            "clients": self.clients,
            "schedule": _fields(self.schedule),
            "seed": self.seed,
            "alice": self.alice,
            "loss": self.loss,
            "engine": engine.VERSION,
            # Only where they differ: a cell for which nothing has changed keeps the key it always had.
            **({"versions": raised} if raised else {}),
            **({"measures": list(self.measures)} if self.measures else {}),
            **({"evaluate_every": self.evaluate_every} if self.evaluate_every != 1 else {}),
        }

    @property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of `config()`."""
        return hashlib.sha256(json.dumps(self.config(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def slug(self) -> str:
        """A readable folder name that is unique: method, data, partition, seed and the key's first digits."""
        key, letters = self.key[:10], self.partition.replace("*", "star")
        return f"{self.method.name}-{self.dataset}-{letters}-seed{self.seed}-{key}"

    def examples(self) -> int:
        """About how many gradient examples the run takes: a measure of its length."""
        images = self.images or data.DATASETS[self.dataset].examples
        a_round = images * self.schedule.local_epochs
        if self.schedule.local_batches is not None:
            a_round = min(images, self.clients * self.schedule.local_batches * self.schedule.batch_size)
        trained = 1 / self.clients if self.method.name == "local" and self.alice is not None else 1.0
        return math.ceil(a_round * self.schedule.rounds * self.schedule.participation * trained)


def _fields(of: Any) -> dict[str, Any]:
    """A dataclass as JSON has it.  Equal values give equal keys: where a number may be a fraction, 3 becomes 3.0 and -0.0 becomes 0.0."""
    values = dataclasses.asdict(of)
    return values | {field.name: values[field.name] + 0.0 for field in dataclasses.fields(of) if field.type is float}


@dataclass(frozen=True)
class CellFailure:
    """A cell that could not be run, and why, in one line."""

    cell: Cell
    message: str


def federation_of(
    cell: Cell, data_dir: str | os.PathLike | None = None, device: str = "auto", engine: str = "auto", threads: int = 1
) -> Federation:
    """The federation a cell describes."""
    dataset = data.load(cell.dataset, data_dir, cell.images)
    held = client_data.from_partition(
        dataset, partition.make(cell.partition, dataset, cell.clients, cell.seed, cell.alice)
    )
    make = lambda: models.build(cell.model, held.input_shape, held.classes)  # noqa: E731
    settings = {"loss": cell.loss, "device": device, "engine": engine, "threads": threads, "recorded_as": cell.model}
    return Federation(held, make, cell.schedule, seed=cell.seed, alice=cell.alice, **settings)


def run_cell(
    cell: Cell,
    store: Store,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 1,
    progress: Callable[[int], object] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    with_model: bool = False,
) -> Result:
    """The cell's result: from the store, else by running it, from its last checkpoint if it was interrupted.

    `progress` is called with the number of each finished round.  `with_model`: a stored result without its model, as published ones
    are, does not do.
    """
    found = store.find(cell, with_model)
    if found is not None:
        return found
    store.check_writable()
    with one_thread():
        fed = federation_of(cell, data_dir, device, engine, threads)
        run = Run(cell.method, fed, cell.measures, cell.evaluate_every)
        checkpoint = store.load_checkpoint(cell)
        if checkpoint is not None:
            run.restore(checkpoint)
        saved = time.monotonic()
        for r in run.rounds():
            if progress is not None:
                progress(r)
            if time.monotonic() - saved >= checkpoint_seconds and not run.finished:
                store.save_checkpoint(cell, run.checkpoint())
                saved = time.monotonic()
        result = run.result({**cell.config(), "key": cell.key})
    store.save(cell, result)
    return result


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    jobs: int | None = None,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    backend: str = "loky",
    progress: bool = True,
    scheduler: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    with_model: bool = False,
) -> list[Result | CellFailure]:
    """Results of many cells, in order: stored ones are read, the rest run `jobs` at a time in processes (default: one per core).

    A cell that fails becomes a `CellFailure` and stops no other.  Cores left over by few cells train clients side by side.
    With `backend` "dask" the workers of the cluster whose `scheduler` has this address run them (default: as many at a time as there
    are workers); they must see the results folder and the data under the same paths.  `with_model` as in `run_cell`.
    """
    choose("backend", backend, BACKENDS)
    if jobs is not None:
        whole("jobs", jobs, 1)
    missing = list({cell.key: cell for cell in cells if store.find(cell, with_model) is None}.values())
    failures: dict[str, CellFailure] = {}
    if missing:
        store.check_writable()
        for name, images in dict.fromkeys((cell.dataset, cell.images) for cell in missing):
            data.load(name, data_dir, images)  # one clear line before anything starts, and a download happens once
        missing.sort(key=lambda cell: -cell.examples())  # long ones first, so that the last core is not left alone
        if backend == "dask":
            settings = (store, data.data_root(data_dir), device, engine, 1, checkpoint_seconds, with_model)
            ended = completed_by_dask(_guarded, missing, settings, jobs, scheduler)
        else:
            allowed = jobs or cores()
            workers = min(allowed, len(missing))
            settings = (store, data_dir, device, engine, max(1, allowed // workers), checkpoint_seconds, with_model)
            ended = completed(_guarded, missing, settings, workers)
        with shown(len(missing), "training", "run", progress) as bar:
            for key, message in ended:
                bar.update()
                if message is not None:
                    failures[key] = CellFailure(next(c for c in missing if c.key == key), message)
    lost = f"its result is not in {store.root}: workers must see this folder and run the same version of pfl_lib"
    results = {
        cell.key: failures.get(cell.key) or store.find(cell, with_model) or CellFailure(cell, lost) for cell in cells
    }
    return [results[cell.key] for cell in cells]


def _guarded(
    cell: Cell,
    store: Store,
    data_dir: str | os.PathLike | None,
    device: str,
    engine: str,
    threads: int,
    checkpoint_seconds: float,
    with_model: bool,
) -> tuple[str, str | None]:
    try:
        run_cell(cell, store, data_dir, device, engine, threads, None, checkpoint_seconds, with_model)
    except Exception as error:  # noqa: BLE001  one failed cell must not stop the others; its line is shown with the results
        return cell.key, f"{type(error).__name__}: {error}".splitlines()[0]
    return cell.key, None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch's own threads off: the papers' networks are too small for them, and sums then never depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
