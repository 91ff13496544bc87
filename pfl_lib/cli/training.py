"""Training for `pfl-lib reproduce`: each missing run once, with an estimate of the time before."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # annotations only: the command line starts without torch and pandas
    from pfl_lib.experiments.spec import RunSpec
    from pfl_lib.pages.registry import NotebookPage

QUEUE = Path(__file__).resolve().parents[2] / "reports" / "queue.yaml"
BATCHES = 8  # timed at once, to see how fast this machine is


def train(
    name: str, pages: Sequence["NotebookPage"], asked, queue: "list[RunSpec] | None" = None
) -> int:
    """Train what the pages need in the profile of that name and is not stored yet, each run once
    however many pages show it; returns how many failed.

    With a `queue` its runs are trained in their place, in its order.  `asked`: the options of
    `reproduce`; training ends after its `hours`.
    """
    from pfl_lib.experiments.runner import run_many
    from pfl_lib.experiments.spec import RunFailure, RunLeft
    from pfl_lib.federation.devices import cores

    store = asked.store
    needed = [page.needed(name, asked.seeds) for page in pages] if queue is None else []
    alone = f"{QUEUE.name} alone (--only names other pages)"
    about = f"{len(pages)} pages" if queue is None else alone
    specs = {spec.key: spec for spec in queue or [s for of in needed for s in of.specs]}
    # What is only drawn is drawn as it is stored.
    models = {spec.key for of in needed for spec in of.models if not asked.plots_only}
    missing = [s for key, s in specs.items() if store.find(s, with_model=key in models) is None]
    stored = f"{len(specs) - len(missing)} of {len(specs)} runs stored in {store.root} or published"
    print(f"{name} profile, {about}: {stored}", flush=True)
    if missing and asked.plots_only:
        print("the others are shown as not run (--plots-only)", flush=True)
    if not missing or asked.plots_only:
        return 0
    began, until = time.monotonic(), time.time() + 3600 * (asked.hours or math.inf)
    if asked.scheduler:
        print(f"training {len(missing)} on the cluster at {asked.scheduler}", flush=True)
    else:
        jobs = min(asked.jobs or cores(), len(missing))
        minutes = estimate(missing, jobs, asked.data_dir, asked.device) / 60
        print(f"training {len(missing)}, {jobs} at a time: about {minutes:.1f} min", flush=True)
    # Not `jobs`: cores left over by few runs train clients side by side, a cluster may grow
    place = (asked.jobs, asked.data_dir, asked.device)
    # What is missing is trained in any case, and what lacks its model has a result already
    how = {"with_model": True, "until": until, "in_order": queue is not None}
    results = run_many(missing, store, *place, scheduler=asked.scheduler, **how)
    failures = [result for result in results if isinstance(result, RunFailure)]
    left = [result for result in results if isinstance(result, RunLeft)]
    for failure in failures:
        print(f"failed: {failure.spec.slug}: {failure.message}")
    words = f"trained {len(missing) - len(failures) - len(left)}, failed {len(failures)}"
    if left:
        stopped = sum(result.started for result in left)
        words += f", stopped {stopped}, not started {len(left) - stopped} (the command resumes)"
    print(f"{words}, in {(time.monotonic() - began) / 60:.1f} min", flush=True)
    return len(failures)


def queue_of(profile: str, seeds: int | None) -> "list[RunSpec] | None":
    """The queue's runs of a profile, those with seeds 1 to `seeds`; None where it has no queue."""
    from pfl_lib.experiments.queue import queued
    from pfl_lib.pages.registry import page

    specs = queued(QUEUE, profile, lambda id: page(id).needed(profile).specs)
    return specs and [spec for spec in specs if seeds is None or spec.seed <= seeds]


def estimate(specs: Sequence["RunSpec"], jobs: int, data_dir: Path | None, device: str) -> float:
    """The seconds that all the runs will take, by a few batches of the longest of each kind.

    A kind that fails counts nothing: training tells why and goes on.  Where all fail it is raised.
    """
    kinds = {spec: (spec.dataset, spec.model, spec.schedule.batch_size) for spec in specs}
    longest = {kinds[spec]: spec for spec in sorted(specs, key=lambda spec: spec.examples())}
    pace: dict[tuple, float] = {}
    for kind, spec in longest.items():
        try:
            pace[kind] = _seconds(spec, data_dir, device)
        except Exception:  # such as a split that cannot be dealt
            if not pace and spec is [*longest.values()][-1]:
                raise
    each = [spec.examples() * pace[kind] for spec, kind in kinds.items() if kind in pace]
    return max(sum(each) / jobs, *each)


def _seconds(spec: "RunSpec", data_dir: Path | None, device: str) -> float:
    """The time that an example's gradient takes in a run."""
    from pfl_lib.experiments.runner import federation_of
    from pfl_lib.experiments.training import one_thread
    from pfl_lib.rows import copies

    of_run = {"local_batches": BATCHES, "local_epochs": 1, "order": "fixed", "private": None}
    work = replace(spec.schedule, **of_run)
    with one_thread():
        fed = federation_of(replace(spec, schedule=work), data_dir, device)
        clients = list(range(len(fed))) if fed.engine == "vmap" else [spec.alice or 0]
        rows, sizes = copies(fed.initial(), len(clients)), fed.sizes(clients)
        batches = (sizes / work.batch_size).ceil()  # of an epoch, the last one may be short
        taken: list[float] = []
        while len(taken) < 2 or sum(taken) < 0.5:  # the first one is slower
            began = time.perf_counter()
            fed.train(rows, len(taken) + 1, clients)
            taken.append(time.perf_counter() - began)
    return min(taken) / (BATCHES * float((sizes / batches).sum()))
