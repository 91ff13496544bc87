"""The scorecard as it is seen: bars and counts for the index, every value with filters for its
page, a picture and a Markdown table for the README.
"""

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from pfl_lib.display.table_format import written
from pfl_lib.errors import BadInput
from pfl_lib.pages.run_links import mark_runs
from pfl_lib.papers.scorecard import Scorecard

COLOURS = {
    "reproduced": "#1a7f4b",
    "same order": "#3f7fc4",
    "other order": "#b5651d",
    "not reproduced": "#c0392b",
    "no verdict": "#8a6fb0",
    "not run": "#c3cad2",
    "used as printed": "#7fbf9b",
    "replaced": "#d9a441",
    "yes": "#1a7f4b",
    "no": "#c0392b",
    "undecided": "#8a6fb0",
}
FILTERED = ("paper", "table", "verdict")  # of the values
NOWHERE: Mapping[str, str] = MappingProxyType({})
SCRIPT = """
document.querySelectorAll('.filters[hidden]').forEach(function (bar) {
  var table = bar.parentNode.querySelector('table.values');
  bar.hidden = false;
  bar.addEventListener('input', function () {
    var shown = 0;
    table.querySelectorAll('tbody tr').forEach(function (row) {
      var fits = Array.from(bar.querySelectorAll('select')).every(function (one) {
        return !one.value || row.dataset[one.name] === one.value;
      });
      row.hidden = !fits;
      shown += fits;
    });
    bar.querySelector('output').textContent = shown + ' ' + bar.dataset.what;
  });
});
"""


def scorecard_html(
    card: Scorecard, links: Mapping[str, str], papers: Mapping[str, str] = NOWHERE
) -> str:
    """The sentence, and `bars_html`.

    `links`: where a page's id leads; "scorecard" is the page of all values.  `papers`: where a
    paper's name leads.
    """
    every = (
        f' <a href="{links["scorecard"]}">All {len(card.values)} values</a>.'
        if "scorecard" in links
        else ""
    )
    return (
        f'<section class="scorecard"><p class="answer">{html.escape(card.sentence())}{every}</p>\n'
        f"{bars_html(card, papers)}</section>\n"
    )


def bars_html(card: Scorecard, papers: Mapping[str, str] = NOWHERE) -> str:
    """A bar and the counts for each paper, of printed values and of sentences; its name leads where
    `papers` says.
    """
    return (
        f"{_bars(card.counts(), 'printed values', papers)}"
        f"<p>{html.escape(card.claims_sentence())}</p>"
        f"{_bars(card.answers(), 'sentences', papers)}"
    )


def _bars(counts: pd.DataFrame, what: str, papers: Mapping[str, str]) -> str:
    words = [name for name in counts.columns[2:] if counts[name].any()]
    head = "".join(
        f'<th><span class="key" style="background:{COLOURS[word]}"></span>{word}</th>'
        for word in words
    )
    rows = []
    for row in counts.to_dict("records"):
        parts = "".join(
            f'<span style="flex:{row[word]};background:{COLOURS[word]}"'
            f' title="{row[word]} {word}"></span>'
            for word in words
            if row[word]
        )
        cells = "".join(
            f'<td data-word="{word}"{"" if row[word] else " data-none"}>{row[word] or "–"}</td>'
            for word in words
        )
        name = html.escape(row["paper"])
        if row["paper"] in papers:
            name = f'<a href="{papers[row["paper"]]}">{name}</a>'
        rows.append(
            f'<tr><th scope="row">{name}</th>'
            f'<td class="bar" aria-hidden="true"><div>{parts}</div></td>'
            f'<td data-word="{what}">{row[what]}</td>{cells}</tr>'
        )
    return (
        f'<table class="bars"><thead><tr><th scope="col">Paper</th><th class="bar"></th>'
        f"<th>{what}</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>\n"
    )


