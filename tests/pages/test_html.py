"""Pages: one file each that asks for nothing from outside, with words for every picture."""

import base64
import dataclasses
import io
import re
from pathlib import Path

import nbformat
import pytest
from PIL import Image, ImageDraw

from pfl_lib.pages import cited, html, index
from pfl_lib.pages.page import COMPARED
from pfl_lib.pages.recorded import values_compared
from pfl_lib.pages.registry import NotebookPage

PIXEL = base64.b64encode(b"not really a picture").decode()
PAGE = NotebookPage(
    "waffle-fig3", "WAFFLE", "Figure 3: <weights>", "About it.", Path("/n/waffle/fig3.ipynb")
)
NO_LINKS = html.Links()
STAMP = html.Stamp(
    "waffle-fig3",
    "ok",
    "quick",
    "Quick profile: digits & co.",
    "0.1.0, commit 1a2b3c4",
    "2026-11-21 08:30",
    4.25,
)


def executed(path, *outputs, source="show()", markdown="# Figure 3\n\nText."):
    code = nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown), code])
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)
    return path


def picture(alt: str | None):
    metadata = {} if alt is None else {"image/png": {"alt": alt}}
    return nbformat.v4.new_output(
        "display_data", {"image/png": PIXEL, "text/plain": "figure"}, metadata=metadata
    )


def made(tmp_path, *outputs, links=None, **cells):
    source = executed(tmp_path / "executed.ipynb", *outputs, **cells)
    stamp = html.finish(source, tmp_path / "page.html", PAGE, STAMP, links or NO_LINKS)
    return stamp, (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page, fault",
    [
        ('<script src="https://cdn.example/x.js"></script>', "script src"),
        ('<script src=""></script>', "script src=''"),
        ('<link rel="stylesheet" href="style.css">', "link href"),
        ('<img src="figure.png" alt="a figure">', "img src"),
        ('<img src="data:image/png;base64,AA">', "without alt text"),
        (
            (
                '<img src="data:image/png;base64,AA" alt="No description has been provided for this'
                ' image">'
            ),
            "without alt",
        ),
        ("<style>@import 'x.css';</style>", "@import"),
        ("<style>body { background: url(https://example.org/x.png) }</style>", "url("),
        ('<p style="background: url(x.png)">x</p>', "url("),
        ("<script>fetch('x')</script>", "reaches for the network"),
    ],
)
def test_what_a_page_would_fetch_or_leaves_unsaid_is_found(page, fault):
    assert any(fault in found for found in html.faults(f"<html><body>{page}</body></html>"))


@pytest.mark.parametrize(
    "page",
    [
        '<a href="https://example.org">a link to follow</a>',
        '<img src="data:image/png;base64,AA" alt="a line that rises">',
        "<style>p { background: url(data:image/png;base64,AA) }</style>",
        "<script>document.title = 'x'</script>",
    ],
)
def test_what_stands_in_the_page_itself_is_no_fault(page):
    assert html.faults(page) == []


def test_a_page_stands_alone_and_carries_its_alt_text_stamp_and_code(tmp_path):
    table = nbformat.v4.new_output(
        "display_data", {"text/html": "<table><tr><td>98.56</td></tr></table>"}
    )
    stamp, page = made(tmp_path, picture("a wedge towards <Alice>"), table, source="draw(weights)")
    assert stamp.status == "ok" and html.faults(page) == []
    assert 'alt="a wedge towards &lt;Alice&gt;"' in page and "98.56" in page
    for words in (
        "Figure 3: &lt;weights&gt;",
        "digits &amp; co.",
        "commit 1a2b3c4",
        "2026-11-21 08:30 UTC",
        "4 s",
    ):
        assert words in page, words
    assert page.count('href="index.html"') == 2 and "weights" in page and "<details" in page


@pytest.mark.parametrize("alt", [None, "", "  "])
def test_a_figure_without_alt_text_makes_the_page_fail(tmp_path, alt):
    stamp, page = made(tmp_path, picture(alt))
    assert stamp.status == "failed" and "without alt text" in stamp.error
    assert "This page is incomplete" in page


def test_a_page_that_would_fetch_something_fails(tmp_path):
    stamp, _ = made(
        tmp_path, nbformat.v4.new_output("display_data", {"text/html": '<img src="x.png" alt="x">'})
    )
    assert stamp.status == "failed" and "would be fetched" in stamp.error


def test_a_page_above_a_megabyte_fails_with_its_size_and_the_limit(tmp_path, monkeypatch):
    data = base64.b64encode(bytes(800_000)).decode()
    large = nbformat.v4.new_output("display_data", {"image/png": data})
    large.metadata["image/png"] = {"alt": "noise"}
    stamp, page = made(tmp_path, large)
    assert stamp.status == "failed" and "This page is incomplete" in page
    assert re.search(r"1\.\d\d MB and may have 1 MB", stamp.error) and "\n" not in stamp.error
    monkeypatch.setattr(html, "LARGEST", 2_000_000)
    assert made(tmp_path, large)[0].status == "ok"


