"""Training for `pfl-lib reproduce`: what is missing, each run once, its time estimated before."""

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pfl_lib.cli.words import count, duration, say
from pfl_lib.experiments.backends import workers_of

if TYPE_CHECKING:  # annotations only: the command line starts without torch and pandas
    from pfl_lib.experiments.spec import RunSpec
    from pfl_lib.papers.exhibits import Exhibit
    from pfl_lib.results.store import Store

QUEUE = Path(__file__).resolve().parents[2] / "reports" / "queue.yaml"
BATCHES_TIMED = 8  # at a time, to see how fast this machine is
SECONDS_PER_WORKER = 4.0


def train(
    name: str, exhibits: Sequence["Exhibit"], args: argparse.Namespace, store: "Store"
) -> int:
    """Run what the pages need in the profile of that name and is not stored yet, each run once
    however many pages show it; returns how many failed.
    """
    pages = [(exhibit, exhibit.profile(name, args.seeds)) for exhibit in exhibits]
    specs = {spec.key: spec for exhibit, profile in pages for spec in exhibit.runs(profile)}
    # What is only drawn is drawn as it is stored.
    models = (
        set()
        if args.plots_only
        else {spec.key for exhibit, profile in pages for spec in exhibit.models(profile)}
    )
    missing = [
        spec for key, spec in specs.items() if store.find(spec, with_model=key in models) is None
    ]
    say(
        f"{name} profile: {count(len(pages), 'page')}, {count(len(specs), 'run')}"
        f" behind {'it' if len(pages) == 1 else 'them'}, {len(specs) - len(missing)} stored in"
        f" {store.root} or published"
    )
    if missing and args.plots_only:
        say(f"{count(len(missing), 'run')} missing: shown as not run (--plots-only)")
        return 0
    return _train(missing, args, store)


def queue_of(profile: str, seeds: int | None) -> "list[RunSpec] | None":
    """The queue's runs of a profile, of them those with seeds 1 to `seeds`; None where it has no
    queue.
    """
    from pfl_lib.experiments.queue import queued
    from pfl_lib.papers import exhibit

    specs = queued(QUEUE, profile, lambda page: exhibit(page).runs(exhibit(page).profile(profile)))
    if specs is None or seeds is None:
        return specs
    return [spec for spec in specs if spec.seed <= seeds]


def train_queue(specs: Sequence["RunSpec"], args: argparse.Namespace, store: "Store") -> int:
    """Run what of the queue is not stored yet, in its order; returns how many failed."""
    missing = [spec for spec in specs if store.find(spec) is None]
    say(
        f"{args.profile} profile, the queue of {QUEUE.parent.name}/{QUEUE.name}:"
        f" {count(len(specs), 'run')}, {len(specs) - len(missing)} stored in {store.root} or"
        " published; other runs of the profile are not trained: name their pages with --only"
    )
    return _train(missing, args, store, in_order=True)


def _train(
    missing: Sequence["RunSpec"], args: argparse.Namespace, store: "Store", in_order: bool = False
) -> int:
    """Run these, for `args.hours` at most; returns how many failed."""
    from pfl_lib.experiments.runner import run_many
    from pfl_lib.experiments.spec import RunFailure, RunLeft
    from pfl_lib.federation.devices import cores

    if not missing:
        return 0
    began, until = time.monotonic(), time.time() + 3600 * (args.hours or math.inf)
    there = cores() if args.backend == "loky" else max(1, workers_of(args.scheduler))
    jobs = min(args.jobs or there, len(missing))
    rate, seconds = estimate(missing, jobs, args.data_dir, args.device)
    say(
        f"training {count(len(missing), 'run')}, {jobs} at a time: about {duration(seconds)} "
        f"({rate:,.0f} examples/s per process, measured just now)"
    )
    results = run_many(
        missing,
        store,
        # Not `jobs`: cores that few runs leave over train clients side by side, and a cluster may
        # grow
        args.jobs,
        args.data_dir,
        args.device,
        backend=args.backend,
        scheduler=args.scheduler,
        # What is missing is trained in any case, and what lacks its model has a result already
        with_model=True,
        until=until,
        in_order=in_order,
    )
    failures = [result for result in results if isinstance(result, RunFailure)]
    left = [result for result in results if isinstance(result, RunLeft)]
    for failure in failures:
        say(f"failed: {failure.spec.slug}: {failure.message}")
    words = f"trained {count(len(missing) - len(failures) - len(left), 'run')}"
    if left:
        stopped = sum(result.started for result in left)
        words += (
            f", stopped {stopped}, which the same command resumes, and left {len(left) - stopped},"
        )
    say(f"{words} in {duration(time.monotonic() - began)}")
    return len(failures)


def estimate(specs: Sequence, jobs: int, data_dir: Path | None, device: str) -> tuple[float, float]:
    """Examples per second of one process, measured for some seconds on the longest of the specs,
    and the seconds all of them will take.
    """
    from pfl_lib.engine.recording import WORTH_RECORDING
    from pfl_lib.experiments.runner import federation_of
    from pfl_lib.experiments.training import one_thread
    from pfl_lib.rows import copies

    longest = max(specs, key=lambda spec: spec.examples())
    # A few batches at a time: all that a client has may take minutes where networks are large.
    work = replace(longest.schedule, local_batches=BATCHES_TIMED, order="fixed")
    with one_thread():
        fed = federation_of(replace(longest, schedule=work), data_dir, device)
        clients = list(range(len(fed))) if fed.engine == "vmap" else [longest.alice or 0]
        rows, sizes = copies(fed.initial(), len(clients)), fed.sizes(clients)
        a_batch = (
            sizes / (sizes / work.batch_size).ceil()
        )  # on average: a client's last batch may be short
        rounds = itertools.count(1)

        def seconds() -> float:
            began = time.perf_counter()
            fed.train(rows, next(rounds), clients)
            return time.perf_counter() - began

        first, passes = [], []
        while (
            len(first) * BATCHES_TIMED < WORTH_RECORDING and sum(first) < 2.0
        ):  # the first steps are slower
            first.append(seconds())
        while sum(passes) < 1.0 or (len(passes) < 3 and sum(passes) < 5.0):
            passes.append(seconds())
    rate = (
        BATCHES_TIMED * float(a_batch.sum()) / statistics.median(passes)
    )  # one of them may have made a recording
    total = sum(spec.examples() for spec in specs)
    return rate, SECONDS_PER_WORKER + max(total / jobs, longest.examples()) / rate
