"""`pfl-lib reproduce`: train what is missing, execute the notebooks, build their pages.

Runs that several notebooks show are trained once, before any notebook starts; the notebooks then
find them in the store.  What fails in one notebook stays in that notebook: its page says where it
stopped, the others go on, and the exit status tells.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pfl_lib.cli import arguments
from pfl_lib.errors import BadInput
from pfl_lib.experiments.backends import BACKENDS, workers_of

BATCHES_TIMED = 8  # at a time, to see how fast this machine is
AT_ONCE = 2  # notebooks side by side; each kernel holds torch and pandas, about half a gigabyte
SECONDS_PER_WORKER = 4.0


def add_parser(subparsers) -> None:
    """Add `reproduce` to the command line."""
    parser = subparsers.add_parser(
        "reproduce",
        help="train what is missing, execute the notebooks, build the pages",
        description=(
            "Train what is missing, execute the notebooks, build one HTML page for each and an"
            " index.  Results are kept: interrupted or repeated, the command goes on where it"
            " stopped."
        ),
    )
    parser.add_argument(
        "--profile",
        choices=("quick", "small", "paper"),
        default="quick",
        help="how much to run (quick)",
    )
    arguments.add_only(parser)
    parser.add_argument(
        "--seeds",
        type=arguments.at_least_one,
        metavar="N",
        help="seeds 1 to N, not the profile's own",
    )
    parser.add_argument(
        "--jobs", type=arguments.at_least_one, metavar="N", help="runs side by side (one per core)"
    )
    parser.add_argument(
        "--data-dir",
        type=arguments.folder,
        metavar="D",
        help="folder of the data, laid out as torchvision's",
    )
    arguments.add_results_dir(parser)
    parser.add_argument(
        "--reports-dir",
        type=arguments.folder,
        metavar="P",
        help="folder for the pages (reports/build)",
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train (auto)"
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="loky",
        help="train in processes here, or on a Dask cluster (loky)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of the Dask scheduler, such as tcp://127.0.0.1:8786",
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--plots-only", action="store_true", help="draw what is stored, train nothing"
    )
    only.add_argument(
        "--train-only",
        action="store_true",
        help="train what is missing, make no pages: needs no notebook packages",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="execute every notebook, also where its page is up to date",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asks; 0 when every run and every notebook ended well, else 1.

    Pages whose runs are missing, with --plots-only, are not run, which is no failure.
    """
    from pfl_lib.data import data_root
    from pfl_lib.federation.devices import choose_device
    from pfl_lib.papers import EXHIBITS, exhibit
    from pfl_lib.results.store import Store

    began = time.monotonic()
    exhibits = (
        [exhibit(id) for id in dict.fromkeys(args.only)] if args.only else list(EXHIBITS.values())
    )
    if args.data_dir is not None and not data_root(args.data_dir).is_dir():
        raise BadInput(
            f"data folder {args.data_dir} does not exist: give the folder that holds the data sets"
        )
    choose_device(args.device)
    if args.scheduler is not None and args.backend != "dask":
        raise BadInput("--scheduler is for --backend dask: give both, or neither")
    if args.train_only and (args.again or args.reports_dir is not None):
        raise BadInput("--train-only makes no pages: leave --again and --reports-dir out")
    if args.backend == "dask":
        workers_of(args.scheduler)  # one clear line before anything starts
    store = Store(args.results_dir)
    if not args.plots_only:
        store.check_writable()
    if args.train_only:
        return 1 if train(exhibits, args, store) else 0
    folder = notebooks_folder()
    reports = args.reports_dir or folder.parent / "reports" / "build"
    _check_writable(reports)
    failures = train(exhibits, args, store)
    stamps = build(exhibits, args, store, folder, reports)
    _closing_table(exhibits, stamps, reports, time.monotonic() - began)
    return 1 if failures or any(stamp.status == "failed" for stamp in stamps.values()) else 0


