"""Data frames as tables of a page: pandas Styler, for HTML and LaTeX."""

import html

import pandas as pd
from pandas.io.formats.style import Styler

NONE = "–"


def styled(frame: pd.DataFrame, caption: str, digits: int = 2) -> Styler:
    """The frame with its caption: numbers to `digits`, "–" where there is none."""
    shown = frame.style.format(precision=digits, na_rep=NONE, thousands=",", escape="html")
    if isinstance(frame.index, pd.RangeIndex):
        shown = shown.hide(axis="index")
    numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    right = {"text-align": "right", "font-variant-numeric": "tabular-nums"}
    shown = shown.set_properties(subset=numbers, **right) if numbers else shown
    return shown.set_caption(html.escape(caption))


def show_table(frame: pd.DataFrame, caption: str, digits: int = 2, folded: bool = False) -> None:
    """Show a frame in a box that scrolls sideways where it is too wide; `folded`: below its
    caption, which opens it.
    """
    from IPython.display import display

    page = styled(frame, caption, digits).to_html()
    page = f'<div class="scroll" tabindex="0" style="overflow-x:auto">{page}</div>'
    if folded:
        page = f"<details><summary>{html.escape(caption)}</summary>{page}</details>"
    plain = f"{caption}\n{frame.to_string(float_format=f'{{:.{digits}f}}'.format, na_rep=NONE)}"
    display({"text/html": page, "text/plain": plain}, raw=True)


def latex(frame: pd.DataFrame, caption: str, digits: int = 2) -> str:
    """The frame as a LaTeX table, with the package booktabs."""
    shown = frame.style.format(precision=digits, na_rep="--", escape="latex")
    shown = shown.format_index(escape="latex").format_index(escape="latex", axis=1)
    if isinstance(frame.index, pd.RangeIndex):
        shown = shown.hide(axis="index")
    return shown.to_latex(hrules=True, caption=caption, position_float="centering")
