"""Executed notebooks as web pages that need nothing else.

A page carries its pictures, styles and numbers in one file: opened offline it asks the network for
nothing (`faults` checks it), and every figure has its alt text.  What a page looks like stands in
`templates/page`.  What the index says of it stands in the executed notebook's own metadata, so the
index is built from the folder alone and remembers pages of earlier runs.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

from pfl_lib.pages.cited import WHERE
from pfl_lib.pages.page import ANSWER, COMPARED
from pfl_lib.pages.registry import NotebookPage

LARGEST = 1_000_000  # bytes of a page
TEMPLATES = Path(__file__).parent / "templates"
SCORECARD = {ANSWER, COMPARED}  # kinds of outputs that the scorecard reads
SET_UP = {"parameters", "injected-parameters", "settings", "runs"}  # tags of cells that go down


@dataclass(frozen=True)
class Links:
    """Where a page finds the others: the index, and each page that is there by its id, in reading
    order; `notebooks` are the ids of all notebooks by their files.
    """

    index: str = "index.html"
    pages: Mapping[str, str] = field(default_factory=dict)
    notebooks: Mapping[Path, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    def beside(self, id: str, step: int) -> tuple[str, str] | None:
        """Address and title of the page before (-1) or after (1) a page; None where it ends."""
        ids = list(self.pages)
        place = ids.index(id) + step if id in ids else -1
        if not 0 <= place < len(ids):
            return None
        return self.pages[ids[place]], self.titles[ids[place]]


@dataclass(frozen=True)
class Stamp:
    """How and when a page was made; `status` is "ok", "failed" or, where the runs behind it are
    missing, "not run"; `finished` is a UTC time such as "2026-11-21 08:30".

    `made_from` is the digest of what it was made from (`up_to_date`); `runs` says "42 of 150 runs"
    where some were missing; `megabytes` is the most memory that its kernel held, 0 where unknown.
    `answer` (Markdown), `picture` (a data URI), `compared` (values that agree with recorded ones)
    and `verdicts` (how many of each) are what the index says of the page.
    """

    id: str
    status: str
    profile: str
    banner: str
    version: str
    finished: str
    seconds: float
    error: str = ""
    made_from: str = ""
    runs: str = ""
    megabytes: int = 0
    answer: str = ""
    picture: str = ""
    compared: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)


def finish(executed: Path, file: Path, page: NotebookPage, stamp: Stamp, links: Links) -> Stamp:
    """Write the page of an executed notebook, and its stamp into the notebook; returns the stamp.

    A page that is not what a page has to be (a figure without alt text, something to be fetched
    from elsewhere, more than `LARGEST`) is written and counts as failed.
    """
    import nbformat

    if executed.is_file():
        notebook = nbformat.read(str(executed), as_version=4)
    else:  # papermill could not even read its source
        title = nbformat.v4.new_markdown_cell(f"# {page.title}")
        notebook = nbformat.v4.new_notebook(cells=[title])
    text = render(notebook, page, stamp, links)
    wrong = faults(text)
    if wrong and stamp.status == "ok":
        stamp = replace(stamp, status="failed", error=wrong[0])
        text = render(notebook, page, stamp, links)
    file.write_text(text, encoding="utf-8")
    notebook.metadata["pfl_lib"] = asdict(stamp)
    nbformat.write(notebook, str(executed))
    return stamp


def read_stamp(path: Path) -> Stamp | None:
    """The stamp of an executed notebook; None where there is no such file, or one without a
    stamp.
    """
    try:
        return Stamp(**json.loads(path.read_text(encoding="utf-8"))["metadata"]["pfl_lib"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def exporter():
    """nbconvert's exporter with the templates of this package."""
    from nbconvert import HTMLExporter

    found = HTMLExporter(
        template_name="page", extra_template_basedirs=[str(TEMPLATES)], anchor_link_text="#"
    )
    found.log.setLevel("ERROR")  # it warns of missing alt text, which is a fault here
    return found


def render(notebook, page: NotebookPage, stamp: Stamp, links: Links) -> str:
    """The HTML of an executed notebook (an nbformat node)."""
    import nbformat

    shown = nbformat.from_dict(notebook)
    shown.metadata.pop("widgets", None)
    for cell in shown.cells:  # what is left for the scorecard alone is nothing to see
        cell.outputs = [
            out for out in cell.get("outputs", []) if not SCORECARD & {*out.get("data", ())}
        ]
    shown.cells = in_reading_order(shown.cells, stamp.status == "not run")
    facts = {
        "page": page,
        "stamp": stamp,
        "links": links,
        "css": styles(),
        "paper_at": WHERE.get(page.paper),
    }
    text, _ = exporter().from_notebook_node(shown, resources={"pfl_lib": facts})

    def page_link(found: re.Match) -> str:
        """A link to a notebook as a link to its page, or to the index where that is not there."""
        id = links.notebooks.get((page.path.parent / found[1]).resolve())
        there = links.pages.get(id)
        address = f"{there}{found[2] or ''}" if there else links.index
        return f'href="{address}"' if id else found[0]

    text = re.sub(r'href="([^":#]+\.ipynb)(#[^"]*)?"', page_link, text)
    return with_contents(text)