def test_links_between_notebooks_become_links_between_pages(tmp_path):
    """By their files: two papers have a notebook claims.ipynb each."""
    text = (
        "# T\n\n[one](claims.ipynb#speed), [other](../pfedla/claims.ipynb), [none](other.ipynb),"
        " [later](table1.ipynb), [out](https://example.org/x.ipynb)"
    )
    notebooks = {
        Path("/n/waffle/claims.ipynb"): "waffle-claims",
        Path("/n/pfedla/claims.ipynb"): "pfedla-claims",
        Path("/n/waffle/table1.ipynb"): "waffle-table1",
    }
    pages = {"waffle-claims": "waffle-claims.html", "pfedla-claims": "../small/pfedla-claims.html"}
    _, page = made(tmp_path, links=html.Links("../index.html", pages, notebooks), markdown=text)
    assert 'href="waffle-claims.html#speed"' in page
    assert 'href="../small/pfedla-claims.html"' in page
    assert 'href="other.ipynb"' in page and 'href="https://example.org/x.ipynb"' in page
    assert '<a href="../index.html">later</a>' in page, "a page that is not there yet"


def test_a_failure_is_shown_at_its_cell_without_papermills_headlines(tmp_path):
    error = nbformat.v4.new_output(
        "error", ename="BadInput", evalue="too bad", traceback=["BadInput: too bad"]
    )
    source = executed(tmp_path / "executed.ipynb", error)
    notebook = nbformat.read(source, as_version=4)
    headline = nbformat.v4.new_markdown_cell(
        "RED HEADLINE", metadata={"tags": ["papermill-error-cell-tag"]}
    )
    notebook.cells.insert(0, headline)
    nbformat.write(notebook, source)
    failed = html.Stamp(**{**vars(STAMP), "status": "failed", "error": "BadInput: too bad"})
    html.finish(source, tmp_path / "page.html", PAGE, failed, NO_LINKS)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'href="#failed"' in page and 'id="failed" open' in page and "RED HEADLINE" not in page


def error(name: str, words: str):
    return nbformat.v4.new_output("error", ename=name, evalue=words, traceback=[words])


def test_a_page_whose_runs_are_missing_is_not_run_in_grey_with_the_command_and_the_papers_words(
    tmp_path,
):
    source = executed(tmp_path / "executed.ipynb", error("NotRun", "none stored"), source="run()")
    notebook = nbformat.read(source, as_version=4)
    notebook.cells += [
        nbformat.v4.new_markdown_cell("## The table"),
        nbformat.v4.new_code_cell("draw()"),
        nbformat.v4.new_markdown_cell("## What the paper claims\n\nThat it works."),
    ]
    nbformat.write(notebook, source)
    command = "pfl-lib reproduce --profile paper --only waffle-fig3"
    stamp = dataclasses.replace(STAMP, status="not run", error=f"none is stored: {command}")
    stamp = html.finish(source, tmp_path / "page.html", PAGE, stamp, NO_LINKS)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert stamp.status == "not run" and 'class="banner not-run"' in page and command in page
    assert "That it works." in page and "The table" not in page
    assert "failed" not in page.partition("</style>")[2] and "run()" not in page


def test_a_page_lists_its_sections_and_links_to_the_pages_beside_it(tmp_path):
    source = executed(
        tmp_path / "executed.ipynb",
        markdown="# T\n\n## The *figure*\n\nx\n\n## Checks\n\ny",
    )
    links = html.Links(
        pages={PAGE.id: "page.html", "b": "b.html"}, titles={PAGE.id: "", "b": "Figure <4>"}
    )
    html.finish(source, tmp_path / "page.html", PAGE, STAMP, links)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for id, words in (("The-figure", "The <em>figure</em>"), ("Checks", "Checks")):
        assert f'<h2 id="{id}">' in page and f'<a href="#{id}">{words}</a>' in page
    assert (
        page.count('href="b.html" rel="next">Figure &lt;4&gt; →') == 2 and 'rel="prev"' not in page
    )


def test_a_pages_parameters_and_runs_stand_below_its_answer_before_the_checks(tmp_path):
    def code(source: str, *tags: str):
        return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})

    text = nbformat.v4.new_markdown_cell
    cells = [text("# T"), code("a = 1", "parameters"), code("check()", "settings")]
    cells += [code("run()", "runs"), code("say()", "answer"), text("## Checks"), code("assert a")]
    sources = [cell.source for cell in html.in_reading_order(cells)]
    assert sources == [
        "# T",
        "say()",
        "## Parameters and runs",
        "a = 1",
        "check()",
        "run()",
        "## Checks",
        "assert a",
    ]
    cells[2].outputs = [error("BadInput", "too bad")]
    assert html.in_reading_order(cells) == cells, "what went wrong is read first"


