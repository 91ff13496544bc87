"""A paper's sentences with their answers: a row each, a marker and a word for each judge, and the
comparisons behind them.
"""

import re
import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.display.theme import blank, theme

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JUDGES = {
    "here": "by our runs",
    "as run": "as the authors ran it",
    "done right": "done right",
    "by the paper's own numbers": "by the paper's numbers",
}
"""The columns of answers, drawn where a frame has them, with their headings."""
LOOKS = {"yes": ("#029e73", "o"), "no": ("#d55e00", "X"), "undecided": ("#cc78bc", "D")}
"""Colour and marker of an answer; any other word stands alone, in grey."""
GREY = "#6b6b6b"
SMALL = {"fontsize": 10, "va": "center"}
BY_LINE, BY_ROW, REST = 0.18, 0.14, 0.55  # inches: a line of words, between rows, heading
LINEAR = 1.0  # points: beyond them the axis of differences is logarithmic
TICKS = (-10, -1, 0, 1, 10, 100)
SPREAD = 0.32  # of a row's height to either side, for its comparisons


def answered_sentences(
    answers: pd.DataFrame, behind: pd.DataFrame | None = None, floor: float = 0.0
) -> tuple["Figure", str]:
    """A row for each sentence: each judge's answer as a marker and a word, and its beginning.

    `answers`: columns claim, one or more of `JUDGES`, and dataset where a sentence is asked of
    several.  `behind` adds the comparisons of each sentence, as differences in points: columns
    claim (the sentence's number, from 1), here and holds ("yes", "no", "undecided").  Differences
    within `floor`, which is shaded, answer nothing.  Returns the figure and its alt text.
    """
    judges = [name for name in JUDGES if name in answers]
    answers = answers.fillna(dict.fromkeys(judges, "–"))
    rows = answers.to_dict("records")
    letters, lines = (70, 2) if behind is None else (38, 3)
    labels = [_label(number, row, letters, lines) for number, row in enumerate(rows, 1)]
    # The answers stand first: on a telephone the rest of a picture is reached by scrolling.
    widths = [14 * len(judges), letters] if behind is None else [13.5 * len(judges), letters, 29]
    with theme():
        height = len(rows) * (lines * BY_LINE + BY_ROW) + REST
        figure, axes = blank(height, columns=len(widths), widths=widths, same_y=True)
        for place, (label, row) in enumerate(zip(labels, rows, strict=True)):
            colour = "black" if _word(row[judges[0]]) in LOOKS else GREY
            axes[1].text(0, place, label, color=colour, **SMALL)
        said = [
            _judged(axes[0], place, JUDGES[name], list(answers[name]))
            for place, name in enumerate(judges)
        ]
        axes[0].set_xlim(0, len(judges))
        for blind in axes[:2]:
            blind.set_axis_off()
        if behind is not None:
            said.append(_comparisons(axes[2], behind, floor))
        for panel in axes:
            for place in range(1, len(rows)):
                panel.axhline(place - 0.5, color="#dddddd", linewidth=0.8, zorder=0)
            panel.set_ylim(len(rows) - 0.5, -0.5)
    return figure, f"Table of {len(rows)} sentences and their answers. {' '.join(said)}"


def _label(number: int, row: dict, letters: int, lines: int) -> str:
    about = f"{row['dataset']}: " if isinstance(row.get("dataset"), str) else ""
    words = f"{number}. {about}{row['claim']}"
    return textwrap.fill(words, letters, max_lines=lines, placeholder=" …", break_on_hyphens=False)


def _word(answer: str) -> str:
    """ "undecided" of "undecided (1 of 5 seeds)"."""
    return answer.partition(" (")[0]


def _seeds(answer: str) -> str:
    found = re.search(r"\(([^)]* seeds?)\)", answer)
    return found[1] if found else ""


def _judged(axes: "Axes", place: int, heading: str, answers: list[str]) -> str:
    """Draw one column of answers; in words, which sentences have which.

    The number of seeds stands in the heading where all answers share it, else below each.
    """
    seeds = {_seeds(answer) for answer in answers if _word(answer) in LOOKS}
    shared = seeds.pop() if len(seeds) == 1 else None
    title = "\n".join(filter(None, [textwrap.fill(heading, 14), shared and f"({shared})"]))
    axes.text(place + 0.02, -0.6, title, fontsize=10, fontweight="bold", va="bottom")
    for row, answer in enumerate(answers):
        word = _word(answer)
        if word in LOOKS:
            colour, marker = LOOKS[word]
            axes.plot(place + 0.08, row, color=colour, marker=marker, markersize=9)
            below = "" if shared is not None else _seeds(answer)
            axes.text(place + 0.19, row, f"{word}\n{below}".strip(), color="black", **SMALL)
        else:
            axes.text(place + 0.05, row, word, color=GREY, **SMALL)
    numbers: dict[str, list[str]] = {}
    for number, answer in enumerate(answers, 1):
        numbers.setdefault(_word(answer), []).append(str(number))
    told = [f"{len(of)} {word} ({', '.join(of)})" for word, of in numbers.items() if word != "–"]
    return f"{heading.capitalize()}: {', '.join(told)}."


def _comparisons(axes: "Axes", behind: pd.DataFrame, floor: float) -> str:
    """Each sentence's comparisons in its row, one above the other in their order."""
    seen = behind.dropna(subset="here")
    for number, rows in seen.groupby("claim"):
        drawn = rows.reset_index(drop=True)
        for place, row in drawn.iterrows():
            colour, marker = LOOKS.get(row["holds"], (GREY, "s"))
            up = 0.0 if len(drawn) == 1 else SPREAD * (2 * place / (len(drawn) - 1) - 1)
            axes.plot(
                row["here"],
                number - 1 + up,
                color=colour,
                marker=marker,
                markersize=5,
                alpha=0.85,
            )
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=0.8)
    low, high = min(-LINEAR, behind["here"].min()), max(LINEAR, behind["here"].max())
    axes.set_xlim(1.3 * low, 1.5 * high)
    axes.set_xticks([tick for tick in TICKS if 1.3 * low <= tick <= 1.5 * high])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvspan(-floor, floor, color="#e6e6e6", zorder=0)
    axes.axvline(0, color="#888888", linewidth=1)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelleft=False)
    axes.set_xlabel(f"points, logarithmic beyond ±{LINEAR:g}\n(shaded: ±{floor:g})", fontsize=10)
    axes.set_title("comparisons behind it", fontsize=10, fontweight="bold", loc="left")
    counts = seen["holds"].map(_word).value_counts()
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    rest = f"; {len(behind) - len(seen)} more have no number" if len(seen) < len(behind) else ""
    return (
        f"{len(seen)} comparisons behind them, drawn as differences in points:"
        f" {told or 'none'}{rest}."
    )
