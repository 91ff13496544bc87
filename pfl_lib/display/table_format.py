"""Tables as they are read: HTML for a page, text for a terminal, CSV for programs."""

import html
import math
import re
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

NONE = "–"  # for a number that does not exist
RAN_AS = "ran-as"  # class of the banner in a caption, which a page shows once (`said_once`)
LONG = 16  # letters; what is longer in a column of numbers is words, which may take several lines
SENTENCE = 60  # letters; what is longer is read in lines of some words, also where it is narrow
WIDE = 140  # letters side by side that a page has no room for; of a column no more than LONG count
VERDICT = "verdict"  # names a column of verdicts, or a row of them
HALF_A_LINE = 19  # letters that half a telephone's width holds


class Strong(str):
    """A word of a table that is shown in bold."""


class Link(str):
    """A word of a table that is the address it links to, such as "waffle/fig8_omega.ipynb"."""


class OfRun(str):
    """A number of a table that links to the run it comes from, by its slug: to `run_place` on the
    same page; of several seeds, to the first, whose list shows them together.
    """

    def __new__(cls, word: str, slug: str) -> "OfRun":
        made = super().__new__(cls, word)
        made.slug, made.strong = slug, isinstance(word, Strong)
        return made


def of_runs(words: Iterable[str], slugs: Iterable[str]) -> list[str]:
    """Each word as a number of the run beside it; as it is where there is none ("")."""
    return [OfRun(word, run) if run else word for word, run in zip(words, slugs, strict=True)]


class Joined(str):
    """A word of a table put together from others, which go on linking where they do."""

    def __new__(cls, parts: Iterable[str]) -> "Joined":
        parts = tuple(parts)
        made = super().__new__(cls, "".join(parts))
        made.parts = parts
        return made


class Place(str):
    """A word of a table that others link to, by its id."""

    def __new__(cls, word: str, id: str) -> "Place":
        made = super().__new__(cls, word)
        made.id = id
        return made


def run_place(slug: str) -> str:
    """The id that the row of a run has in a page's list of runs."""
    return "run-" + re.sub(r"[^\w.-]+", "-", slug)


def show_table(table: pd.DataFrame, caption: str, digits: int = 2, folded: bool = False) -> None:
    """Show a table on a notebook's page with a caption and, where it has one, the banner that says
    what was run.

    `folded`: only the caption, which opens the table; for numbers that the picture above it shows
    already.
    """
    from IPython.display import display

    page = to_html(table, caption, digits)
    if folded:
        page = f"<details>\n<summary>{html.escape(caption)}</summary>\n{page}\n</details>"
    display({"text/html": page, "text/plain": to_text(table, digits)}, raw=True)


def to_html(
    table: pd.DataFrame, caption: str, digits: int = 2, alike: Sequence[object] = ()
) -> str:
    """An accessible HTML table: caption, headings of columns and rows marked as such, numbers to
    the right.

    Rows with one word in the first column, one below another, are a group that has this word as
    heading, where the second column tells them apart.  A table with verdicts is laid out in blocks
    where there is no room for it (page.css): its cells know their columns' names.

    A wide table is set smaller there, spreads below their means.

    `alike`: something for each row; rows for which it is the same, one below another, are shown
    together where a link leads to one of them.
    """
    banner = table.attrs.get("banner", "")
    words = _as_text(table, digits)
    right = [_to_the_right(words.iloc[:, column]) for column in range(words.shape[1])]
    head = "".join(
        _tag("th", name, side, ' scope="col"')
        for name, side in zip(words.columns, right, strict=True)
    )
    rows = list(words.itertuples(index=False, name=None))
    groups = _groups(rows) if right and not right[0] else None
    in_blocks = _has_verdicts(words)
    labels = list(words.columns) if in_blocks else [""] * len(right)
    if groups:
        bodies = [_group(of_group, right, labels) for of_group in groups]
    elif alike:
        places = groupby(zip(alike, rows, strict=True), key=lambda pair: pair[0])
        together = ([row for _, row in pairs] for _, pairs in places)
        bodies = [_rows(of_place, right, labels, kind="alike") for of_place in together]
    else:
        bodies = [_rows(rows, right, labels)]
    said = f"<strong>{html.escape(caption)}</strong>" + (
        f'<br><span class="{RAN_AS}">{html.escape(banner)}</span>' if banner else ""
    )
    body = "".join(bodies)
    if is_wide := _letters(words) > WIDE:  # in words, not in a tag's labels
        body = re.sub(r"± [\d.]+(?![^<]*>)", r'<span class="spread">\g<0></span>', body)
    kinds = ["pfl-table", *["in-blocks"] * bool(in_blocks), *["wide"] * is_wide]
    page = (
        f'<table class="{" ".join(kinds)}">\n'
        f'<caption style="text-align:left"><span>{said}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n{body}</table>"
    )
    return _with_roles(page) if in_blocks else page


