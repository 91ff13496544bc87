"""A folder of pages: which notebook becomes which file, execution, and the index over all of them.

Pages of a paper lie in a folder for each profile ("paper/waffle-table1.html"), so that none
overwrites another; those that belong to no paper lie beside the index.
"""

import json
import posixpath
import re
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pfl_lib.errors import BadInput
from pfl_lib.experiments.made import code_version
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.pages.execute import Execution, Job, execute_all
from pfl_lib.pages.html import Links, Stamp, finish, read_stamp
from pfl_lib.pages.index import summary, write_index
from pfl_lib.pages.registry import NotebookPage
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
) -> dict[str, Stamp]:
    """Execute notebooks, write their pages and the index; returns the stamp of each page, by its
    name.

    `parameters` are those that all notebooks are given.  A page that would come out as it is
    already is left alone, unless `again`.
    """
    pages = _pages(folders)
    version, stamps, jobs, digests = code_version(), {}, {}, {}
    by_name = {page.name: page for page in wanted}
    for name, page in by_name.items():
        exhibit, executed = page.exhibit, folders.executed(name)
        given = {**parameters, "profile": page.profile.name, "plots_only": page.plots_only}
        if exhibit.methods:
            given["methods"] = list(exhibit.methods)
        # A page that belongs to no paper, such as the index, speaks of all runs.
        specs = exhibit.runs(page.profile) if exhibit.paper else _every_run(page.profile.name)
        notebook = pages[exhibit.id].path
        digests[name] = made_from(notebook, given, specs, store)
        earlier = read_stamp(executed)
        fresh = earlier and earlier.status == "ok" and earlier.made_from == digests[name]
        if fresh and not again and (folders.reports / name).is_file():
            stamps[name] = earlier
        else:
            jobs[name] = Job(name, notebook, executed, given)
    if stamps:
        print(f"up to date: {', '.join(stamps)} (--again makes them anew)", flush=True)
    with progress(len(jobs), "notebooks", "notebook") as bar:

        def done(execution: Execution) -> None:
            page = by_name[execution.job.id]
            specs = page.exhibit.runs(page.profile)
            stored = sum(store.find(spec) is not None for spec in specs)
            stamp = Stamp(
                id=page.exhibit.id,
                status="not run" if execution.not_run else "failed" if execution.error else "ok",
                profile=page.profile.name,
                banner=page.profile.banner if page.exhibit.paper or specs else "",
                version=version,
                finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                seconds=execution.seconds,
                error=execution.error or "",
                made_from=digests[page.name],
                runs="" if stored == len(specs) else f"{stored} of {len(specs)} runs",
                megabytes=execution.megabytes,
                **summary(execution.job.output),
            )
            target = folders.reports / page.name
            target.parent.mkdir(parents=True, exist_ok=True)
            links = _links(page, by_name, folders, pages)
            described = pages[page.exhibit.id]
            stamp = finish(execution.job.output, target, described, stamp, links)
            stamps[page.name] = stamp
            if stamp.error:
                bar.say(f"{stamp.status}: {page.name}: {stamp.error}")
            bar.update()

        if jobs:
            execute_all(list(jobs.values()), AT_ONCE, done)
    _write_index(folders, pages, store)
    return stamps


def _every_run(profile: str) -> list[RunSpec]:
    from pfl_lib.papers import EXHIBITS

    return [run for exhibit in EXHIBITS.values() for run in exhibit.runs(exhibit.profile(profile))]


def _write_index(folders: Folders, pages: Mapping[str, NotebookPage], store: Store) -> None:
    """Write the index over all pages that are there."""
    from pfl_lib.papers import EXHIBITS, PRINTED
    from pfl_lib.papers.overview import headline, overview

    executed = folders.reports / "executed"
    stamps = {}
    for path in sorted(executed.glob("**/*.ipynb")):
        name = path.relative_to(executed).with_suffix(".html").as_posix()
        stamp = read_stamp(path)
        if stamp is not None and (folders.reports / name).is_file():
            stamps[name] = stamp
    stored = {
        id
        for id, page in EXHIBITS.items()
        if {"paper", "small"} <= {*page.profiles} and most_stored(page, store.find)
    }
    told = headline(overview(PRINTED, store.find))
    write_index(folders.reports, pages, stamps, told, stored)


def _pages(folders: Folders) -> dict[str, NotebookPage]:
    """All pages by id, in reading order; BadInput where a notebook is missing."""
    from pfl_lib.papers import EXHIBITS

    found = {}
    for id, exhibit in EXHIBITS.items():
        path = folders.notebooks / exhibit.notebook
        if not path.is_file():
            raise BadInput(f"notebook {path} of {id} is missing: restore it from the repository")
        found[id] = NotebookPage(id, exhibit.paper, exhibit.title, _about(path), path)
    return found


def _about(notebook: Path) -> str:
    """The first sentence below a notebook's heading, links as their words."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = next(("".join(c["source"]) for c in cells if c["cell_type"] == "markdown"), "")
    paragraph = text.strip().partition("\n")[2].strip().split("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0]
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", sentence)


def _links(
    page: Wanted, wanted: Container[str], folders: Folders, pages: Mapping[str, NotebookPage]
) -> Links:
    """Where a page finds each other one: in its own profile, else in the best that is there or
    being built.
    """
    from pfl_lib.papers import EXHIBITS

    folder, there = posixpath.dirname(page.name) or ".", {}
    for id, exhibit in EXHIBITS.items():
        for profile in (page.profile.name, *BEST_FIRST):
            name = page_name(exhibit, profile)
            if name in wanted or (folders.reports / name).is_file():
                there[id] = posixpath.relpath(name, folder)
                break
    notebooks = {one.path.resolve(): id for id, one in pages.items()}
    titles = {id: one.title for id, one in pages.items()}
    return Links(posixpath.relpath("index.html", folder), there, notebooks, titles)
