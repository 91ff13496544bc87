"""A folder of pages: which notebook becomes which file, execution, and the index over all of them.

Pages of a paper lie in a folder for each profile ("paper/waffle-table1.html"), so that none
overwrites another; those that belong to no paper lie beside the index.
"""

import posixpath
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pfl_lib.errors import BadInput
from pfl_lib.experiments.made import code_version
from pfl_lib.pages import registry
from pfl_lib.pages.collect import Needed
from pfl_lib.pages.execute import Execution, Job, execute_all
from pfl_lib.pages.html import TITLES, WHERE, exporter, finish, styles
from pfl_lib.pages.registry import NotebookPage
from pfl_lib.pages.stamp import PAIRS, Stamp, read_stamp
from pfl_lib.pages.up_to_date import made_from
from pfl_lib.papers import PRINTED, overview
from pfl_lib.papers.judge import LEVELS
from pfl_lib.progress import progress
from pfl_lib.results.store import Store

AT_ONCE = 2  # notebooks side by side; each kernel holds torch and pandas, about half a gigabyte
RESULTS, LIVE = ("paper", "small"), "quick"  # profiles, the best first


@dataclass(frozen=True)
class Wanted:
    """A page to build, in a profile, from what is stored alone or with training."""

    page: NotebookPage
    needed: Needed
    plots_only: bool

    @property
    def name(self) -> str:
        """Its page, relative to the folder of all pages."""
        return page_name(self.page, self.needed.profile)


def page_name(page: NotebookPage, profile: str) -> str:
    """ "paper/waffle-table1.html"; the page called index.html is the table of all pages."""
    if not page.paper:
        return "start.html" if page.id == "index" else f"{page.id}.html"
    return f"{profile}/{page.id}.html"


def check_writable(reports: Path) -> None:
    """Make the folder of pages; BadInput where that, or writing into it, fails."""
    try:
        (reports / "executed").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=reports):
            pass
    except OSError as error:
        raise BadInput(
            f"reports folder {reports} cannot be written ({error.strerror}): give another with"
            " --reports-dir"
        ) from None


def build(
    wanted: Sequence[Wanted],
    parameters: Mapping[str, object],
    store: Store,
    reports: Path,
    again: bool,
) -> dict[str, Stamp]:
    """Execute notebooks, write their pages and the index into `reports`; returns the stamp of each
    page, by its name.

    `parameters` are those that all notebooks are given.  A page that would come out as it is
    already is left alone, unless `again`.
    """
    version, stamps, jobs, digests = code_version(), {}, [], {}
    by_name = {one.name: one for one in wanted}
    for name, one in by_name.items():
        executed = reports / "executed" / Path(name).with_suffix(".ipynb")
        given = {**parameters, "profile": one.needed.profile, "plots_only": one.plots_only}
        if one.page.methods:
            given["methods"] = list(one.page.methods)
        # A page that belongs to no paper, such as the index, speaks of all runs.
        speaks_of = [one.page] if one.page.paper else registry.pages().values()
        specs = [spec for of in speaks_of for spec in of.needed(one.needed.profile).specs]
        specs = one.needed.specs if one.page.paper else specs
        digests[name] = made_from(one.page.path, given, specs, store)
        earlier = read_stamp(executed)
        fresh = earlier and earlier.status == "ok" and earlier.made_from == digests[name]
        if fresh and not again and (reports / name).is_file():
            stamps[name] = earlier
        else:
            jobs.append(Job(name, one.page.path, executed, given))
    if stamps:
        print(f"up to date: {', '.join(stamps)} (--again makes them anew)", flush=True)
    with progress(len(jobs), "notebooks", "notebook") as bar:

        def done(execution: Execution) -> None:
            name = execution.job.id
            one = by_name[name]
            count = len(one.needed.specs)
            stored = sum(store.find(spec) is not None for spec in one.needed.specs)
            stamp = Stamp(
                id=one.page.id,
                status="not run" if execution.not_run else "failed" if execution.error else "ok",
                profile=one.needed.profile,
                banner=one.needed.banner,
                version=version,
                finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                seconds=execution.seconds,
                error=execution.error,
                made_from=digests[name],
                runs="" if stored == count else f"{stored} of {count} runs",
                megabytes=execution.megabytes,
            )
            there = _seen_from(name, by_name, reports)
            stamp = finish(execution.job.output, reports / name, one.page, stamp, there)
            stamps[name] = stamp
            if stamp.error:
                bar.say(f"{stamp.status}: {name}: {stamp.error}")
            bar.update()

        if jobs:
            execute_all(jobs, AT_ONCE, done)
    _write_index(reports, store)
    return stamps


def _seen_from(name: str, wanted: Container[str], reports: Path) -> dict[str, str]:
    """The address of each page, seen from one of them: in its own profile, else in the best that is
    there or being built.
    """
    folder, there = posixpath.dirname(name) or ".", {}
    for id, page in registry.pages().items():
        names = [page_name(page, profile) for profile in (folder, *RESULTS, LIVE)]
        found = [one for one in names if one in wanted or (reports / one).is_file()]
        if found:
            there[id] = posixpath.relpath(found[0], folder)
    return {**there, "index": posixpath.relpath("index.html", folder)}


def _write_index(reports: Path, store: Store) -> None:
    """Write the index over all pages that are there."""
    executed, stamps = reports / "executed", {}
    for path in sorted(executed.glob("**/*.ipynb")):
        name = path.relative_to(executed).with_suffix(".html").as_posix()
        stamp = read_stamp(path)
        if stamp is not None and (reports / name).is_file():
            stamps[name] = stamp
    stored = {id for id, page in registry.pages().items() if page.most_stored(store.find)}
    told = overview.headline(overview.overview(PRINTED, store.find))
    (reports / "index.html").write_text(listing(stamps, told, stored), encoding="utf-8")


def listing(stamps: Mapping[str, Stamp], told: Sequence[str], stored: Container[str] = ()) -> str:
    """The index's HTML: the headline (`told`), then each page by paper: its picture, answer,
    verdicts, time and memory, then what the live check compared.

    `stamps`: of all pages that are there, by their names, such as "paper/waffle-table1.html";
    `stored`: the ids of pages of which some run on the paper's data is there, which can be drawn
    without training.
    """
    names: dict[str, dict[str, str]] = {id: {} for id in registry.pages()}
    for name, stamp in stamps.items():
        names.setdefault(stamp.id, {})[stamp.profile] = name
    best = {id: [of[one] for one in RESULTS if one in of] for id, of in names.items()}
    template = exporter().environment.get_template("listing.html.j2")
    return template.render(
        css=styles(),
        told=told,
        pages=registry.pages(),
        titles=TITLES,
        where=WHERE,
        stamps=stamps,
        names=names,
        best={id: of[0] if of else None for id, of in best.items()},
        stored=stored,
        live=[
            (page, of[LIVE], stamps[of[LIVE]])
            for id, page in registry.pages().items()
            if page.paper and LIVE in (of := names[id])
        ],
        words=[*LEVELS, *PAIRS.values()],
    )