def notebooks_folder() -> Path:
    """The folder of notebooks: beside the package in a checkout, else `notebooks` here; BadInput
    when there is none.
    """
    candidates = [Path(__file__).resolve().parents[2] / "notebooks", Path.cwd() / "notebooks"]
    for candidate in candidates:
        if (candidate / "00_index.ipynb").is_file():
            return candidate
    raise BadInput(
        f"no notebooks in {' or '.join(map(str, candidates))}: run the command in a clone of the"
        " repository"
    )


def train(exhibits: Sequence, args: argparse.Namespace, store) -> int:
    """Run the specs that are not stored yet, each once however many pages show it; returns how many
    failed.
    """
    from pfl_lib.experiments.runner import run_many
    from pfl_lib.experiments.spec import RunFailure
    from pfl_lib.federation.devices import cores

    pages = [(exhibit, exhibit.profile(args.profile, args.seeds)) for exhibit in exhibits]
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
    _say(
        f"{args.profile} profile: {_count(len(exhibits), 'page')}, {_count(len(specs), 'run')}"
        f" behind {'it' if len(exhibits) == 1 else 'them'}, {len(specs) - len(missing)} stored in"
        f" {store.root} or published"
    )
    if not missing:
        return 0
    if args.plots_only:
        _say(f"{_count(len(missing), 'run')} missing: shown as not run (--plots-only)")
        return 0
    there = cores() if args.backend == "loky" else max(1, workers_of(args.scheduler))
    jobs = min(args.jobs or there, len(missing))
    rate, seconds = estimate(missing, jobs, args.data_dir, args.device)
    _say(
        f"training {_count(len(missing), 'run')}, {jobs} at a time: about {_duration(seconds)} "
        f"({rate:,.0f} examples/s per process, measured just now)"
    )
    began = time.monotonic()
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
    )
    failures = [result for result in results if isinstance(result, RunFailure)]
    for failure in failures:
        _say(f"failed: {failure.spec.slug}: {failure.message}")
    _say(
        f"trained {_count(len(missing) - len(failures), 'run')} in"
        f" {_duration(time.monotonic() - began)}"
    )
    return len(failures)


def estimate(specs: Sequence, jobs: int, data_dir: Path | None, device: str) -> tuple[float, float]:
    """Examples per second of one process, measured for some seconds on the longest of the specs,
    and the seconds all of them will take.
    """
    from pfl_lib.engine.recording import WORTH_RECORDING
    from pfl_lib.experiments.runner import federation_of, one_thread
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


