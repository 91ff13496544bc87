"""A folder of pages: which notebook becomes which file, execution, and the index over all of them.

Pages of a paper lie in a folder for each profile ("paper/waffle-table1.html"), so that none
overwrites another; those that belong to no paper lie beside the index.
"""

import posixpath
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pfl_lib.experiments.made import ROOT, code_version
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.pages import registry
from pfl_lib.pages.collect import Needed
from pfl_lib.pages.execute import Job, execute_all
from pfl_lib.pages.html import exporter, finish, styles
from pfl_lib.pages.registry import NotebookPage
from pfl_lib.pages.stamp import PAIRS, Stamp, made_from, read_stamp
from pfl_lib.papers import PRINTED, overview
from pfl_lib.papers.judge import LEVELS
from pfl_lib.progress import progress
from pfl_lib.results.store import Store

AT_ONCE = 2  # notebooks side by side; each kernel holds torch and pandas, about half a gigabyte
RESULTS, LIVE = ("paper", "small"), "quick"  # profiles, the best first


def page_name(page: NotebookPage, profile: str) -> str:
    """ "paper/waffle-table1.html"; the page called index.html is the table of all pages."""
    if not page.paper:
        return "start.html" if page.id == "index" else f"{page.id}.html"
    return f"{profile}/{page.id}.html"


def build(
    wanted: Sequence[tuple[NotebookPage, Needed]],
    parameters: Mapping[str, object],
    store: Store,
    reports: Path,
    again: bool,
) -> dict[str, Stamp]:
    """Execute notebooks, write their pages and the index into `reports`; returns the stamp of each
    page, by its name.

    `parameters` are those that all notebooks are given, beside the profile.  A page that would come
    out as it is already is left alone, unless `again`.
    """
    version, stamps, jobs, digests, before = code_version(), {}, [], {}, {}
    by_name = {page_name(page, needed.profile): (page, needed) for page, needed in wanted}
    for name, (page, needed) in by_name.items():
        executed = reports / "executed" / Path(name).with_suffix(".ipynb")
        given = {**parameters, "profile": needed.profile}
        given |= {"methods": list(page.methods)} if page.methods else {}
        digests[name] = made_from(page.path, given, behind(page, needed), store)
        before[name] = earlier = read_stamp(executed)
        fresh = earlier and earlier.status == "ok" and earlier.made_from == digests[name]
        if fresh and not again and (reports / name).is_file():
            stamps[name] = earlier
        else:
            jobs.append(Job(name, page.path, executed, given))
    if stamps:
        print(f"up to date: {', '.join(stamps)} (--again makes them anew)", flush=True)
    with progress(len(jobs), "notebooks", "notebook") as bar:

        def done(job: Job) -> None:
            page, needed = by_name[name := job.id]
            count, stored = len(needed.specs), [*filter(store.has, needed.specs)]
            size, seeds = needed.size, tuple(sorted({spec.seed for spec in stored}))
            small = needed.profile == "small"  # some of its runs may be the exact setting's too
            exact = set(page.needed("paper").specs if small else ()) - set(needed.specs)
            printed = [one.table.runs(one.profiles[needed.profile]) for one in page.printed]
            whole = printed and {*sum(printed, ())} <= {*stored}
            all_of = ", all of the paper's methods" if whole else ""
            stamp = Stamp(
                id=page.id,
                status="not run" if job.not_run else "failed" if job.error else "ok",
                profile=needed.profile,
                banner=replace(size, seeds=seeds or size.seeds).banner if size else "",
                version=version,
                finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                seconds=job.seconds,
                error=job.error,
                made_from=digests[name],
                runs="" if len(stored) == count else f"{len(stored)} of {count} runs{all_of}",
                exact=sum(map(store.has, exact)),
                megabytes=job.megabytes,
            )
            there = _seen_from(name, by_name, reports)
            stamps[name] = stamp = finish(job.output, reports / name, page, stamp, there)
            if stamp.error:
                bar.say(f"{stamp.status}: {name}: {stamp.error}")
            bar.update()

        try:
            execute_all(jobs, AT_ONCE, done)
        except KeyboardInterrupt:
            _write_index(reports, store, before)
            raise
    _write_index(reports, store, before)
    return stamps


def _write_index(reports: Path, store: Store, before: Mapping[str, Stamp | None]) -> None:
    """The index of the pages that are there; `before`: stamps of those that were to be made anew,
    which an interrupted notebook has lost.
    """
    print(f"writing {reports / 'index.html'}", flush=True)
    made = {}
    for path in sorted((reports / "executed").glob("**/*.ipynb")):
        name = path.relative_to(reports / "executed").with_suffix(".html").as_posix()
        if (reports / name).is_file() and (stamp := read_stamp(path) or before.get(name)):
            made[name] = stamp
    stored = {id for id, page in registry.pages().items() if page.most_stored(store.has)}
    told = overview.headline(overview.overview(PRINTED, store.find))
    (reports / "index.html").write_text(listing(made, told, stored), encoding="utf-8")


def behind(page: NotebookPage, needed: Needed) -> list[RunSpec]:
    """The runs that a page speaks of, each once: its own; beside smaller ones the exact ones; on
    the index and the scorecard all.
    """
    sizes = [*RESULTS, LIVE] if page.id in ("index", "scorecard") else []
    others = [one.needed(size) for one in registry.pages().values() for size in sizes]
    others += [page.needed("paper")] if page.paper and needed.profile == "small" else []
    return [*dict.fromkeys(spec for one in (needed, *others) for spec in one.specs)]


def _seen_from(name: str, wanted: Container[str], reports: Path) -> dict[str, str]:
    """Each page's address seen from one of them: in its own profile, else in the best there is."""
    folder = posixpath.dirname(name) or "."
    there = {"": posixpath.relpath("index.html", folder)}
    for id, page in registry.pages().items():
        names = [page_name(page, profile) for profile in (folder, *RESULTS, LIVE)]
        if found := [one for one in names if one in wanted or (reports / one).is_file()]:
            there[id] = posixpath.relpath(found[0], folder)
    return there


def listing(stamps: Mapping[str, Stamp], told: Sequence[str], stored: Container[str] = ()) -> str:
    """The index's HTML: the headline (`told`), then each page by paper: its picture, answer,
    verdicts, time and memory, then what the live check compared.

    `stamps`: of all pages that are there, by their names, such as "paper/waffle-table1.html";
    `stored`: the ids of pages that can be drawn, on the paper's data, without training.
    """
    pages = registry.pages()
    names: dict[str, dict[str, str]] = {id: {} for id in pages}
    for name, stamp in stamps.items():
        names.setdefault(stamp.id, {})[stamp.profile] = name
    best = {id: next((of[one] for one in RESULTS if one in of), None) for id, of in names.items()}
    live = [(page, names[id].get(LIVE)) for id, page in pages.items() if page.paper]
    template = exporter().environment.get_template("listing.html.j2")
    explained = ROOT / "docs" / "verdicts.md"  # an installed package has none
    return template.render(
        css=styles(),
        told=told,
        explained=explained.read_text(encoding="utf-8") if explained.is_file() else "",
        pages=pages,
        stamps=stamps,
        names=names,
        best=best,
        stored=stored,
        live=[(page, name, stamps[name]) for page, name in live if name],
        words=[*LEVELS, *PAIRS.values()],
    )
