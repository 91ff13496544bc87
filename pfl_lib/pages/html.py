"""Executed notebooks as web pages of one file that need nothing else (`faults` checks it).

What a page looks like stands in `templates/page`.
"""

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from pygments.formatters import HtmlFormatter

from pfl_lib.pages import registry
from pfl_lib.pages.page import ANSWER, COMPARED
from pfl_lib.pages.registry import NotebookPage
from pfl_lib.pages.stamp import Stamp, summary

LARGEST = 1_000_000  # bytes of a page
TEMPLATES = Path(__file__).parent / "templates"
FETCHED = {"src", "srcset", "poster", "data", "xlink:href"}  # what a browser fetches by itself


def finish(
    executed: Path, file: Path, page: NotebookPage, stamp: Stamp, there: Mapping[str, str]
) -> Stamp:
    """Write the page of an executed notebook, and its stamp into the notebook; returns the stamp.

    `there`: the addresses, seen from `file`, of the pages that are there, by id in reading order,
    and of the index ("").  A page that is not what a page has to be (a figure without alt text,
    something to be fetched from elsewhere, more than `LARGEST`) is written and counts as failed.
    """
    if executed.is_file():
        try:
            notebook = nbformat.read(str(executed), as_version=4)
        except ValueError:  # cut as it was written
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(executed)) from None
    else:  # papermill could not even read its source
        title = nbformat.v4.new_markdown_cell(f"# {page.title}")
        notebook = nbformat.v4.new_notebook(cells=[title])
    stamp = replace(stamp, **summary(notebook))
    text = render(notebook, page, stamp, there)
    wrong = faults(text)
    if wrong and stamp.status == "ok":
        stamp = replace(stamp, status="failed", error=wrong[0])
        text = render(notebook, page, stamp, there)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    notebook.metadata["pfl_lib"] = asdict(stamp)
    nbformat.write(notebook, str(executed))
    return stamp


def render(notebook, page: NotebookPage, stamp: Stamp, there: Mapping[str, str]) -> str:
    """The HTML of an executed notebook (an nbformat node); of one not run, its prose."""
    shown = nbformat.from_dict(notebook)
    shown.metadata.pop("widgets", None)
    if stamp.status == "not run":
        prose = [cell for cell in shown.cells if cell.cell_type == "markdown"]
        shown.cells = [cell for cell in prose if not re.fullmatch("##+ .*", cell.source)]
    for cell in shown.cells:  # what is left for the scorecard alone is nothing to see
        outputs = cell.get("outputs", [])
        cell.outputs = [one for one in outputs if {*one.get("data", [""])} - {ANSWER, COMPARED}]
    known = registry.pages()
    order = [id for id in known if id in there or id == page.id]
    place = order.index(page.id)
    near = {"prev": order[:place][-1:], "next": order[place + 1 :][:1]}
    facts = {"page": page, "stamp": stamp, "index": there[""], "css": styles()}
    facts["near"] = [(way, there[id], known[id].heading) for way in near for id in near[way]]
    text, _ = exporter().from_notebook_node(shown, resources={"pfl_lib": facts})
    # What was found is to be seen before what was set
    found = f'<div class="answer">{markdown2html(stamp.answer)}</div>' if stamp.answer else ""
    text = text.replace("</h1>", f"</h1>\n{found}\n<!-- contents -->", 1)
    ids = {one.path.resolve(): id for id, one in known.items()}

    def page_link(found: re.Match) -> str:
        """A link to a notebook as a link to its page, or to the index where that is not there."""
        id = ids.get((page.path.parent / found[1]).resolve())
        address = f"{there[id]}{found[2] or ''}" if id in there else there[""]
        return f'href="{address}"' if id else found[0]

    text = re.sub(r'href="([^":#]+\.ipynb)(#[^"]*)?"', page_link, text)
    link = '<a class="anchor-link"'
    sections = re.findall(rf'<h2 id="([^"]*)">(.*?){link}', text, flags=re.DOTALL)
    text = text.replace(link, f'{link} aria-label="link to this section"')
    links = "".join(f'<a href="#{id}">{words}</a>' for id, words in sections)
    contents = f'<nav class="contents" aria-label="sections">{links}</nav>'
    return text.replace("<!-- contents -->", contents if len(sections) > 1 else "", 1)


def exporter():
    """nbconvert's exporter with the templates of this package."""
    # Their conf.json leaves papermill's red headlines out: the banner, with its link, says more.
    found = HTMLExporter(
        template_name="page", extra_template_basedirs=[str(TEMPLATES)], anchor_link_text="#"
    )
    found.log.setLevel("ERROR")  # it warns of missing alt text, which is a fault here
    return found


def styles() -> str:
    """The style sheet of pages, with the colours of code."""
    css = (TEMPLATES / "page" / "page.css").read_text(encoding="utf-8")
    return css + HtmlFormatter(style="friendly", nobackground=True).get_style_defs(".highlight")


def faults(text: str) -> list[str]:
    """What is wrong with an HTML page: what it would fetch, pictures without alt text, its size."""
    found = []

    def tag(name: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        for one in given.keys() & (FETCHED | {"href"} if name == "link" else FETCHED):
            if not given[one].startswith(("data:", "#")):
                found.append(f"<{name} {one}={given[one][:60]!r}> would be fetched")
        alt = given.get("alt", "").strip()
        if name == "img" and (not alt or "No description has been provided" in alt):
            found.append("picture without alt text: show it with page.show(figure, words)")
        written.append(given.get("style", ""))

    parser = HTMLParser()
    parser.handle_starttag = tag
    written = re.findall("<style.*?</style>", text, re.DOTALL)
    parser.feed(text)
    for css in re.findall(r"@import[^;]*|url\(\s*['\"]?(?!data:|#)[^)]*\)", "\n".join(written)):
        found.append(f"style {css[:60]!r} would be fetched")
    scripts = "".join(re.findall("<script.*?</script>", text, re.DOTALL))
    if re.search(r"https?://|\bimport\s*\(|fetch\s*\(|XMLHttpRequest", scripts):
        found.append("a script that reaches for the network")
    if (size := len(text.encode())) > LARGEST:
        limit = f"{size / 1e6:.2f} MB and may have {LARGEST / 1e6:g} MB"
        found.append(f"the page has {limit}: draw fewer or smaller pictures")
    return found