def _letters(words: pd.DataFrame) -> int:
    """How many letters stand side by side in a table's widest words."""
    columns = (words.iloc[:, place] for place in range(words.shape[1]))
    return sum(min(LONG, max(map(len, column), default=0)) for column in columns)


def _has_verdicts(words: pd.DataFrame) -> bool:
    """Whether a table has a column of verdicts, or rows of them, named in its second column."""
    return VERDICT in words.columns or (words.shape[1] > 1 and (words.iloc[:, 1] == VERDICT).any())


def _with_roles(page: str) -> str:
    """A table that says what its parts are: some browsers forget it where one is laid out in
    blocks.
    """
    page = re.sub(r'<th scope="(row|col)\w*"', r'\g<0> role="\1header"', page)
    page = page.replace('role="colheader"', 'role="columnheader"')
    for tag, role in (("table", "table"), ("tr", "row"), ("td", "cell")):
        page = re.sub(rf"<{tag}\b", f'<{tag} role="{role}"', page)
    return re.sub(r"<(thead|tbody)\b", r'<\1 role="rowgroup"', page)


def _groups(rows: Sequence[tuple]) -> list[list[tuple]] | None:
    """The rows by runs of one word in the first column; None where no run is longer than one row,
    or the second column repeats in one.
    """
    groups = [list(of_group) for _, of_group in groupby(rows, key=lambda row: row[0])]
    if len(groups) == len(rows) or len(rows[0]) < 2:
        return None
    told_apart = all(len({row[1] for row in of_group}) == len(of_group) for of_group in groups)
    return groups if told_apart else None


def _rows(
    rows: Iterable[tuple],
    right: Sequence[bool],
    labels: Sequence[str],
    first: str = "",
    kind: str = "",
) -> str:
    """A table's body, each row below the heading in its first column; `first` goes before the first
    row's; `kind` is the body's class.
    """
    lines = []
    for row in rows:
        cells = [_tag("th", row[0], right[0], ' scope="row"')]
        cells += [
            _tag("td", word, side, _label(label, word))
            for word, side, label in zip(row[1:], right[1:], labels[1:], strict=True)
        ]
        lines.append("".join(cells))
    lines[:1] = [first + line for line in lines[:1]]
    body = f'<tbody class="{kind}">' if kind else "<tbody>"
    return body + "\n" + "".join(f"<tr>{line}</tr>\n" for line in lines) + "</tbody>\n"


def _group(rows: list[tuple], right: Sequence[bool], labels: Sequence[str]) -> str:
    heading = _tag("th", rows[0][0], False, f' scope="rowgroup" rowspan="{len(rows)}"')
    return _rows([row[1:] for row in rows], right[1:], labels[1:], heading)


def _label(label: str, word: str) -> str:
    """A cell's attributes where it says its column's name: with it, a long word takes the line."""
    if not label:
        return ""
    is_long = ' class="long"' if len(label) + len(word) > HALF_A_LINE else ""
    return f'{is_long} data-label="{html.escape(label)}"'


