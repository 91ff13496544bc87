"""What comes first on a page: the answer; and the list of its sections.

A notebook has to begin with its parameters, since papermill looks for them and everything else
depends on them.  A page is read from the top, so there these cells stand further down, folded.
"""

import html
import re
from collections.abc import Sequence

SET_UP = {"parameters", "injected-parameters", "settings", "runs"}  # tags of cells that go down
BELOW = ("checks", "assertions", "provenance")  # ids of the cells before which they then stand


def answer_first(cells: Sequence) -> list:
    """The cells of an executed notebook with those of its set-up further down, below a heading, and
    with the answer behind the first paragraph.
    """
    set_up = [cell for cell in cells if SET_UP & set(cell.metadata.get("tags", []))]
    if not set_up or any(_failed(cell) for cell in set_up):
        return list(cells)  # where the set-up went wrong, that is the first thing to be read
    rest = _short_before_answer([cell for cell in cells if cell not in set_up])
    place = next(
        (
            place
            for place, cell in enumerate(rest)
            if cell.cell_type == "markdown" and re.match(r"## (Checks|Where these)", cell.source)
        ),
        len(rest),
    )
    return [*rest[:place], _heading("Parameters and runs"), *set_up, *rest[place:]]


def _short_before_answer(cells: list) -> list:
    """The cells with the answer behind the first paragraph of the text that stands before it."""
    import nbformat

    kinds = [(cell.cell_type, "answer" in cell.metadata.get("tags", [])) for cell in cells[:2]]
    if kinds != [("markdown", False), ("code", True)]:
        return cells
    title, first, *others = [*cells[0].source.split("\n\n", 2), ""][:3]
    if not "".join(others).strip():
        return cells
    before, after = (
        nbformat.v4.new_markdown_cell(text) for text in (f"{title}\n\n{first}", others[0])
    )
    return [before, cells[1], after, *cells[2:]]


def without_runs(cells: Sequence) -> list:
    """What a page still says where the runs behind it are missing: its prose up to the cell that
    needs them, and what the paper claims.
    """
    end = next((place for place, cell in enumerate(cells) if _failed(cell)), len(cells))
    claims = [cell for cell in cells[end:] if cell.source.startswith("## What the paper")]
    before = [cell for cell in cells[:end] if cell.cell_type == "markdown"]
    # A heading whose code did not get to run heads nothing.
    return [cell for cell in before if not re.fullmatch(r"#{2,} .*", cell.source.strip())] + claims


def with_contents(text: str) -> str:
    """A page's HTML with an id for each section, a link at its heading, and the list of sections
    below the page's title.
    """
    sections: dict[str, str] = {}

    def name(match: re.Match) -> str:
        words = html.unescape(re.sub(r"<[^>]*>", "", match[2])).strip()
        plain = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "section"
        id = next(
            one for one in (plain, *(f"{plain}-{n}" for n in range(2, 1000))) if one not in sections
        )
        sections[id] = words
        link = f'<a class="section-link" href="#{id}" aria-label="link to this section">#</a>'
        return f'<h2 id="{id}">{match[2]} {link}</h2>'

    text = re.sub(r"<h2([^>]*)>(.*?)</h2>", name, text, flags=re.DOTALL)
    if len(sections) < 2:
        return text
    links = "".join(f'<a href="#{id}">{html.escape(words)}</a>' for id, words in sections.items())
    contents = f'<nav class="contents" aria-label="sections">{links}</nav>'
    return text.replace("</h1>", f"</h1>\n{contents}", 1)


def _heading(words: str):
    import nbformat

    return nbformat.v4.new_markdown_cell(f"## {words}")


def _failed(cell) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", []))
