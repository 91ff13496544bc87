"""Executed notebooks as web pages that need nothing else.

A page carries its pictures, styles and numbers in one file: opened offline it asks the network for
nothing (`faults` checks it), every figure has its alt text, and header and footer say profile, code
version and time.  What a page needs to be listed stands in the executed notebook's own metadata, so
the index is built from the folder alone and remembers pages of earlier runs.
"""

import copy
import html
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from html.parser import HTMLParser
from importlib.resources import as_file, files
from pathlib import Path

from pfl_lib.display.table_format import RAN_AS
from pfl_lib.pages.banner import banner_line
from pfl_lib.pages.cited import WHERE
from pfl_lib.pages.order import answer_first, with_contents, without_runs

PACKAGE = "pfl_lib · personalised federated learning, reproduced"
LARGEST = 1_000_000  # bytes of a page
CODE_LABELS = {
    "parameters": "Parameters of this page",
    "injected-parameters": "Parameters given to this run",
    "settings": "Check the parameters",
    "runs": "Train the runs that are not stored",
}


@dataclass(frozen=True)
class Page:
    """One notebook of the collection: its id, title, one-line description, file, and paper if
    any.
    """

    id: str
    title: str
    about: str
    notebook: Path
    paper: str = ""


@dataclass(frozen=True)
class Links:
    """Where a page finds the others: the index, and each page that is there by its id; `notebooks`
    are the ids of all notebooks by their files.
    """

    index: str = "index.html"
    pages: Mapping[str, str] = field(default_factory=dict)
    notebooks: Mapping[Path, str] = field(default_factory=dict)


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


def finish(
    executed: Path,
    file: Path,
    page: Page,
    stamp: Stamp,
    links: Links,
    around: tuple[Page | None, Page | None] = (None, None),
) -> Stamp:
    """Write the page of an executed notebook, and its stamp into the notebook; returns the stamp.

    A page that is not what a page has to be (a figure without alt text, something to be fetched
    from elsewhere, more than `LARGEST`) is written and counts as failed.  With `links`, links
    between notebooks work here too; `around` is the page before and the one after.
    """
    import nbformat

    if executed.is_file():
        notebook = nbformat.read(str(executed), as_version=4)
    else:  # papermill could not even read its source
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_markdown_cell(f"# {page.title}")]
        )
    text = render(notebook, page, stamp, links, around)
    wrong = figures_without_words(notebook) + faults(text) + too_large(text)
    if wrong and stamp.status == "ok":
        stamp = replace(stamp, status="failed", error=wrong[0])
        text = render(notebook, page, stamp, links, around)
    file.write_text(text, encoding="utf-8")
    notebook.metadata["pfl_lib"] = asdict(stamp)
    nbformat.write(notebook, str(executed))
    return stamp