def in_reading_order(cells: Sequence, not_run: bool = False) -> list:
    """The cells as a page shows them: the question, the answer, the rest, and before the checks
    what sets the notebook up.  Of a page that was not run, its prose.

    A notebook begins with its parameters, since papermill looks for them; a page is read from the
    top.  Where the set-up or the answer failed, that is the first thing to be read.
    """
    import nbformat

    def tags(cell) -> set[str]:
        return set(cell.metadata.get("tags", []))

    # papermill's own red headlines say less than the banner, which links to the failed cell.
    cells = [cell for cell in cells if "papermill-error-cell-tag" not in tags(cell)]
    if not_run:
        prose = [cell for cell in cells if cell.cell_type == "markdown"]
        return [cell for cell in prose if not re.fullmatch(r"##+ .*", cell.source.strip())]
    set_up = [cell for cell in cells if SET_UP & tags(cell)]
    answer = [cell for cell in cells if "answer" in tags(cell)]
    failed = any(out.output_type == "error" for cell in set_up + answer for out in cell.outputs)
    if failed or not set_up:
        return cells
    rest = [cell for cell in cells if cell not in set_up and cell not in answer]
    last = (k for k, c in enumerate(rest) if re.match(r"## (Checks|Where these)", c.source))
    place = next(last, len(rest))
    heading = nbformat.v4.new_markdown_cell("## Parameters and runs")
    return [*rest[:1], *answer, *rest[1:place], heading, *set_up, *rest[place:]]


def with_contents(text: str) -> str:
    """A page's HTML with the list of its sections below its title."""
    link = '<a class="anchor-link"'
    sections = re.findall(rf'<h2 id="([^"]*)">(.*?){link}', text, flags=re.DOTALL)
    text = text.replace(link, f'{link} aria-label="link to this section"')
    if len(sections) < 2:
        return text
    links = "".join(f'<a href="#{id}">{words}</a>' for id, words in sections)
    contents = f'<nav class="contents" aria-label="sections">{links}</nav>'
    return text.replace("</h1>", f"</h1>\n{contents}", 1)


def styles() -> str:
    """The style sheet of pages, with the colours of code."""
    from pygments.formatters import HtmlFormatter

    css = (TEMPLATES / "page" / "page.css").read_text(encoding="utf-8")
    return css + HtmlFormatter(style="friendly", nobackground=True).get_style_defs(".highlight")


def faults(text: str) -> list[str]:
    """What keeps an HTML page from standing alone: things it would fetch from outside, pictures
    without alt text, more bytes than somebody on a telephone would want to pay for.
    """
    checker = _Checker()
    checker.feed(text)
    size = len(text.encode())
    if size > LARGEST:
        limit = f"{size / 1e6:.2f} MB and may have {LARGEST / 1e6:g} MB"
        checker.faults.append(f"the page has {limit}: draw fewer or smaller pictures")
    return checker.faults


class _Checker(HTMLParser):
    """Collects what a browser would fetch by itself; links that a reader may follow are no
    fault.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given, self._inside = {name: value or "" for name, value in attrs}, tag
        fetched = ["src", "srcset", "poster", "data", "xlink:href"]
        for name in ["href", *fetched] if tag == "link" else fetched:
            value = given.get(name, "#")
            if not value.startswith(("data:", "#")):
                self.faults.append(f"<{tag} {name}={value[:60]!r}> would be fetched")
        alt = given.get("alt", "").strip()
        if tag == "img" and (not alt or "No description has been provided" in alt):
            self.faults.append("picture without alt text: show it with page.show(figure, words)")
        self._look_at_styles(given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self._look_at_styles(data)
        reaching = r"https?://|\bimport\s*\(|fetch\s*\(|XMLHttpRequest"
        if self._inside == "script" and re.search(reaching, data):
            self.faults.append("a script that reaches for the network")

    def _look_at_styles(self, css: str) -> None:
        for found in re.findall(r"@import[^;]*|url\(\s*['\"]?(?!data:|#)[^)]*\)", css):
            self.faults.append(f"style {found[:60]!r} would be fetched")
