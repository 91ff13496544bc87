"""`pfl-lib reproduce`: the papers' results from what is stored, and a live check of this machine.

Without `--profile` it draws each page from the runs that came with the checkout or are stored here
(no training, no download), then trains the quick profile and compares its numbers with recorded
ones.  With `--profile` it trains what is missing in that profile and builds its pages.

Runs that several notebooks show are trained once, before any notebook starts; the notebooks then
find them in the store.  What fails in one notebook stays in that notebook: its page says where it
stopped, the others go on, and the exit status tells.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pfl_lib.cli import arguments
from pfl_lib.cli.training import queue_of, train, train_queue
from pfl_lib.cli.words import duration, say
from pfl_lib.errors import BadInput
from pfl_lib.experiments.backends import BACKENDS, workers_of
from pfl_lib.experiments.stopping import interruptible

LIVE, SCORECARD = "quick", "scorecard"


def add_parser(subparsers) -> None:
    """Add `reproduce` to the command line."""
    parser = subparsers.add_parser(
        "reproduce",
        help="draw the papers' results, or train what is missing, and build the pages",
        description=(
            "Without --profile: draw every page of the papers from the runs that are stored or came"
            " with the checkout, then train the quick profile and compare its numbers with recorded"
            " ones.  With --profile: train what is missing, execute the notebooks, build one HTML"
            " page for each and an index.  Results are kept: interrupted or repeated, the command"
            " goes on where it stopped."
        ),
    )
    parser.add_argument(
        "--profile",
        choices=("quick", "small", "paper"),
        help="how much to run (the stored results, then quick)",
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
        help=(
            "train what is missing, make no pages: needs no notebook packages; without --only, of"
            " the paper profile what reports/queue.yaml names, in its order"
        ),
    )
    parser.add_argument(
        "--hours",
        type=arguments.hours,
        metavar="H",
        help="with --train-only: stop after so many hours; the next call resumes",
    )
    arguments.add_method(parser)
    parser.add_argument(
        "--again",
        action="store_true",
        help="execute every notebook, also where its page is up to date",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asks; 0 when every run and every notebook ended well, else 1.

    Pages whose runs are missing, where nothing is trained, are not run, which is no failure.
    """
    from pfl_lib.data import data_root
    from pfl_lib.federation.devices import choose_device
    from pfl_lib.results.store import Store

    exhibits = arguments.pages(args)
    if args.data_dir is not None and not data_root(args.data_dir).is_dir():
        raise BadInput(
            f"data folder {args.data_dir} does not exist: give the folder that holds the data sets"
        )
    choose_device(args.device)
    if args.scheduler is not None and args.backend != "dask":
        raise BadInput("--scheduler is for --backend dask: give both, or neither")
    if args.train_only and (args.again or args.reports_dir is not None):
        raise BadInput("--train-only makes no pages: leave --again and --reports-dir out")
    if args.hours is not None and not args.train_only:
        raise BadInput("--hours is for --train-only: give both, or neither")
    if args.backend == "dask":
        workers_of(args.scheduler)  # one clear line before anything starts
    store = Store(args.results_dir)
    if not args.plots_only:
        store.check_writable()
    with interruptible():
        if not args.train_only:
            return _pages(exhibits, args, store)
        name = args.profile or LIVE
        specs = None if args.only else queue_of(name, args.seeds)
        failures = (
            train(name, exhibits, args, store) if specs is None else train_queue(specs, args, store)
        )
        return 1 if failures else 0


def _pages(exhibits: Sequence, args: argparse.Namespace, store) -> int:
    """Build pages: of the profile asked for, or the stored results and then the live check."""
    from pfl_lib.pages.build import Folders, Wanted, write_index
    from pfl_lib.papers import printed_tables
    from pfl_lib.papers.overview import headline, overview

    began, failures, stamps, drawn = time.monotonic(), 0, {}, set()
    notebooks = notebooks_folder()
    folders = Folders(notebooks, args.reports_dir or notebooks.parent / "reports" / "build")
    folders.check_writable()
    if args.profile is None:
        stamps |= _build(_stored_pages(exhibits, args, store), args, store, folders)
        drawn = set(stamps)
        write_index(folders, store, headline(overview(PRINTED, store.find)))
        exhibits = [exhibit for exhibit in exhibits if exhibit.id != SCORECARD]
        if args.plots_only:
            exhibits = []
        elif exhibits:
            say(
                f"the papers' results are in {folders.reports / 'index.html'}; now the live check:"
                f" the {LIVE} profile is trained on this machine"
            )
    if exhibits:
        name = args.profile or LIVE
        failures = train(name, exhibits, args, store)
        wanted = [
            Wanted(exhibit, exhibit.profile(name, args.seeds), args.plots_only)
            for exhibit in exhibits
        ]
        stamps |= _build(wanted, args, store, folders)
        write_index(folders, store, headline(overview(PRINTED, store.find)))
    _closing_table(stamps, folders.reports, time.monotonic() - began)
    failed = [name for name, stamp in stamps.items() if stamp.status == "failed"]
    if (failures or failed) and args.profile is None and drawn.isdisjoint(failed):
        say("what failed is the live check; the pages of the papers' results do not rest on it")
    return 1 if failures or failed else 0


def _stored_pages(exhibits: Sequence, args: argparse.Namespace, store) -> list:
    """The papers' pages that stored runs can draw, each in the profile that most is stored of."""
    from pfl_lib.pages.build import Wanted
    from pfl_lib.papers.exhibits import most_stored

    papers = [exhibit for exhibit in exhibits if exhibit.paper]
    cards = [exhibit for exhibit in exhibits if exhibit.id == SCORECARD]
    best = [(exhibit, most_stored(exhibit, store.find, args.seeds)) for exhibit in papers]
    drawn = [Wanted(exhibit, profile, True) for exhibit, profile in best if profile is not None]
    say(
        f"{len(drawn)} of the papers' {len(papers)} pages are drawn from stored runs, nothing is"
        " trained for them; of the others no run is stored"
    )
    return [*drawn, *(Wanted(exhibit, exhibit.profile(LIVE), True) for exhibit in cards)]


def _build(wanted: Sequence, args: argparse.Namespace, store, folders) -> Mapping:
    from pfl_lib.pages.build import build

    parameters = {
        "seeds": args.seeds or 0,
        "data_dir": str(args.data_dir or ""),
        "results_dir": str(store.root),
        "jobs": args.jobs or 0,
        "device": args.device,
    }
    return build(wanted, parameters, store, folders, args.again, say)


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


def _closing_table(stamps: Mapping, reports: Path, seconds: float) -> None:
    width = max((len(name) for name in stamps), default=4)
    print(f"\n{'page':<{width}}  status   seconds")
    for name, stamp in stamps.items():
        print(f"{name:<{width}}  {stamp.status:<7}  {stamp.seconds:7.1f}")
    ended = [stamp.status for stamp in stamps.values()]
    counts = [f"{ended.count(word)} of {len(ended)} {word}; " for word in ("failed", "not run")]
    print("\n" + "".join(words for words in counts if words[0] != "0"), end="")
    only = next(iter(stamps)) if len(stamps) == 1 else "index.html"
    print(f"{duration(seconds)} in all; open {reports / only}")
