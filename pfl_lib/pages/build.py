"""A folder of pages: which notebook becomes which file, execution, and the index over all of them.

Pages of a paper lie in a folder for each profile ("paper/waffle-table1.html"), so that none
overwrites another; those that belong to no paper lie beside the index.
"""

import posixpath
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pfl_lib.errors import BadInput
from pfl_lib.experiments.made import code_version
from pfl_lib.pages import html, summary
from pfl_lib.pages.execute import Execution, Job, execute_all
from pfl_lib.pages.html import Links, Page, Stamp
from pfl_lib.pages.index import build_index
from pfl_lib.pages.up_to_date import made_from
from pfl_lib.papers.exhibits import Exhibit, most_stored
from pfl_lib.papers.profiles import Profile
from pfl_lib.progress import progress
from pfl_lib.results.store import Store

AT_ONCE = 2  # notebooks side by side; each kernel holds torch and pandas, about half a gigabyte
BEST_FIRST = ("paper", "small", "quick")


@dataclass(frozen=True)
class Wanted:
    """A page to build: of an exhibit, in a profile, from what is stored alone or with training."""

    exhibit: Exhibit
    profile: Profile
    plots_only: bool

    @property
    def name(self) -> str:
        """Its page, relative to the folder of all pages."""
        return page_name(self.exhibit, self.profile.name)


@dataclass(frozen=True)
class Folders:
    """Where notebooks are read and pages are written."""

    notebooks: Path
    reports: Path

    def executed(self, name: str) -> Path:
        """The executed notebook of a page."""
        return self.reports / "executed" / Path(name).with_suffix(".ipynb")

    def check_writable(self) -> None:
        """Make the folder of pages; BadInput where that, or writing into it, fails."""
        try:
            (self.reports / "executed").mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.reports):
                pass
        except OSError as error:
            raise BadInput(
                f"reports folder {self.reports} cannot be written ({error.strerror}): give another"
                " with --reports-dir"
            ) from None


def page_name(exhibit: Exhibit, profile: str) -> str:
    """ "paper/waffle-table1.html"; the page called index.html is the table of all pages."""
    if not exhibit.paper:
        return "start.html" if exhibit.id == "index" else f"{exhibit.id}.html"
    return f"{profile}/{exhibit.id}.html"


def build(
    wanted: Sequence[Wanted],
    parameters: Mapping[str, object],
    store: Store,
    folders: Folders,
    again: bool,
    say: Callable[[str], None],
) -> dict[str, Stamp]:
    """Execute notebooks and write their pages; returns the stamp of each page, by its name.

    `parameters` are those that all notebooks are given.  A page that would come out as it is
    already is left alone, unless `again`.
    """
    from pfl_lib.papers import EXHIBITS

    described = {id: _page(exhibit, folders) for id, exhibit in EXHIBITS.items()}
    version, stamps, jobs, digests = code_version(), {}, {}, {}
    for page in wanted:
        exhibit, executed = page.exhibit, folders.executed(page.name)
        given = {**parameters, "profile": page.profile.name, "plots_only": page.plots_only}
        if exhibit.methods:
            given["methods"] = list(exhibit.methods)
        # A page that belongs to no paper, such as the index, speaks of all runs.
        specs = exhibit.runs(page.profile) if exhibit.paper else _every_run(page.profile.name)
        notebook = described[exhibit.id].notebook
        digests[page.name] = made_from(notebook, given, specs, store)
        earlier = html.read_stamp(executed)
        fresh = earlier and earlier.status == "ok" and earlier.made_from == digests[page.name]
        if fresh and not again and (folders.reports / page.name).is_file():
            stamps[page.name] = earlier
        else:
            jobs[page.name] = Job(page.name, notebook, executed, given)
    if stamps:
        say(
            f"{len(stamps)} page{'s' * (len(stamps) > 1)} up to date ({', '.join(stamps)});"
            " --again makes them anew"
        )
    by_name = {page.name: page for page in wanted}
    with progress(len(jobs), "notebooks", "notebook") as bar:

        def finish(execution: Execution) -> None:
            page = by_name[execution.job.id]
            specs = page.exhibit.runs(page.profile)
            stored = sum(store.find(spec) is not None for spec in specs)
            links = _links(page, by_name, folders, described)
            stamp = Stamp(
                id=page.exhibit.id,
                status="not run" if execution.not_run else "failed" if execution.error else "ok",
                profile=page.profile.name,
                banner=_banner(page, stored, len(specs)) if page.exhibit.paper or specs else "",
                version=version,
                finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                seconds=execution.seconds,
                error=execution.error or "",
                made_from=digests[page.name],
                runs="" if stored == len(specs) else f"{stored} of {len(specs)} runs",
                megabytes=execution.megabytes,
                **summary.of_page(execution.job.output),
            )
            target = folders.reports / page.name
            target.parent.mkdir(parents=True, exist_ok=True)
            around = _around(page, described, links)
            stamps[page.name] = html.finish(
                execution.job.output, target, described[page.exhibit.id], stamp, links, around
            )
            if stamps[page.name].error:
                bar.say(f"{stamps[page.name].status}: {page.name}: {stamps[page.name].error}")
            bar.update()

        if jobs:
            execute_all(list(jobs.values()), AT_ONCE, finish)
    return stamps


