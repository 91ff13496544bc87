"""Data frames as tables of a page: pandas Styler, for HTML and LaTeX."""

import hashlib
import html
import re

import pandas as pd
from pandas.io.formats.style import Styler

NONE = "–"
LONG = 40  # characters of a cell that is a sentence
# Behind a verdict's word: colours that let the text through on a light and on a dark page.
SHADES = {
    "reproduced": "rgba(2, 158, 115, 0.20)",
    "compatible": "rgba(1, 115, 178, 0.16)",
    "not reproduced": "rgba(222, 143, 5, 0.28)",
    "diverged": "rgba(204, 51, 17, 0.22)",
    "not run": "rgba(128, 128, 128, 0.14)",
}
SHADES |= {"holds": SHADES["reproduced"], "fails": SHADES["diverged"]}
MINUS = r"(?<![\w-])-(?=\d)"
IN_TEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"~": r"\textasciitilde{}"}
IN_TEX |= {"^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
LATEX = {"−": "$-$", "±": r"$\pm$", NONE: "--", "Δ": r"$\Delta$", "Ω": r"$\Omega$"}


def styled(frame: pd.DataFrame, caption: str, digits: int = 2) -> Styler:
    """The frame with its caption: numbers to `digits` and to the right, "–" where there is none,
    long words on several lines, a shade behind verdicts.
    """
    id = hashlib.sha256((caption + frame.to_csv()).encode()).hexdigest()[:10]
    one = frame.index.nlevels == frame.columns.nlevels == 1 and frame.columns.name is None
    frame = frame.rename_axis(columns=frame.index.name) if one else frame  # above the rows' names
    shown = _formatted(Styler(frame, uuid=id, cell_ids=False), digits, "html")
    shown = shown.hide(names=True) if one else shown
    rules = [
        {"selector": f".col{place}", "props": _layout(column)}
        for place, (_, column) in enumerate(frame.items())
    ]
    for word, shade in SHADES.items():
        places = zip(*(frame.astype(object) == word).to_numpy().nonzero(), strict=True)
        if cells := [f"td.row{row}.col{column}" for row, column in places]:
            rules.append({"selector": ", ".join(cells), "props": f"background-color: {shade}"})
    padded = {"selector": "th, td", "props": "padding: 0.3rem 0.75rem 0.3rem 0"}  # in a widget
    rules += [{"selector": "caption", "props": "text-align: left"}, padded]
    return shown.set_table_styles(rules).set_caption(html.escape(caption))


def _is_right(column: pd.Series) -> bool:
    """Whether a column is set to the right: numbers, also with a spread or in a few words."""
    words = column.dropna().astype(str)
    if words.str.len().max() > LONG:  # a sentence may begin with a number
        return False
    return words.empty or words.str.fullmatch(r"[-+−]?\d.*|–|inf|nan").any()


def _layout(column: pd.Series) -> str:
    if _is_right(column):
        return "text-align: right; font-variant-numeric: tabular-nums"
    wide = "; min-width: 13rem" if column.astype(str).str.len().max() > LONG else ""
    return f"text-align: left; white-space: normal; max-width: 30rem{wide}"


def _formatted(shown: Styler, digits: int, escape: str) -> Styler:
    shown = shown.format(precision=digits, na_rep=NONE, thousands=",", escape=escape)
    for axis in (0, 1):  # a heading such as a learning rate keeps its digits
        shown = shown.format_index(as_shown, axis=axis, na_rep=NONE, escape=escape)
    return shown.hide(axis="index") if _counts(shown.index) else shown


def _counts(index: pd.Index) -> bool:
    """Whether an index counts rows, and says nothing to a reader."""
    return index.nlevels == 1 and index.name is None and pd.api.types.is_integer_dtype(index)


def as_shown(value: object) -> object:
    """A value as it is shown: 0.088 in place of 0.08800000000000001."""
    return f"{value:g}" if isinstance(value, float) else value


def show_table(frame: pd.DataFrame, caption: str, digits: int = 2, folded: bool = False) -> None:
    """Show a frame, a wide one in a box that scrolls; `folded`: below its caption."""
    from IPython.display import display

    page = scrolling(frame, caption, digits, folded)
    numbers = f"{{:,.{digits}f}}".format
    plain = frame.to_string(float_format=numbers, na_rep=NONE, index=not _counts(frame.index))
    display({"text/html": page, "text/plain": f"{caption}\n{plain}"}, raw=True)


def scrolling(frame: pd.DataFrame, caption: str, digits: int = 2, folded: bool = False) -> str:
    """The HTML of what `show_table` shows."""
    shown = styled(frame, "" if folded else caption, digits)
    page = re.sub(r'<th (?=[^>]*class="(row|col)_heading)', r'<th scope="\1" ', shown.to_html())
    name = html.escape(caption)
    # One sign for minus, as figures have it; hyphens within words and dates stay.
    page = re.sub(r"<td.*?</td>", lambda cell: re.sub(MINUS, "−", cell[0]), page)
    told = f'class="scroll" role="region" aria-label="{name}" tabindex="0"'
    page = f'<div {told} style="overflow-x:auto">{page}</div>'
    return f"<details><summary>{name}</summary>{page}</details>" if folded else page


def latex(frame: pd.DataFrame, caption: str = "", digits: int = 2) -> str:
    """The frame as a LaTeX table, with the package booktabs; without a caption its rows alone."""
    shown = _formatted(frame.style, digits, "latex")
    columns = "".join("r" if _is_right(column) else "l" for _, column in frame.items())
    index = 0 if _counts(frame.index) else frame.index.nlevels
    text = shown.to_latex(
        hrules=True,
        caption=caption.translate(str.maketrans(IN_TEX)) or None,
        position_float="centering" if caption else None,
        column_format="l" * index + columns,
        multirow_align="naive",
    )
    return re.sub(MINUS, "−", text).translate(str.maketrans(LATEX))
