"""Pages: one file each that asks for nothing from outside, with words for every picture."""

import base64
import dataclasses
import io
import json
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from pfl_lib.pages import build, html, registry
from pfl_lib.pages.registry import NotebookPage
from pfl_lib.pages.stamp import Stamp, made_from, read_stamp, small, summary

PIXEL = Image.new("RGB", (1344, 672), "white")
PAGE = NotebookPage(
    "waffle-fig3", "WAFFLE", "Figure 3: <weights>", "About it.", Path("/n/waffle/fig3.ipynb")
)
CLAIMS, OTHERS = (
    NotebookPage(f"{name}-sentences", paper, "All", "All.", Path(f"/n/{name}/sentences.ipynb"))
    for name, paper in (("waffle", "WAFFLE"), ("pfedla", "pFedLA"))
)
CARD = NotebookPage("scorecard", "", "Scorecard", "All values.", Path("/n/02_scorecard.ipynb"))
WHEN = ("0.1.0, commit 1a2b3c4", "2026-11-21 08:30", 4.25)
STAMP = Stamp("waffle-fig3", "ok", "quick", "Quick profile: digits & co.", *WHEN)


@pytest.fixture(autouse=True)
def pages(monkeypatch):
    """These four pages are all there are."""
    known = {page.id: page for page in (PAGE, CLAIMS, OTHERS, CARD)}
    monkeypatch.setattr(registry, "pages", lambda: known)


def png(picture: Image.Image = PIXEL) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def executed(path, *outputs, source="show()", markdown="# Figure 3\n\nText."):
    code = nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown), code])
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)
    return path


def shown(data: dict, **metadata):
    return nbformat.v4.new_output("display_data", data, metadata=metadata)


def picture(alt: str | None):
    metadata = {} if alt is None else {"image/png": {"alt": alt}}
    data = {"image/png": base64.b64encode(png()).decode(), "text/plain": "figure"}
    return shown(data, **metadata)