def write_index(folders: Folders, store: Store, told: Sequence[str]) -> None:
    """Write the index over all pages that are there, below the headline `told`."""
    from pfl_lib.papers import EXHIBITS

    described = {id: _page(exhibit, folders) for id, exhibit in EXHIBITS.items()}
    of_papers = {
        id: page for id, page in EXHIBITS.items() if {"paper", "small"} <= {*page.profiles}
    }
    stored = {id for id, page in of_papers.items() if most_stored(page, store.find)}
    build_index(folders.reports, described, _known(folders), told, stored)


def _page(exhibit: Exhibit, folders: Folders) -> Page:
    notebook = folders.notebooks / exhibit.notebook
    if not notebook.is_file():
        raise BadInput(
            f"notebook {notebook} of {exhibit.id} is missing: restore it from the repository"
        )
    return Page(exhibit.id, exhibit.title, html.describe(notebook), notebook, exhibit.paper)


def _banner(page: Wanted, stored: int, runs: int) -> str:
    """The profile's, and how much of it there is where that is not all."""
    words = page.profile.banner
    return words if stored == runs else f"{words} Stored: {stored} of {runs} runs."


def _every_run(profile: str) -> list:
    from pfl_lib.papers import EXHIBITS

    return [run for exhibit in EXHIBITS.values() for run in exhibit.runs(exhibit.profile(profile))]


def _known(folders: Folders) -> dict[str, Stamp]:
    """The stamps of all pages that are there, by their names."""
    executed = folders.reports / "executed"
    names = {
        path.relative_to(executed).with_suffix(".html").as_posix(): path
        for path in sorted(executed.glob("**/*.ipynb"))
    }
    found = {name: html.read_stamp(path) for name, path in names.items()}
    return {
        name: stamp
        for name, stamp in found.items()
        if stamp is not None and (folders.reports / name).is_file()
    }


def _links(
    page: Wanted, wanted: Mapping[str, Wanted], folders: Folders, described: Mapping[str, Page]
) -> Links:
    """Where a page finds each other one: in its own profile, else in the best that is there or
    being built.
    """
    from pfl_lib.papers import EXHIBITS

    folder, pages = posixpath.dirname(page.name) or ".", {}
    for id, exhibit in EXHIBITS.items():
        names = [page_name(exhibit, name) for name in (page.profile.name, *BEST_FIRST)]
        there = (name for name in names if name in wanted or (folders.reports / name).is_file())
        if name := next(there, None):
            pages[id] = posixpath.relpath(name, folder)
    notebooks = {one.notebook.resolve(): id for id, one in described.items()}
    return Links(posixpath.relpath("index.html", folder), pages, notebooks)


def _around(
    page: Wanted, described: Mapping[str, Page], links: Links
) -> tuple[Page | None, Page | None]:
    """The page before and the one after, of those that are there."""
    ids = [id for id in described if id in links.pages]
    place = ids.index(page.exhibit.id)
    before = described[ids[place - 1]] if place else None
    return before, described[ids[place + 1]] if place + 1 < len(ids) else None