def values_html(card: Scorecard, links: Mapping[str, str]) -> str:
    """Every printed value with its verdict, and boxes that filter them where scripts run; each
    links to its page where `links` has it, and ours to its runs once all pages are there
    (`run_links`).
    """
    rows = "".join(_value(row, links) for row in card.values.to_dict("records"))
    heads = ("paper", "table", "data set, setting", "method, metric", "printed", "ours", "verdict")
    return _filtered(card.values, FILTERED, "values", heads, rows)


def _filtered(
    frame: pd.DataFrame, names: Sequence[str], what: str, heads: Sequence[str], rows: str
) -> str:
    """A table of these rows in HTML, which say what they are filtered by, below a box for each of
    the names.
    """
    boxes = "".join(
        f'<label>{name} <select name="{name}"><option value="">all</option>'
        + "".join(f"<option>{html.escape(word)}</option>" for word in _in_order(frame[name]))
        + "</select></label>"
        for name in names
    )
    head = "".join(f'<th scope="col">{words}</th>' for words in heads)
    return (
        f'<div class="all-values"><p class="filters" data-what="{what}" hidden>{boxes}'
        f"<output>{len(frame)} {what}</output></p>"
        f'<table class="values"><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>'
        f"<script>{SCRIPT}</script>"
    )


def _in_order(words: pd.Series) -> list[str]:
    """The words once each: tables by name, others in the order in which they stand."""
    once = words.unique().tolist()
    return sorted(once) if words.name == "table" else once


def _value(row: dict, links: Mapping[str, str]) -> str:
    data = "".join(f' data-{name}="{html.escape(str(row[name]))}"' for name in FILTERED)
    # A number of a setting is as exact as it is printed; a result has two digits.
    printed, ours = (_number(row[name], row["kind"]) for name in ("value", "ours"))
    if row["kind"] == "result" and not math.isnan(row["std"]):
        printed += f" ± {written(row['std'])}"
    if row["run"]:
        ours = mark_runs(ours, row["page"], row["profile"], row["run"])
    table = html.escape(row["table"])
    if row["page"] in links:
        table = f'<a href="{links[row["page"]]}">{table}</a>'
    verdict = f"{_key(row['verdict'])}{row['verdict']}"
    because = "; ".join(
        filter(None, [row["because"], row["profile"] and f"{row['profile']} profile"])
    )
    cells = [
        html.escape(row["paper"]),
        table,
        html.escape(f"{row['dataset']}, {row['setting']}"),
        html.escape(f"{row['method']}, {row['metric'].removesuffix('_percent')}"),
        printed,
        ours,
        f"{verdict} <small>{html.escape(because)}</small>",
    ]
    # On a phone a row is a paragraph, in which two numbers need their names.
    labels = ["", "", "", "", "printed", "ours", ""]
    told = "".join(
        f'<td data-label="{label}">{cell}</td>' if label else f"<td>{cell}</td>"
        for label, cell in zip(labels, cells, strict=True)
    )
    return f"<tr{data}>{told}</tr>\n"


def _key(word: str) -> str:
    return f'<span class="key" style="background:{COLOURS[word]}"></span>'


def _number(value: float, kind: str) -> str:
    return "–" if math.isnan(value) else f"{value:g}" if kind == "setting" else written(value)


def markdown(card: Scorecard) -> str:
    """The counts as a Markdown table, a row for each paper."""
    values, answers = card.counts(), card.answers()
    both = values.merge(answers, on="paper", how="outer", suffixes=("", ", sentences"), sort=False)
    both = both.set_index("paper").loc[[*answers["paper"]]]
    words = [name for name in values.columns[2:] if values[name].any()]
    lines = [
        f"| paper | printed values | {' | '.join(words)} |"
        " sentences: yes, no, undecided, not run |",
        f"|---|{'---:|' * (len(words) + 1)}---|",
    ]
    of_answers = answers.set_index("paper")
    for paper, row in both.iterrows():
        counts = [row["printed values"], *(row[word] for word in words)]
        cells = [f"{count:.0f}" if count == count and count else "–" for count in counts]
        told = of_answers.loc[paper].drop("sentences")
        lines.append(f"| {paper} | {' | '.join(cells)} | {', '.join(map(str, told))} |")
    return "\n".join(lines) + "\n"