def test_what_a_cell_leaves_for_the_scorecard_alone_is_not_on_the_page(tmp_path):
    kind = "application/vnd.pfl-lib.answer+json"
    hidden = nbformat.v4.new_output("display_data", {kind: {"answer": "never seen"}})
    seen = nbformat.v4.new_output("display_data", {"text/plain": "seen here"})
    _, page = made(tmp_path, hidden, seen)
    assert "seen here" in page and "never seen" not in page and kind not in page


def test_a_telephone_folds_all_of_a_banner_but_its_first_sentence_and_the_stored_runs(tmp_path):
    banner = "Small: 3.4 < 5, seed 1. The paper has 2.5 times as many. Five epochs."
    stamp = dataclasses.replace(STAMP, profile="small", banner=banner, runs="3 of 5 runs")
    source = executed(tmp_path / "executed.ipynb")
    html.finish(source, tmp_path / "page.html", PAGE, stamp, NO_LINKS)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (line,) = re.findall(r'<p class="banner small">(.*?)</p>', page, flags=re.DOTALL)
    (folded,) = re.findall(r'<span class="more">(.*?)</span>', line)
    assert folded == "The paper has 2.5 times as many. Five epochs." and "checkbox" in line
    shown = re.sub(r"<label>.*?</label>|<span.*?</span>|<[^>]*>", "", line)
    assert shown.split() == "Small: 3.4 &lt; 5, seed 1. Stored: 3 of 5 runs.".split()


def test_the_stamp_is_kept_in_the_executed_notebook(tmp_path):
    made(tmp_path)
    assert html.read_stamp(tmp_path / "executed.ipynb") == STAMP
    assert html.read_stamp(tmp_path / "missing.ipynb") is None
    assert html.read_stamp(executed(tmp_path / "unstamped.ipynb")) is None


# --- the index ---

NEVER = NotebookPage("waffle-fig8", "WAFFLE", "Figure 8", "Omega.", Path("/n/waffle/fig8.ipynb"))
CARD = NotebookPage("scorecard", "", "Scorecard", "All values.", Path("/n/02_scorecard.ipynb"))
PAPER = dataclasses.replace(
    STAMP,
    profile="paper",
    answer="Alice's share is **1**.",
    verdicts={"not reproduced": 2, "reproduced": 24},
    megabytes=512,
    runs="42 of 150 runs",
)


@pytest.fixture
def listed(tmp_path):
    """The index of these stamps, as text without its style."""

    def build(stamps) -> str:
        pages = {page.id: page for page in (PAGE, NEVER, CARD)}
        written = index.write_index(tmp_path, pages, stamps, ["What < came out."], {NEVER.id})
        text = written.read_text(encoding="utf-8")
        assert html.faults(text) == []
        return text.partition("</style>")[2]

    return build


def test_the_index_gives_each_pages_answer_verdicts_runs_time_memory_and_code(listed):
    text = listed({"paper/waffle-fig3.html": PAPER})
    for words in (
        '<a href="paper/waffle-fig3.html">Figure 3: &lt;weights&gt;</a>',
        "Alice's share is <strong>1</strong>.",
        '<span class="chip reproduced">24 reproduced</span> '
        '<span class="chip not-reproduced">2 not reproduced</span>',
        "42 of 150 runs stored · 4 s · 512 MB · made 2026-11-21 08:30 UTC",
        "commit 1a2b3c4",
        "Beaussart",
    ):
        assert words in text, words


def test_the_index_links_to_the_page_of_all_values_and_from_each_paper_to_its_pages(listed):
    card = dataclasses.replace(STAMP, id="scorecard")
    text = listed({"paper/waffle-fig3.html": PAPER, "scorecard.html": card})
    assert "<li>What &lt; came out.</li>" in text and '<section id="waffle">' in text
    assert '<a href="scorecard.html">Scorecard</a>' in text
    assert "4 s · made 2026-11-21 08:30 UTC" in text.partition('id="more"')[2]


def test_a_page_of_which_runs_are_missing_says_how_to_train_them(listed):
    words = "<p>To train the missing runs: <code>"
    command = f"{words}pfl-lib reproduce --profile paper --only waffle-fig3</code>"
    assert command in listed({"paper/waffle-fig3.html": PAPER})  # 42 of 150 runs
    assert command not in listed({"paper/waffle-fig3.html": dataclasses.replace(PAPER, runs="")})