def made(tmp_path, *outputs, stamp=STAMP, there=None, **cells):
    """The stamp of a page made of these outputs, and its text."""
    source = executed(tmp_path / "executed.ipynb", *outputs, **cells)
    links = {"": "index.html", **(there or {})}
    stamp = html.finish(source, tmp_path / "page.html", PAGE, stamp, links)
    return stamp, (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_a_page_would_fetch_or_leaves_unsaid_is_found():
    for page, fault in (
        ('<script src="https://cdn.example/x.js"></script>', "script src"),
        ('<script src=""></script>', "script src=''"),
        ('<link rel="stylesheet" href="style.css">', "link href"),
        ('<img src="figure.png" alt="a figure">', "img src"),
        ('<img src="data:image/png;base64,AA">', "without alt text"),
        ('<img src="data:image/png;base64,AA" alt="No description has been provided">', "out alt"),
        ("<style>@import 'x.css';</style>", "@import"),
        ("<style>body { background: url(https://example.org/x.png) }</style>", "url("),
        ('<p style="background: url(x.png)">x</p>', "url("),
        ("<script>fetch('x')</script>", "reaches for the network"),
    ):
        assert any(fault in found for found in html.faults(f"<html><body>{page}</body></html>"))


def test_what_stands_in_the_page_itself_is_no_fault():
    page = (
        '<a href="https://example.org">a link to follow</a>'
        '<img src="data:image/png;base64,AA" alt="a line that rises">'
        "<style>p { background: url(data:image/png;base64,AA) }</style>"
        "<script>document.title = 'x'</script>"
    )
    assert html.faults(page) == []


def test_a_page_stands_alone_and_carries_its_alt_text_and_code(tmp_path):
    table = shown({"text/html": "<table><tr><td>98.56</td></tr></table>"})
    kind = "application/vnd.pfl-lib.answer+json"
    hidden = shown({kind: {"answer": "never seen"}})  # left for the scorecard alone
    answer = shown({kind: {"answer": "never seen"}, "text/markdown": "**no** by -4.5 points"})
    outputs = (picture("a wedge towards <Alice>"), table, hidden, answer)
    stamp, page = made(tmp_path, *outputs, source="draw(weights)")
    assert stamp.status == "ok" and html.faults(page) == []
    assert "never seen" not in page and kind not in page
    alt, said = 'alt="a wedge towards &lt;Alice&gt;"', "<strong>no</strong> by -4.5 points"
    for words in (alt, "98.56", said, "Figure 3: &lt;weights&gt;"):
        assert words in page
    assert page.count('href="index.html"') == 2 and "<details" in page


def test_a_page_with_a_fault_fails_and_says_so_in_one_line(tmp_path):
    for output, says in (
        (picture(None), "without alt text"),
        (picture("  "), "without alt text"),
        (shown({"text/html": '<img src="x.png" alt="x">'}), "would be fetched"),
        (shown({"text/html": "x" * 1_100_000}), " MB and may have 1 MB"),
    ):
        stamp, page = made(tmp_path, output)
        assert stamp.status == "failed" and says in stamp.error and "\n" not in stamp.error
        assert "This page is incomplete" in page


def test_links_between_notebooks_become_links_between_pages(tmp_path):
    """By their files: two papers have a notebook sentences.ipynb each."""
    text = (
        "# T\n\n[one](sentences.ipynb#speed), [other](../pfedla/sentences.ipynb),"
        " [none](other.ipynb), [later](../02_scorecard.ipynb), [out](https://example.org/x.ipynb)"
    )
    there = {CLAIMS.id: "sentences.html", OTHERS.id: "../small/sentences.html", "": "../index.html"}
    _, page = made(tmp_path, there=there, markdown=text)
    assert 'href="sentences.html#speed"' in page and 'href="../small/sentences.html"' in page
    assert 'href="other.ipynb"' in page and 'href="https://example.org/x.ipynb"' in page
    assert '<a href="../index.html">later</a>' in page, "a page that is not there yet"


def test_a_page_is_made_anew_where_what_it_follows_from_has_changed(tmp_path):
    """Its notebook, a file that this reads, a parameter that shows; not the number of jobs."""
    notebook, beside = tmp_path / "page.ipynb", tmp_path / "mine.csv"
    notebook.write_text(json.dumps(['rows = beside("mine.csv")']))
    beside.write_text("1")
    given = {"jobs": 1, "plots_only": True}
    digests = [made_from(notebook, given | {"jobs": jobs}, (), None) for jobs in (1, 2)]
    digests.append(made_from(notebook, given | {"plots_only": False}, (), None))
    beside.write_text("2")
    digests.append(made_from(notebook, given, (), None))
    assert digests[0] == digests[1] and len({*digests}) == 3


def test_the_stamp_is_kept_in_the_executed_notebook(tmp_path):
    stamp, _ = made(tmp_path)
    assert read_stamp(tmp_path / "executed.ipynb") == stamp == STAMP
    assert read_stamp(tmp_path / "missing.ipynb") is None
    assert read_stamp(executed(tmp_path / "unstamped.ipynb")) is None


def test_the_index_knows_a_pages_answer_picture_values_and_verdicts(tmp_path):
    kind = "application/vnd.pfl-lib.compared+json"
    told = {"reproduced": 2, "not reproduced": 1, "stands": 1}
    printed = "accuracy: 30 values as recorded to within 6.7\nshares: 1 values as recorded\n"
    printed += "loss: not compared with recorded values (those are for other seeds)\n"
    outputs = [picture("white"), shown({kind: told}), shown({"text/markdown": "**Yes**."})]
    outputs.append(nbformat.v4.new_output("stream", text=printed))
    notebook = nbformat.read(executed(tmp_path / "executed.ipynb", *outputs), as_version=4)
    notebook.cells[1].metadata["tags"] = ["answer"]
    found = summary(notebook)
    assert found["answer"] == "**Yes**." and found["compared"] == 31
    assert found["verdicts"] == {"reproduced": 2, "not reproduced": 1, "pairs stand": 1}
    assert found["picture"] == small(png())


PAPER = dataclasses.replace(
    STAMP,
    profile="paper",
    answer="Alice's share is **1**.",
    verdicts={"not reproduced": 2, "reproduced": 24},
    megabytes=512,
    runs="42 of 150 runs",
)


def listed(stamps) -> str:
    """The index of these stamps, as text without its style."""
    text = build.listing(stamps, ["What < came out."], {CLAIMS.id})
    assert html.faults(text) == []
    return text.partition("</style>")[2]


def test_the_index_has_each_page_once_in_its_best_profile_or_with_its_command():
    text = listed({})
    assert text.count("pfl-lib reproduce --plots-only --only waffle-sentences</code>") == 1
    assert text.count('class="page not-run"') == 3 and "failed" not in text
    little = dataclasses.replace(STAMP, profile="small", answer="In small.")
    stamps = {"small/waffle-fig3.html": little}
    assert "In small." in listed(stamps) and '<h3><a href="small/' in listed(stamps)
    text = listed({**stamps, "paper/waffle-fig3.html": PAPER, "quick/waffle-fig3.html": STAMP})
    assert "In small." not in text
    for words in (
        '<h3><a href="paper/waffle-fig3.html">Figure 3: &lt;weights&gt;</a>',
        "Alice's share is <strong>1</strong>.",
        *("24 reproduced</span>", "2 not reproduced</span>", "42 of 150 runs stored"),
        *(f'href="{profile}/waffle-fig3.html">' for profile in ("small", "quick")),
    ):
        assert words in text, words


def test_a_notebook_that_was_cut_is_said_to_have_met_a_full_disk(tmp_path):
    cut = tmp_path / "cut.ipynb"
    cut.write_text('{"cells": [{"cell_ty')
    with pytest.raises(OSError, match="No space left on device: .*cut.ipynb"):
        html.finish(cut, tmp_path / "page.html", PAGE, STAMP, {})
    assert read_stamp(cut) is None, "made again by the next call"