def setting_words(text: str) -> str:
    """A text with the names of settings in it as one reads them: "non_iid_1_10_clients" is
    "non-IID.1, 10 clients".
    """

    def words(found: re.Match) -> str:
        return f"{found[1].replace('non_iid_', 'non-IID.').replace('_', ' ')}, {found[2]} clients"

    return re.sub(r"\b([a-z]\w*?)_(\d+)_clients\b", words, text)


def run_on(dataset: str, ours: str) -> str:
    """ " (run on digits)" where our data set is not the paper's; else nothing."""
    same = len({re.sub(r"[\W_]", "", name).lower() for name in (dataset, ours)}) == 1
    return "" if same or not ours else f" (run on {ours})"


def to_text(table: pd.DataFrame, digits: int = 2) -> str:
    """The table for a terminal, below its banner."""
    banner = table.attrs.get("banner", "")
    with pd.option_context(
        "display.width", None, "display.max_columns", None, "display.max_colwidth", None
    ):
        return (f"{banner}\n\n" if banner else "") + _as_text(table, digits).to_string(index=False)


def to_csv(table: pd.DataFrame) -> str:
    """The rows of `beside` as CSV, numbers in full; an empty field is a number that does not exist,
    see `status`.
    """
    return table.to_csv(index=False, lineterminator="\n")


def _as_text(table: pd.DataFrame, digits: int) -> pd.DataFrame:
    def word(value: object) -> str:
        if isinstance(value, float | np.floating):
            return written(value, digits=digits)
        return value if isinstance(value, str) else str(value)

    # Column by column, as objects: pandas would make plain words of those that link or are bold.
    columns = [[word(value) for value in table.iloc[:, place]] for place in range(table.shape[1])]
    text = pd.DataFrame(dict(enumerate(columns)), dtype=object)
    text.columns = table.columns
    text.attrs.update(table.attrs)
    return text


def _tag(name: str, word: str, right: bool, attributes: str = "") -> str:
    style = f"text-align:{'right' if right else 'left'}"
    if right and name == "td" and len(word) > LONG:
        style += ";white-space:normal;min-width:7rem"
    elif name == "td" and len(word) > SENTENCE:
        style += ";min-width:13rem"
    inner = "".join(map(_marked, getattr(word, "parts", [word])))
    inner = f'<a href="{inner}">{inner}</a>' if isinstance(word, Link) else inner
    if isinstance(word, Place):
        attributes += f' id="{html.escape(word.id)}"'
    return f'<{name}{attributes} style="{style}">{inner}</{name}>'


def _marked(word: str) -> str:
    """A word in HTML: bold, or as a link to its run, where it is one of these."""
    inner = html.escape(setting_words(str(word)))
    strong = isinstance(word, Strong) or getattr(word, "strong", False)
    inner = f"<strong>{inner}</strong>" if strong else inner
    if isinstance(word, OfRun):
        inner = f'<a class="of-run" href="#{run_place(word.slug)}">{inner}</a>'
    return inner


def _to_the_right(words: pd.Series) -> bool:
    """Whether some word of a column is a number ("5", "98.5 ± 0.1", not "00_index.ipynb" or "2 of
    3"), or all of it are none.
    """
    numbers = words.map(lambda word: re.match(r"[-−+]?\d[\d.,]*(\s[±+(%]|$)", str(word)))
    return bool(numbers.any() or (words == NONE).all())


def written(number: float, sign: bool = False, digits: int = 2) -> str:
    """A number with so many digits after the point, with its sign if asked for; `NONE` for one that
    does not exist.
    """
    return (
        NONE
        if math.isnan(number)
        else f"{number:{'+' if sign else ''}.{digits}f}".replace("-", "−")
    )


def keep(table: pd.DataFrame, columns) -> pd.DataFrame:
    """A new table with the banner of `table`."""
    frame = pd.DataFrame(columns)
    frame.attrs.update(table.attrs)
    return frame