PICTURE = "docs/scorecard.svg"
BEGIN, END = "<!-- scorecard: made by make scorecard -->\n", "<!-- end of scorecard -->\n"


def in_readme(card: Scorecard) -> str:
    """What stands in the README between `BEGIN` and `END`."""
    return (
        f"{card.sentence()}\n{card.claims_sentence()}\n\n"
        f"![{card.sentence()}]({PICTURE})\n\n{markdown(card)}"
    )


def update_readme(root: Path, card: Scorecard) -> None:
    """Write the scorecard into a checkout's README and its picture into docs.

    Raises BadInput where the README has no place for it.
    """
    readme = root / "README.md"
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadInput(f"{readme} has no lines {BEGIN.strip()!r} and {END.strip()!r}: restore them")
    readme.write_text(f"{before}{BEGIN}{in_readme(card)}{END}{after}", encoding="utf-8")
    (root / PICTURE).write_text(svg(card), encoding="utf-8")


def svg(card: Scorecard) -> str:
    """The counts of printed values as a picture 840 wide: a bar for each paper, the numbers on it,
    readable on light and dark ground.
    """
    counts = card.counts()
    words = [name for name in counts.columns[2:] if counts[name].any()]
    left, wide, high, gap, top = 130, 690, 26, 14, 44
    height = top + len(counts) * (high + gap)
    parts, at = [], 0
    for word in words:
        parts.append(
            f'<rect x="{at}" y="12" width="12" height="12" rx="2" fill="{COLOURS[word]}"/>'
            f'<text x="{at + 17}" y="22">{word}</text>'
        )
        at += 30 + round(7.1 * len(word))
    for place, row in enumerate(counts.to_dict("records")):
        y, x = top + place * (high + gap), float(left)
        parts.append(f'<text x="0" y="{y + 18}">{row["paper"]}, {row["printed values"]}</text>')
        for word in words:
            share = wide * row[word] / row["printed values"]
            if not share:
                continue
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{share:.1f}" height="{high}"'
                f' fill="{COLOURS[word]}"/>'
            )
            if share > 9 * len(str(row[word])):
                ink = "#1b2430" if word in ("not run", "used as printed", "replaced") else "#ffffff"
                parts.append(
                    f'<text x="{x + share / 2:.1f}" y="{y + 18}" text-anchor="middle"'
                    f' style="fill:{ink}">{row[word]}</text>'
                )
            x += share
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 {height}" width="840"'
        f' height="{height}" role="img"><title>{html.escape(card.sentence())}</title>'
        "<style>text{font:13px system-ui,sans-serif;fill:#1b2430}"
        "@media(prefers-color-scheme:dark){text{fill:#dfe5ec}}</style>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def claims_html(card: Scorecard, links: Mapping[str, str]) -> str:
    """Every sentence with its answer, and boxes that filter them where scripts run; each paper
    links to the page of its sentences where `links` has it.
    """
    rows = "".join(_sentence(row, links) for row in card.claims.to_dict("records"))
    heads = ("paper", "sentence", "where", "answer")
    return _filtered(card.claims, ("paper", "answer"), "sentences", heads, rows)


def _sentence(row: dict, links: Mapping[str, str]) -> str:
    paper = html.escape(row["paper"])
    if row["page"] in links:
        paper = f'<a href="{links[row["page"]]}">{paper}</a>'
    told = row["in full"] if row["answer"] != "not run" else "not run"
    told += f", done right: {row['done right']}" if row["done right"] else ""
    cells = [paper, *(html.escape(row[name]) for name in ("claim", "where"))]
    cells.append(f"{_key(row['answer'])}{html.escape(told)}")
    data = "".join(f' data-{name}="{html.escape(row[name])}"' for name in ("paper", "answer"))
    return f"<tr{data}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
