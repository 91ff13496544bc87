"""Training runs: one, resumed from its last checkpoint, and many, side by side."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from pfl_lib import data, models, partitions
from pfl_lib.errors import BadInput, choose, said, whole
from pfl_lib.experiments.backends import cluster, completed, processes, rounds_shown
from pfl_lib.experiments.own import data_checksum, initial_checksum
from pfl_lib.experiments.spec import FederationRun, RunFailure, RunLeft, RunSpec
from pfl_lib.experiments.stopping import Stopped, interruptible
from pfl_lib.experiments.training import Run, one_thread
from pfl_lib.federation import clients as client_data
from pfl_lib.federation.devices import DEVICES, cores
from pfl_lib.federation.federation import ENGINES, Federation
from pfl_lib.results.result import Result
from pfl_lib.results.store import NotStored, Store

CHECKPOINT_SECONDS = 15.0
OnRound = Callable[[pd.DataFrame], object] | None


def federation_of(
    spec: RunSpec,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 1,
) -> Federation:
    """The federation a run describes."""
    dataset = data.load(spec.dataset, data_dir, spec.images)
    made = _partition(spec, dataset)
    held = client_data.from_partition(dataset, made)
    network = models.Architecture(spec.model, held.input_shape, held.classes)
    settings = {"loss": spec.loss, "seed": spec.seed, "alice": spec.alice}
    where = {"device": device, "engine": engine, "threads": threads}
    fed = Federation(held, network, spec.schedule, **settings, **where)
    fed.split = "" if partitions.built_in(spec.recipe) else made.checksum()
    return fed


def _partition(spec: RunSpec, dataset: data.Dataset) -> partitions.Partition:
    given = spec.clients, spec.seed, spec.alice, spec.validation
    return partitions.make(spec.partition, dataset, *given)


def find(
    spec: RunSpec | FederationRun,
    store: Store,
    data_dir: str | os.PathLike | None = None,
    with_model: bool = False,
) -> Result | None:
    """What `Store.find` finds; BadInput too where a user's own partition, which may read a file,
    splits the data otherwise by now.
    """
    found = store.find(spec, with_model)
    if found and "split" in found.config:
        told, made = f"{spec.slug} was stored with another split of the same version", None
        try:
            made = _partition(spec, data.load(spec.dataset, data_dir, spec.images)).checksum()
        except Exception as error:  # noqa: BLE001  whatever a user's partition does
            told = f"the partition of {spec.slug}, which is stored, fails: {said(error)}"
        if made != found.config["split"]:
            cure = f"raise the version of partition, or remove {store.folder(spec)}"
            raise BadInput(f"{told}: {cure}")
    return found


@interruptible()
def run_one(
    spec: RunSpec | FederationRun,
    store: Store,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 1,
    progress: Callable[[int], object] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    with_model: bool = False,
    until: float = math.inf,
    on_round: OnRound = None,
) -> Result:
    """The spec's result: from the store, else by running it, on from its last checkpoint.

    `progress` is called with the number of each finished round, `on_round` with the rows of
    `Result.metrics` of each evaluated one, also of those that are stored.  `with_model`: a result
    stored without its model, as published ones are, is trained again.  A `FederationRun` has data,
    device and engine already.  Raises NotStored, which holds the result, where it cannot be
    written, Stopped from the time `until` on (`time.time()`), Interrupted at Ctrl-C and SIGTERM.
    """
    choose("device", device, DEVICES)
    choose("engine", engine, ENGINES)
    if found := find(spec, store, data_dir, with_model):
        if isinstance(spec, FederationRun):  # names are no part of the key
            found.config["names"] = list(spec.federation.clients.names)
        tell_rounds(found.metrics.to_dict("records"), on_round)
        return found
    place = {"data_dir": data_dir, "device": device, "engine": engine, "threads": threads}
    told = 0
    with contextlib.closing(training(spec, store, checkpoint_seconds, until, **place)) as rounds:
        for number, run in enumerate(rounds):
            if progress is not None and number:
                progress(run.done)
            tell_rounds(run.metrics[told:], on_round)
            told = len(run.metrics)
    result = run.result(stored_config(spec, run.fed))
    store.save(spec, result)
    return result


def tell_rounds(metrics: Sequence[Mapping[str, float]], on_round: OnRound) -> None:
    """Call `on_round` with the rows of each round."""
    if on_round is not None and metrics:
        for _, of_round in pd.DataFrame(metrics).groupby("round"):
            on_round(of_round)


def training(
    spec: RunSpec | FederationRun,
    store: Store,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    until: float = math.inf,
    **place: Any,
) -> Iterator[Run]:
    """A run round by round, from its last checkpoint if it was interrupted: the same `Run` at the
    start and after each round; nothing is stored but checkpoints.  `place`: the data's folder,
    device, engine and threads, as `federation_of` takes them.

    Interrupted (Ctrl-C), left before its end or stopped (Stopped), it saves what is finished.
    Where a checkpoint cannot be written, the run goes on without.  Raises BadInput where the
    results folder cannot be written.
    """
    store.check_writable()
    with one_thread():
        own = isinstance(spec, FederationRun)
        fed = spec.federation if own else federation_of(spec, **place)
        run = Run(spec.method, fed, spec.measures, 1 if own else spec.evaluate_every)
        checkpoint, held = store.checkpoint_path(spec), store.load_checkpoint(spec)
        is_now = {"source": spec.source, "split": fed.split}
        other = [of for of, now in is_now.items() if held and now and held.get(of) != now]
        if other:
            told = f"{checkpoint} has another {other[0]}: the run starts from round 1"
            print(told, file=sys.stderr)
        elif checkpoint.exists() and not run.restore(held):
            print(f"{checkpoint} is damaged: the run starts from round 1", file=sys.stderr)
        saved, kept, finished = time.monotonic(), run.done, run.checkpoint()
        try:
            yield run
            for _ in run.rounds():
                finished = run.checkpoint()
                if time.monotonic() - saved >= checkpoint_seconds and not run.finished:
                    _save_checkpoint(spec, store, finished | is_now)
                    saved, kept = time.monotonic(), run.done
                yield run
                if time.time() >= until and not run.finished:
                    raise Stopped
        except (KeyboardInterrupt, GeneratorExit, Stopped):
            if finished["done"] > kept and not run.finished:
                _save_checkpoint(spec, store, finished | is_now)
            raise


def stored_config(spec: RunSpec | FederationRun, fed: Federation) -> dict[str, Any]:
    """config.json of a run: description, key, source and split of a user's own parts, of own data
    checksums and names.
    """
    told = {"source": spec.source, "split": fed.split}
    beside = {name: value for name, value in told.items() if value}
    if isinstance(spec, FederationRun):
        beside["data"] = data_checksum(fed)
        beside["initial"] = initial_checksum(fed)
        beside["names"] = list(fed.clients.names)
    return {**spec.config(), "key": spec.key, **beside}


def _save_checkpoint(spec: RunSpec | FederationRun, store: Store, state: dict[str, Any]) -> None:
    try:
        store.save_checkpoint(spec, state)
    except OSError as error:
        print(f"no checkpoint of {spec.slug} ({error.strerror}): it goes on", file=sys.stderr)


@interruptible()
def run_many(
    specs: Sequence[RunSpec],
    store: Store,
    jobs: int | None = None,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    scheduler: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    with_model: bool = False,
    until: float = math.inf,
    in_order: bool = False,
) -> list[Result | RunFailure | RunLeft]:
    """Results of many specs, in order: stored ones are read, the rest run `jobs` at a time in
    processes (default: one per core).

    A spec that fails becomes a `RunFailure` and stops no other, unless its result could not be
    stored: then nobody's could, and NotStored is raised; what is stored already is kept.  Cores
    left over by few specs train clients side by side.  With `scheduler`, the address of a Dask
    scheduler, its workers run them (default: as many at a time as there are workers); they must
    see the results folder and the data under the same paths.  `with_model` as in `run_one`.  Specs
    are started in order (`in_order`), else long ones first.

    From the time `until` on (`time.time()`) no run is started, and what runs stops after its round
    with a checkpoint; both become a `RunLeft`.  At Ctrl-C and SIGTERM all that runs saves its
    checkpoint, and Interrupted is raised; processes whose parent was killed save theirs and end.
    """
    choose("device", device, DEVICES)
    choose("engine", engine, ENGINES)
    if jobs is not None:
        whole("jobs", jobs, 1)
    missing = list(dict.fromkeys(s for s in specs if find(s, store, data_dir, with_model) is None))
    outcomes: dict[RunSpec, RunFailure | RunLeft | None] = {}
    if missing:
        store.check_writable()
        for spec in missing:
            # It is kept: another process cannot read that of an open notebook's class.
            with contextlib.suppress(Exception):  # told by its own run
                _ = spec.source
        for name, images in dict.fromkeys((spec.dataset, spec.images) for spec in missing):
            # One clear line before anything starts, and a download happens once
            data.load(name, data_dir, images)
        if not in_order:  # long ones first, so that the last core is not left alone
            missing.sort(key=lambda spec: -spec.examples())
        allowed = jobs or cores()
        workers = min(allowed, len(missing))
        root = data.data_root(data_dir) if scheduler else data_dir
        threads = 1 if scheduler else max(1, allowed // workers)
        where = {"data_dir": root, "device": device, "engine": engine, "threads": threads}
        when = {"checkpoint_seconds": checkpoint_seconds, "until": until}
        run = partial(run_one, store=store, with_model=with_model, **where, **when)
        with rounds_shown(missing) as (folder, look), contextlib.ExitStack() as stack:
            call = partial(_outcome_of, run, until, folder)
            if scheduler:
                ended = completed(stack.enter_context(cluster(call, scheduler)), missing, jobs)
            elif workers > 1:
                ended = completed(stack.enter_context(processes(call, workers)), missing, workers)
            else:
                ended = ((spec, call(spec, look)) for spec in missing)
            for one in ended:
                if one is None:
                    look()
                    continue
                spec, outcomes[spec] = one
                if not isinstance(outcomes[spec], RunLeft):
                    look(spec)
    lost = f"its result is not in {store.root}: workers must see this folder and run this version"
    return [outcomes.get(s) or store.find(s, with_model) or RunFailure(s, lost) for s in specs]


def _outcome_of(
    run: Callable[..., Result],
    until: float,
    folder: Path,
    spec: RunSpec,
    look: Callable[[], None] = lambda: None,
) -> RunFailure | RunLeft | None:
    """Run one of many, unless it is past `until`; whatever happens to it stops no other, unless it
    cannot be stored.  It counts its rounds in `folder` and calls `look` after each.
    """
    if time.time() >= until:
        return RunLeft(spec, started=False)
    file = folder / spec.slug

    def progress(r: int) -> None:
        with contextlib.suppress(OSError):  # the folder may be gone or full
            file.write_text(str(r))
        look()

    try:
        run(spec, progress=progress)
    except Stopped:
        return RunLeft(spec, started=True)
    except NotStored as error:
        raise NotStored(str(error)) from None  # without the result, which need not be sent
    except Exception as error:  # noqa: BLE001  its line is shown with the results
        return RunFailure(spec, said(error))
    return None
