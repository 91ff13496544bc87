"""Training runs: one, resumed from its last checkpoint, and many, side by side."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from pfl_lib import data, models, partitions
from pfl_lib.errors import choose, whole
from pfl_lib.experiments.backends import (
    BACKENDS,
    FAILED,
    INTERRUPTED,
    Outcome,
    cluster,
    completed,
    processes,
)
from pfl_lib.experiments.own_data import FederationRun
from pfl_lib.experiments.rounds import Rounds, rounds_shown
from pfl_lib.experiments.spec import RunFailure, RunLeft, RunSpec
from pfl_lib.experiments.stopping import NEVER, Stop, Stopped, interruptible
from pfl_lib.experiments.training import Run, one_thread
from pfl_lib.federation import clients as client_data
from pfl_lib.federation.devices import DEVICES, cores
from pfl_lib.federation.federation import ENGINES, Federation
from pfl_lib.results.result import Result
from pfl_lib.results.store import NotStored, Store

CHECKPOINT_SECONDS = 15.0
OnRound = Callable[[pd.DataFrame], object] | None
STORED, NOT_STORED, STOPPED, NOT_STARTED = "stored", "not stored", "stopped", "not started"
"""Further outcomes of a run; a stopped one resumes from its checkpoint."""


def federation_of(
    spec: RunSpec,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 1,
) -> Federation:
    """The federation a run describes."""
    dataset = data.load(spec.dataset, data_dir, spec.images)
    made = partitions.make(
        spec.partition, dataset, spec.clients, spec.seed, spec.alice, spec.validation
    )
    held = client_data.from_partition(dataset, made)
    network = models.Architecture(spec.model, held.input_shape, held.classes)
    return Federation(
        held,
        network,
        spec.schedule,
        loss=spec.loss,
        seed=spec.seed,
        alice=spec.alice,
        device=device,
        engine=engine,
        threads=threads,
    )


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
    stop: Stop = NEVER,
    on_round: OnRound = None,
) -> Result:
    """The spec's result: from the store, else by running it, from its last checkpoint if it was
    interrupted.

    `progress` is called with the number of each finished round, `on_round` with the rows of
    `Result.metrics` of each evaluated one, of those too that are stored. `with_model`: a stored
    result without its model, as published ones are, does not do. A `FederationRun` has data, device
    and engine already. Raises NotStored, which holds the result, where it cannot be written,
    Stopped where `stop` ends the run, and Interrupted at Ctrl-C and SIGTERM.
    """
    _check_names(device, engine)
    found = store.find(spec, with_model)
    if found is not None:
        tell_rounds(found.metrics.to_dict("records"), on_round)
        return found
    settings = (data_dir, device, engine, threads, checkpoint_seconds, stop)
    with contextlib.closing(training(spec, store, *settings)) as rounds:
        run = next(rounds)
        tell_rounds(run.metrics, on_round)
        for _ in rounds:
            if progress is not None:
                progress(run.done)
            tell_rounds(run.metrics[-len(run.fed) :], on_round, run.done)
    result = run.result(stored_config(spec))
    store.save(spec, result)
    return result


def tell_rounds(metrics: Sequence[Mapping[str, float]], on_round: OnRound, since: int = 0) -> None:
    """Call `on_round` with the rows of each round from `since` on."""
    if on_round is not None:
        rows = pd.DataFrame([row for row in metrics if row["round"] >= since])
        for _, of_round in rows.groupby("round") if len(rows) else ():
            on_round(of_round)


def training(
    spec: RunSpec | FederationRun,
    store: Store,
    data_dir: str | os.PathLike | None = None,
    device: str = "auto",
    engine: str = "auto",
    threads: int = 1,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stop: Stop = NEVER,
) -> Iterator[Run]:
    """A run round by round, from its last checkpoint if it was interrupted: the same `Run` at the
    start and after each round; nothing is stored but checkpoints.

    Interrupted (Ctrl-C), left before its end or stopped (Stopped), it saves what is finished.
    Where a checkpoint cannot be written, the run goes on without.  Raises BadInput where the
    results folder cannot be written.
    """
    store.check_writable()
    with one_thread():
        if isinstance(spec, FederationRun):
            run = Run(spec.method, spec.federation)
        else:
            fed = federation_of(spec, data_dir, device, engine, threads)
            run = Run(spec.method, fed, spec.measures, spec.evaluate_every)
        _restore(run, spec, store)
        saved, kept, finished = time.monotonic(), run.done, run.checkpoint()
        try:
            yield run
            for _ in run.rounds():
                finished = run.checkpoint()
                if time.monotonic() - saved >= checkpoint_seconds and not run.finished:
                    saved, kept = _save_checkpoint(spec, store, finished), run.done
                yield run
                if stop.now() and not run.finished:
                    raise Stopped
        except (KeyboardInterrupt, GeneratorExit, Stopped):
            if finished["done"] > kept and not run.finished:
                _save_checkpoint(spec, store, finished)
            raise


def _restore(run: Run, spec: RunSpec | FederationRun, store: Store) -> None:
    """Go on from the last checkpoint; one line tells of damaged files, which are made anew."""
    checkpoint = store.checkpoint_path(spec)
    if checkpoint.exists() and not run.restore(store.load_checkpoint(spec)):
        print(f"{checkpoint} is damaged: the run starts from round 1", file=sys.stderr)
    if store.is_damaged(spec):
        print(f"{store.folder(spec)} is damaged: the run is trained again", file=sys.stderr)


def stored_config(spec: RunSpec | FederationRun) -> dict[str, Any]:
    """What config.json says of a run: its description, its key, and the source of what is not the
    package's own.
    """
    return {
        **spec.config(),
        "key": spec.key,
        **({"source": spec.source} if spec.source else {}),
    }


def _check_names(device: str, engine: str) -> None:
    """BadInput for a name that is none, also where the result is stored and nothing is trained."""
    choose("device", device, DEVICES)
    choose("engine", engine, ENGINES)


def _save_checkpoint(spec: RunSpec | FederationRun, store: Store, state: dict[str, Any]) -> float:
    """Save a checkpoint, or say in one line that it could not be; returns when that was."""
    try:
        store.save_checkpoint(spec, state)
    except OSError as error:
        print(f"no checkpoint of {spec.slug} ({error.strerror}): it goes on", file=sys.stderr)
    return time.monotonic()


@interruptible()
def run_many(
    specs: Sequence[RunSpec],
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
    until: float = math.inf,
    in_order: bool = False,
) -> list[Result | RunFailure | RunLeft]:
    """Results of many specs, in order: stored ones are read, the rest run `jobs` at a time in
    processes (default: one per core).

    A spec that fails becomes a `RunFailure` and stops no other, unless its result could not be
    stored: then nobody's could, and NotStored is raised; what is stored already is kept.  Cores
    left over by few specs train clients side by side.  With `backend` "dask" the workers of the
    cluster whose `scheduler` has this address run them (default: as many at a time as there are
    workers); they must see the results folder and the data under the same paths.  `with_model` as
    in `run_one`.  Specs are started in order (`in_order`), else long ones first.

    From the time `until` on (`time.time()`) no run is started, and what runs stops after its round
    with a checkpoint; both become a `RunLeft`.  At Ctrl-C and SIGTERM all that runs saves its
    checkpoint, and Interrupted is raised; processes whose parent was killed save theirs and end.
    """
    choose("backend", backend, BACKENDS)
    _check_names(device, engine)
    if jobs is not None:
        whole("jobs", jobs, 1)
    missing = list(
        {spec.key: spec for spec in specs if store.find(spec, with_model) is None}.values()
    )
    outcomes: dict[str, Outcome] = {}
    if missing:
        store.check_writable()
        for name, images in dict.fromkeys((spec.dataset, spec.images) for spec in missing):
            # One clear line before anything starts, and a download happens once
            data.load(name, data_dir, images)
        if not in_order:  # long ones first, so that the last core is not left alone
            missing.sort(key=lambda spec: -spec.examples())
        allowed = jobs or cores()
        workers = min(allowed, len(missing))
        here = backend == "loky"
        with rounds_shown(missing, progress) as rounds:
            run = partial(
                run_one,
                store=store,
                data_dir=data_dir if here else data.data_root(data_dir),
                device=device,
                engine=engine,
                threads=max(1, allowed // workers) if here else 1,
                checkpoint_seconds=checkpoint_seconds,
                with_model=with_model,
                stop=Stop(until, os.getpid() if here and workers > 1 else None),
            )
            writers = {spec.key: rounds.writer(spec, workers == 1) for spec in missing}
            call = partial(_outcome_of, run, writers)
            with contextlib.ExitStack() as stack:
                if not here:
                    submit = stack.enter_context(cluster(call, scheduler))
                    ended = completed(submit, missing, jobs)
                elif workers > 1:
                    submit = stack.enter_context(processes(call, workers))
                    ended = completed(submit, missing, workers)
                else:
                    ended = ((spec, call(spec)) for spec in missing)
                outcomes = _gathered(ended, rounds)
    lost = (
        f"its result is not in {store.root}: workers must see this folder and run the same version"
        " of pfl_lib"
    )

    def found(spec: RunSpec) -> Result | RunFailure | RunLeft:
        what, why = outcomes.get(spec.key, (STORED, ""))
        if what in (STOPPED, NOT_STARTED):
            return RunLeft(spec, started=what == STOPPED)
        if what == FAILED:
            return RunFailure(spec, why)
        return store.find(spec, with_model) or RunFailure(spec, lost)

    results = {spec.key: found(spec) for spec in dict.fromkeys(specs)}
    return [results[spec.key] for spec in specs]


def _gathered(
    ended: Iterable[tuple[RunSpec, Outcome] | None], rounds: Rounds
) -> dict[str, Outcome]:
    """What became of each run, by key, as they end (`backends.completed`).

    Raises NotStored at the first result that could not be stored, and KeyboardInterrupt where
    somebody told a process to end.
    """
    outcomes = {}
    for one in ended:
        if one is None:
            rounds.look()
            continue
        spec, (what, why) = one
        if what == NOT_STORED:
            raise NotStored(why)
        if what == INTERRUPTED:
            raise KeyboardInterrupt
        if what not in (STOPPED, NOT_STARTED):
            rounds.end(spec)
        outcomes[spec.key] = what, why
    return outcomes


def _outcome_of(
    run: Callable[..., Result], writers: dict[str, Callable[[int], None] | None], spec: RunSpec
) -> Outcome:
    """Run one of many; whatever happens to it stops no other."""
    if run.keywords["stop"].now():
        return NOT_STARTED, ""
    try:
        run(spec, progress=writers[spec.key])
    except Stopped:
        return STOPPED, ""
    except NotStored as error:
        return NOT_STORED, str(error)
    except Exception as error:  # noqa: BLE001  its line is shown with the results
        return FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
    return STORED, ""
