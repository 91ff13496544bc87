"""`pfl-lib reproduce`: the papers' results from what is stored, and a live check of this machine.

Runs that several notebooks show are trained once, before any notebook starts; the notebooks then
find them in the store.  What fails in one notebook stays in that notebook: its page says where it
stopped, the others go on, and the exit status tells.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import click

from pfl_lib.cli import options
from pfl_lib.cli.training import queue_of, train
from pfl_lib.errors import BadInput
from pfl_lib.experiments.stopping import interruptible

LIVE, SCORECARD = "quick", "scorecard"
DEVICE = click.Choice(["auto", "cpu", "cuda"])
TRAIN_ONLY = (
    "train what is missing, make no pages: needs no notebook packages; without --only, of the paper"
    " profile what reports/queue.yaml names, in its order"
)


@click.command("reproduce")
@options.profile("how much to run (the stored results, then quick)")
@options.only
@options.seeds
@click.option("--jobs", type=options.NUMBER, metavar="N", help="runs side by side (one per core)")
@click.option("--data-dir", type=options.folder, metavar="D", help="folder of torchvision's data")
@options.store
@click.option("--reports-dir", type=options.folder, metavar="P", help="of pages (reports/build)")
@click.option("--device", type=DEVICE, default="auto", help="where to train (auto)")
@click.option("--scheduler", metavar="ADDRESS", help="of a Dask cluster, such as tcp://HOST:8786")
@click.option("--plots-only", is_flag=True, help="draw what is stored, train nothing")
@click.option("--train-only", is_flag=True, help=TRAIN_ONLY)
@click.option("--hours", type=float, metavar="H", help="--train-only: stop after so many hours")
@options.method
@click.option("--again", is_flag=True, help="also execute notebooks whose page is up to date")
def command(**given) -> int:
    """Draw the papers' results, or train what is missing, and build the pages.

    Without --profile: draw every page of the papers from the runs that are stored or came with the
    checkout, then train the quick profile and compare its numbers with recorded ones.  With
    --profile: train what is missing, execute the notebooks, build one HTML page for each and an
    index.  Results are kept: interrupted or repeated, the command goes on where it stopped.
    """
    asked = SimpleNamespace(**given)
    pages = options.pages(asked.only + asked.further, asked.method)
    _check(asked)
    if not asked.plots_only:
        asked.store.check_writable()
    with interruptible():
        if not asked.train_only:
            return _make_pages(pages, asked)
        name = asked.profile or LIVE
        queue = None if asked.only or asked.further else queue_of(name, asked.seeds)
        return 1 if train(name, pages, asked, queue) else 0


def _check(asked) -> None:
    """BadInput for options that do not go together, and for what is not there."""
    from pfl_lib.data import data_root
    from pfl_lib.federation.devices import choose_device

    hours, alone, pages = asked.hours, asked.train_only, asked.again or asked.reports_dir
    wrong = {
        f"data folder {asked.data_dir} does not exist: give the folder of the data sets": (
            asked.data_dir and not data_root(asked.data_dir).is_dir()
        ),
        "--plots-only and --train-only: give one of them": asked.plots_only and alone,
        "--plots-only trains nothing: leave --scheduler out": asked.plots_only and asked.scheduler,
        "--train-only makes no pages: leave --again and --reports-dir out": alone and pages,
        "--hours is for --train-only: give both, or neither": hours and not alone,
        f"--hours {hours}: give a number above 0": hours and not 0 < hours < math.inf or hours == 0,
    }
    for told in (told for told, applies in wrong.items() if applies):
        raise BadInput(told)
    choose_device(asked.device)


def _make_pages(pages: Sequence, asked) -> int:
    """Build pages: of the profile asked for, or the stored results and then the live check; 0 when
    every run and every notebook ended well, else 1.  A page that is not run is no failure.
    """
    from pfl_lib.pages.build import build
    from pfl_lib.pages.registry import notebooks_folder
    from pfl_lib.results.writing import check_writable

    began, failures, name = time.monotonic(), 0, asked.profile or LIVE
    store = asked.store
    reports = asked.reports_dir or notebooks_folder().parent / "reports" / "build"
    check_writable("reports folder", reports, "with --reports-dir", "executed")
    parameters = {"seeds": asked.seeds or 0, "jobs": asked.jobs or 0, "device": asked.device}
    parameters |= {"data_dir": str(asked.data_dir or ""), "results_dir": str(store.root)}
    parameters |= {"plots_only": asked.plots_only}
    drawn: Mapping = {}
    if asked.profile is None:
        given = parameters | {"plots_only": True}
        drawn = build(_stored(pages, asked), given, store, reports, asked.again)
        pages = [] if asked.plots_only else [page for page in pages if page.id != SCORECARD]
        if pages:
            index = reports / "index.html"
            print(f"the papers' results are in {index}; now the live check: the {LIVE} profile")
    stamps = dict(drawn)
    if pages:
        failures = train(name, pages, asked)
        wanted = [(page, page.needed(name, asked.seeds)) for page in pages]
        stamps |= build(wanted, parameters, store, reports, asked.again)
    if not stamps:
        why = "without --profile these are the papers' pages of which runs are stored"
        raise BadInput(f"nothing to draw: {why}; leave --plots-only out, or give --profile quick")
    _close(stamps, reports, time.monotonic() - began)
    failed = [name for name, stamp in stamps.items() if stamp.status == "failed"]
    if (failures or failed) and asked.profile is None and drawn.keys().isdisjoint(failed):
        print("what failed is the live check; the pages of the papers' results do not rest on it")
    return 1 if failures or failed else 0


def _stored(pages: Sequence, asked) -> list:
    """The papers' pages that stored runs can draw, each in the profile that most is stored of."""
    best = [(page, page.most_stored(asked.store.has, asked.seeds)) for page in pages if page.paper]
    drawn = [(page, needed) for page, needed in best if needed is not None]
    if best:
        words = f"{len(drawn)} of the papers' {len(best)} pages are drawn from stored runs"
        print(words, flush=True)
    return [*drawn, *((page, page.needed(LIVE)) for page in pages if page.id == SCORECARD)]


def _close(stamps: Mapping, reports: Path, seconds: float) -> None:
    import pandas as pd

    rows = [(name, stamp.status, round(stamp.seconds, 1)) for name, stamp in stamps.items()]
    print("\n" + pd.DataFrame(rows, columns=["page", "status", "seconds"]).to_string(index=False))
    ended = Counter(stamp.status for stamp in stamps.values())
    only = next(iter(stamps)) if len(stamps) == 1 else "index.html"
    words = ", ".join(f"{number} {status}" for status, number in ended.items())
    print(f"\n{words}; {seconds / 60:.1f} min in all; open {reports / only}")