def test_links_to_papers_are_those_of_the_citation_file(listed):
    file = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    assert cited.WHERE and all(f'url: "{url}"' in file for url in cited.WHERE.values())
    assert f'href="{cited.WHERE["WAFFLE"]}">the paper</a>' in listed({})


def test_what_was_not_drawn_is_grey_with_its_command_and_never_failed(listed):
    text = listed({})
    assert text.count("pfl-lib reproduce --plots-only --only waffle-fig8</code>") == 1
    assert "--plots-only --only waffle-fig3" not in text  # nothing of it is stored
    assert text.count("not drawn here") == 2
    assert text.count("pfl-lib reproduce --profile small --only waffle-fig8</code>") == 1
    assert text.count('class="page not-run"') == 2 and "failed" not in text
    assert 'href="paper' not in text and "Not run yet." in text


def test_the_paper_profile_stands_first_and_the_others_are_linked_beside_it(listed):
    small = dataclasses.replace(STAMP, profile="small", answer="In small.")
    stamps = {"small/waffle-fig3.html": small}
    assert "In small." in listed(stamps) and '<h3><a href="small/' in listed(stamps)
    text = listed({**stamps, "paper/waffle-fig3.html": PAPER, "quick/waffle-fig3.html": STAMP})
    assert '<h3><a href="paper/waffle-fig3.html">' in text and "In small." not in text
    assert '<a class="picture" href="paper/waffle-fig3.html"' in text
    assert '<a class="chip small" href="small/waffle-fig3.html">small profile</a>' in text
    assert '<a class="chip quick" href="quick/waffle-fig3.html">quick profile</a>' in text


def test_the_live_check_says_how_many_numbers_agree_with_recorded_ones(listed):
    agree = dataclasses.replace(STAMP, compared=30)
    text = listed({"quick/waffle-fig3.html": agree})
    assert "30 numbers of 1 page were computed here and agree with recorded ones; none" in text
    assert '<span class="chip ok">agree</span>' in text


def test_the_live_check_names_the_pages_whose_numbers_differ(listed):
    error = "AssertionError: accuracy, 3 of 30 values differ: A: Local is 1, recorded 2"
    wrong = dataclasses.replace(STAMP, status="failed", error=error, compared=4)
    text = listed({"quick/waffle-fig3.html": wrong})
    assert "; 1 of 1 pages failed: waffle-fig3." in text
    assert '<span class="chip failed">failed</span> AssertionError: accuracy, 3 of 30' in text


def test_verdicts_and_pairs_are_counted_and_pairs_that_are_not_compared_are_left_out(tmp_path):
    pairs = [{"order": word} for word in ("stands", "stands", "open", "not compared")]
    told = {COMPARED: {"values": [{"verdict": "reproduced"}], "pairs": pairs}}
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("display_data", told)])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "executed.ipynb")
    counted = index.summary(tmp_path / "executed.ipynb")["verdicts"]
    assert counted == {"reproduced": 1, "pairs stand": 2, "pairs open": 1}


def test_a_notebook_that_was_cut_is_said_to_have_met_a_full_disk(tmp_path):
    cut = tmp_path / "cut.ipynb"
    cut.write_text('{"cells": [{"cell_ty')
    with pytest.raises(OSError, match="No space left on device: .*cut.ipynb"):
        index.summary(cut)
    assert html.read_stamp(cut) is None, "made again by the next call"


def test_values_compared_are_counted_from_what_a_notebook_prints():
    printed = "accuracy: 30 values as recorded to within 6.7\nshares: 1 values as recorded\n"
    assert values_compared(printed) == 31
    assert values_compared("accuracy: not compared with recorded values (other seeds)") == 0


def test_a_small_picture_is_as_wide_as_the_index_shows_it_and_keeps_its_shape():
    buffer = io.BytesIO()
    Image.new("RGB", (1344, 672), "white").save(buffer, "PNG")
    head, _, data = index.small(buffer.getvalue()).partition(",")
    assert head == "data:image/png;base64"
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (index.WIDTH, 160)


def test_a_small_picture_keeps_the_colour_of_a_few_marks_among_letters():
    picture = Image.new("RGB", (640, 320), "white")
    draw = ImageDraw.Draw(picture)
    for line in range(12):
        draw.text((40, 26 * line), "a sentence of the paper " * 4, fill="black", font_size=16)
        draw.ellipse((8, 26 * line + 4, 24, 26 * line + 20), fill=("#029e73", "#d55e00")[line % 2])
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    data = index.small(buffer.getvalue()).partition(",")[2]
    shown = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    green, orange = (shown.getpixel((8, 13 * line + 6)) for line in (0, 1))
    assert green[1] > green[0] + 80 and orange[0] > orange[2] + 120
