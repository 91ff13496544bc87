"""Numbers of one page that lead to their runs on another: from the scorecard to a table's page.

What can be linked to is known when all pages are there, so links are set last, and anew whenever
pages were added or removed.
"""

import functools
import html
import re
from collections.abc import Callable
from pathlib import Path

from pfl_lib.display.table_format import run_place

Where = Callable[[str, str], str]  # of a page's id and a profile, the page relative to the folder
MARKED = re.compile(
    r'<a class="of-run"(?: href="[^"]*")?'
    r' data-page="([^"]*)" data-profile="([^"]*)" data-run="([^"]*)">'
)


def listed(text: str) -> frozenset[str]:
    """The ids that a page's list of runs has (`run_place`)."""
    return frozenset(re.findall(r'\bid="(run-[^"]*)"', text))


def mark_runs(words: str, page: str, profile: str, slug: str) -> str:
    """Words in HTML that will lead to the runs on a page, the first of them `slug`; no link yet."""
    return f"{_mark(page, profile, html.escape(run_place(slug)))}{words}</a>"


def link_runs(file: Path, where: Where) -> None:
    """Let what `mark_runs` marked in a page lead to its runs, where that page and its list of them
    are there; elsewhere it is no link.

    `where` gives pages relative to the folder of `file`.
    """

    @functools.cache
    def places(name: str) -> frozenset[str]:
        """The ids of a page's runs."""
        there = file.parent / name
        return listed(there.read_text(encoding="utf-8") if there.is_file() else "")

    def linked(found: re.Match) -> str:
        page, profile, run = found.groups()
        name = where(page, profile)
        link = f' href="{name}#{run}"' if run in places(name) else ""
        return _mark(page, profile, run, link)

    file.write_text(MARKED.sub(linked, file.read_text(encoding="utf-8")), encoding="utf-8")


def _mark(page: str, profile: str, run: str, link: str = "") -> str:
    return f'<a class="of-run"{link} data-page="{page}" data-profile="{profile}" data-run="{run}">'