def build(exhibits: Sequence, args: argparse.Namespace, store, folder: Path, reports: Path) -> dict:
    """Execute the notebooks and write their pages and the index; returns the stamp of each page by
    id.

    A page that would come out as it is already is left alone.
    """
    from pfl_lib.pages import html
    from pfl_lib.pages.execute import Execution, Job, execute_all
    from pfl_lib.pages.index import build_index
    from pfl_lib.pages.notebook import code_version
    from pfl_lib.pages.up_to_date import made_from
    from pfl_lib.papers import EXHIBITS
    from pfl_lib.progress import progress

    pages = {exhibit.id: _page(exhibit, folder) for exhibit in EXHIBITS.values()}
    links = {page.notebook.name: page.name for page in pages.values()}
    in_order = list(pages.values())
    around = {
        page.id: (before, after)
        for before, page, after in zip(
            [None, *in_order], in_order, [*in_order[1:], None], strict=False
        )
    }
    parameters = {
        "profile": args.profile,
        "seeds": args.seeds or 0,
        "data_dir": str(args.data_dir or ""),
        "results_dir": str(store.root),
        "jobs": args.jobs or 0,
        "device": args.device,
        "plots_only": args.plots_only,
    }
    profiles = {
        exhibit.id: exhibit.profile(args.profile, args.seeds) for exhibit in EXHIBITS.values()
    }
    everything = [
        spec for exhibit in EXHIBITS.values() for spec in exhibit.runs(profiles[exhibit.id])
    ]
    version, stamps, jobs, digests = code_version(), {}, [], {}
    for exhibit in exhibits:
        page, executed = pages[exhibit.id], _executed(reports, exhibit.id)
        # A page that belongs to no paper, the index, speaks of all runs.
        specs = exhibit.runs(profiles[exhibit.id]) if exhibit.paper else everything
        digests[exhibit.id] = made_from(page.notebook, parameters, specs, store)
        earlier = html.read_stamp(executed)
        if (
            not args.again
            and _is_fresh(earlier, digests[exhibit.id])
            and (reports / page.name).is_file()
        ):
            stamps[exhibit.id] = earlier
        else:
            jobs.append(Job(exhibit.id, page.notebook, executed, parameters))
    if stamps:
        _say(
            f"{_count(len(stamps), 'page')} up to date ({', '.join(stamps)}); --again makes them"
            " anew"
        )
    with progress(len(jobs), "notebooks", "notebook") as bar:

        def finish(execution: Execution) -> None:
            id, profile = execution.job.id, profiles[execution.job.id]
            specs = EXHIBITS[id].runs(profile)
            stored = sum(store.find(spec) is not None for spec in specs)
            stamp = html.Stamp(
                id=id,
                status="not run" if execution.not_run else "failed" if execution.error else "ok",
                profile=profile.name,
                banner=profile.banner,
                version=version,
                finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                seconds=execution.seconds,
                error=execution.error or "",
                made_from=digests[id],
                runs="" if stored == len(specs) else f"{stored} of {len(specs)} runs",
            )
            stamps[id] = html.finish(
                execution.job.output, reports / pages[id].name, pages[id], stamp, links, around[id]
            )
            if stamps[id].error:
                bar.say(f"{stamps[id].status}: {id}: {stamps[id].error}")
            bar.update()

        if jobs:
            execute_all(jobs, AT_ONCE, finish)
    known = {
        id: stamp for id in pages if (stamp := html.read_stamp(_executed(reports, id))) is not None
    }
    build_index(reports, list(pages.values()), {**known, **stamps})
    return stamps


def _is_fresh(earlier, digest: str) -> bool:
    return earlier is not None and earlier.status == "ok" and earlier.made_from == digest


def _page(exhibit, folder: Path):
    from pfl_lib.pages.html import Page, describe

    notebook = folder / exhibit.notebook
    if not notebook.is_file():
        raise BadInput(
            f"notebook {notebook} of {exhibit.id} is missing: restore it from the repository"
        )
    # The page called index.html is the table of all pages.
    name = "start.html" if exhibit.id == "index" else f"{exhibit.id}.html"
    return Page(exhibit.id, name, exhibit.title, describe(notebook), notebook, exhibit.paper)


def _executed(reports: Path, id: str) -> Path:
    return reports / "executed" / f"{id}.ipynb"


def _check_writable(reports: Path) -> None:
    try:
        (reports / "executed").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=reports):
            pass
    except OSError as error:
        raise BadInput(
            f"reports folder {reports} cannot be written ({error.strerror}): give another with"
            " --reports-dir"
        ) from None


def _closing_table(exhibits: Sequence, stamps: dict, reports: Path, seconds: float) -> None:
    width = max(len(exhibit.id) for exhibit in exhibits)
    print(f"\n{'page':<{width}}  status   seconds")
    for exhibit in exhibits:
        stamp = stamps[exhibit.id]
        print(f"{exhibit.id:<{width}}  {stamp.status:<7}  {stamp.seconds:7.1f}")
    ended = [stamp.status for stamp in stamps.values()]
    counts = [f"{ended.count(word)} of {len(ended)} {word}; " for word in ("failed", "not run")]
    print("\n" + "".join(words for words in counts if words[0] != "0"), end="")
    print(f"{_duration(seconds)} in all; open {reports / 'index.html'}")


def _say(line: str) -> None:
    print(line, flush=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