def read_stamp(path: Path) -> Stamp | None:
    """The stamp of an executed notebook; None where there is no such file, or one without a
    stamp.
    """
    import json

    try:
        return Stamp(**json.loads(path.read_text(encoding="utf-8"))["metadata"]["pfl_lib"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe(path: Path) -> str:
    """What a notebook is about in one line: the first sentence below its first heading, without
    markup.
    """
    import json

    notebook = json.loads(path.read_text(encoding="utf-8"))
    text = next(
        ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"),
        "",
    )
    paragraph = text.strip().partition("\n")[2].strip().split("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0]
    return re.sub(r"<[^>]*>|[*`]", "", re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", sentence))


def render(
    notebook,
    page: Page,
    stamp: Stamp,
    links: Links,
    around: tuple[Page | None, Page | None] = (None, None),
) -> str:
    """The HTML of an executed notebook (an nbformat node)."""
    from nbconvert import HTMLExporter

    shown = copy.deepcopy(notebook)
    shown.metadata.pop("widgets", None)
    # papermill's own red headlines say less than the banner, which links to the failed cell.
    cells = [
        cell
        for cell in shown.cells
        if "papermill-error-cell-tag" not in cell.metadata.get("tags", [])
    ]
    for cell in cells:  # what is left for the scorecard alone is nothing to see
        if "outputs" in cell:
            cell.outputs = [out for out in cell.outputs if _is_seen(out)]
    shown.cells = answer_first(without_runs(cells) if stamp.status == "not run" else cells)
    facts = {
        "title": page.title,
        "css": styles(),
        "header": _header(page, stamp, links, around),
        "footer": _footer(page, stamp, links, around),
        "code_labels": _code_labels(shown),
    }
    with as_file(files("pfl_lib.pages") / "templates") as templates:
        exporter = HTMLExporter(
            template_name="page",
            extra_template_basedirs=[str(templates)],
            exclude_anchor_links=True,
        )
        exporter.log.setLevel(
            "ERROR"
        )  # it also warns of missing alt text, which `finish` treats as a failure
        text, _ = exporter.from_notebook_node(shown, resources={"page": facts})
    text = re.sub(
        r'href="([^":#]+\.ipynb)(#[^"]*)?"', lambda match: _page_link(match, page, links), text
    )
    return with_contents(said_once(text))


def _is_seen(output) -> bool:
    return any(not kind.startswith("application/vnd.pfl-lib") for kind in output.get("data", {" "}))


def said_once(text: str) -> str:
    """A page on which the captions of tables say what was run once, and again where it was not the
    same.
    """
    before = []

    def first(found: re.Match) -> str:
        if before[-1:] == [found[1]]:
            return ""
        before.append(found[1])
        return found[0]

    return re.sub(rf'<br ?/?><span class="{RAN_AS}">(.*?)</span>', first, text, flags=re.DOTALL)


def figures_without_words(notebook) -> list[str]:
    """The cells whose pictures have no alt text; a reader who does not see them would get
    nothing.
    """
    missing = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for kind in ("image/png", "image/svg+xml", "image/jpeg"):
                if (
                    kind in output.get("data", {})
                    and not output.get("metadata", {}).get(kind, {}).get("alt", "").strip()
                ):
                    missing.append(
                        f"figure without alt text in cell {cell.get('id', '?')}: show it with an"
                        " alt text"
                    )
    return missing


def faults(text: str) -> list[str]:
    """What keeps an HTML page from standing alone: things it would fetch from outside, and pictures
    without alt text.
    """
    checker = _Checker()
    checker.feed(text)
    return checker.faults


def too_large(text: str) -> list[str]:
    """That a page is larger than a page may be, which somebody on a telephone would pay for."""
    size = len(text.encode())
    if size <= LARGEST:
        return []
    return [
        f"the page has {size / 1e6:.2f} MB and may have {LARGEST / 1e6:g} MB: draw fewer or smaller"
        " pictures"
    ]


def styles() -> str:
    from pygments.formatters import HtmlFormatter

    css = (files("pfl_lib.pages") / "templates" / "page" / "page.css").read_text(encoding="utf-8")
    return css + HtmlFormatter(style="friendly", nobackground=True).get_style_defs(".highlight")


def _header(page: Page, stamp: Stamp, links: Links, around: tuple[Page | None, Page | None]) -> str:
    failed = (
        banner_line("failed", f"This page is incomplete: {stamp.error}", "#failed")
        if stamp.status == "failed"
        else banner_line("not-run", f"Not run: {stamp.error}")
        if stamp.status == "not run"
        else ""
    )
    return (
        f'<header class="top"><nav aria-label="pages"><a href="{links.index}">All pages</a>'
        f"{_paper(page)}{_neighbours(links, around)}<span"
        f' class="package">{PACKAGE}</span></nav>\n'
        f"{banner_line(stamp.profile, stamp.banner)}{failed}</header>"
    )


def in_line(markdown: str) -> str:
    """A sentence in Markdown as HTML without a paragraph of its own."""
    from nbconvert.filters import markdown2html

    return re.sub(r"</?p>", "", markdown2html(markdown)).strip() if markdown else ""


def css_class(status: str) -> str:
    return status.replace(" ", "-")


def _paper(page: Page) -> str:
    """A link to the page's paper, where it is free to read."""
    if page.paper not in WHERE:
        return ""
    return f'<a class="paper" href="{WHERE[page.paper]}">{html.escape(page.paper)}, the paper</a>'


def _neighbours(links: Links, around: tuple[Page | None, Page | None]) -> str:
    before, after = around
    shown = [
        f'<a rel="{rel}" href="{links.pages[page.id]}">{html.escape(words.format(page.title))}</a>'
        for page, rel, words in ((before, "prev", "← {}"), (after, "next", "{} →"))
        if page is not None
    ]
    return "".join(shown)


def _footer(page: Page, stamp: Stamp, links: Links, around: tuple[Page | None, Page | None]) -> str:
    facts = {
        "Profile": stamp.profile if page.paper else "",  # the others are the same in all three
        "Code": f"pfl_lib {stamp.version}",
        "Made": f"{stamp.finished} UTC, in {stamp.seconds:.1f} seconds"
        + (f", with at most {stamp.megabytes:,} MB of memory" if stamp.megabytes else ""),
        "Status": stamp.status,
        "Runs": stamp.runs,
    }
    rows = "".join(
        f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in facts.items() if value
    )
    again = f'<a href="{links.index}">All pages</a>{_neighbours(links, around)}'
    again = f'<nav aria-label="pages, again">{again}</nav>'
    return f'<footer class="bottom"><dl>{rows}</dl>{again}</footer>'


def _code_labels(notebook) -> dict[str, str]:
    labels = {}
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            if tag in CODE_LABELS and "id" in cell:
                labels[cell.id] = CODE_LABELS[tag]
    return labels


def _page_link(match: re.Match, page: Page, links: Links) -> str:
    """A link to a notebook as a link to its page, or to the index where that page is not there."""
    id = links.notebooks.get((page.notebook.parent / match[1]).resolve())
    if id is None:
        return match[0]
    return (
        f'href="{links.pages[id]}{match[2] or ""}"'
        if id in links.pages
        else f'href="{links.index}"'
    )


class _Checker(HTMLParser):
    """Collects what a browser would fetch by itself; links that a reader may follow are no
    fault.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside = tag
        for name in ("src", "srcset", "poster", "data", "xlink:href"):
            value = given.get(name)
            if value and not value.startswith(("data:", "#")):
                self.faults.append(f"<{tag} {name}={value[:60]!r}> would be fetched")
        if tag == "link" and given.get("href"):
            self.faults.append(f"<link href={given['href'][:60]!r}> would be fetched")
        if tag == "script" and "src" in given and not given["src"]:
            self.faults.append("<script> with an empty src")
        if tag == "img" and (
            not (given.get("alt") or "").strip()
            or "No description has been provided" in given["alt"]
        ):
            self.faults.append("picture without alt text")
        self._styles(given.get("style") or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self._styles(data)
        if self._inside == "script" and re.search(
            r"https?://|\bimport\s*\(|fetch\s*\(|XMLHttpRequest", data
        ):
            self.faults.append("a script that reaches for the network")

    def _styles(self, css: str) -> None:
        for found in re.findall(r"@import[^;]*|url\(\s*['\"]?(?!data:|#)[^)]*\)", css):
            self.faults.append(f"style {found[:60]!r} would be fetched")
