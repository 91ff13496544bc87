"""The index over the pages of a folder: the headline, the papers' results, the live check."""

import html
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from pfl_lib.pages.cited import PAPERS, WHERE
from pfl_lib.pages.html import Page, Stamp, css_class, in_line, styles
from pfl_lib.papers.judge import LEVELS, ORDERS

RESULTS, LIVE = ("paper", "small"), "quick"


def build_index(
    folder: Path,
    pages: Mapping[str, Page],
    stamps: Mapping[str, Stamp],
    told: Sequence[str],
    stored: Container[str] = (),
) -> Path:
    """Write `index.html` into `folder`: the headline (`told`), then each page by paper: its
    picture, answer, verdicts, time and memory, then what the live check compared.

    `pages`: by id; `stamps`: of all pages that are there, by their names, such as
    "paper/waffle-table1.html"; `stored`: the ids of pages of which some run on the paper's data is
    there, which can be drawn without training.
    """
    by_id: dict[str, dict[str, str]] = {}
    for name, stamp in stamps.items():
        by_id.setdefault(stamp.id, {})[stamp.profile] = name
    papers = list(dict.fromkeys(page.paper for page in pages.values() if page.paper))
    sections = [
        _section(
            paper, [page for page in pages.values() if page.paper == paper], by_id, stamps, stored
        )
        for paper in papers
    ]
    general = "".join(
        _general(page, name, stamps[name])
        for page in pages.values()
        if not page.paper
        for name in by_id.get(page.id, {}).values()
    )
    links = {
        id: _best(names) if pages[id].paper else next(iter(names.values()))
        for id, names in by_id.items()
        if id in pages and (_best(names) or not pages[id].paper)
    }
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>pfl_lib · results</title>
<style>
{styles()}
</style>
</head>
<body>
<main class="index">
<h1>Personalised federated learning, reproduced</h1>
{_headline(told, links)}
<nav class="contents" aria-label="sections">{_contents(papers)}</nav>
{"".join(sections)}
{_live(pages, by_id, stamps)}
{f'<section id="more"><h2>Start, quickstart, scorecard</h2>{general}</section>' if general else ""}
</main>
</body>
</html>
"""
    index = folder / "index.html"
    index.write_text(text, encoding="utf-8")
    return index


def _headline(told: Sequence[str], links: Mapping[str, str]) -> str:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in told)
    every = links.get("scorecard")
    more = f'<p><a href="{every}">Every value and every sentence</a></p>' if every else ""
    return f'<section class="scorecard"><ul class="answer">{lines}</ul>{more}</section>\n'


def _contents(papers: list[str]) -> str:
    names = {_anchor(paper): paper for paper in papers} | {"live": "Live check"}
    return "".join(f'<a href="#{id}">{html.escape(words)}</a>' for id, words in names.items())


def _anchor(paper: str) -> str:
    return paper.lower().replace(" ", "-")


def _best(names: Mapping[str, str]) -> str | None:
    """Of the pages of one exhibit, that of the paper's data."""
    return next((names[profile] for profile in RESULTS if profile in names), None)


def _section(
    paper: str,
    pages: list[Page],
    by_id: Mapping[str, Mapping[str, str]],
    stamps: Mapping[str, Stamp],
    stored: Container[str],
) -> str:
    rows = "".join(_row(page, by_id.get(page.id, {}), stamps, page.id in stored) for page in pages)
    title = html.escape(PAPERS.get(paper, paper))
    if paper in WHERE:
        title += f' <a class="paper" href="{WHERE[paper]}">the paper</a>'
    return f'<section id="{_anchor(paper)}"><h2>{title}</h2>\n{rows}</section>\n'


def _row(page: Page, names: Mapping[str, str], stamps: Mapping[str, Stamp], stored: bool) -> str:
    """One page: picture, title, answer, verdicts; how to make it where it is not there."""
    name = _best(names)
    title = html.escape(page.title)
    others = [
        f'<a class="chip {profile}" href="{other}">{profile} profile</a>'
        for profile, other in names.items()
        if other != name
    ]
    if name is None:
        draw = f"pfl-lib reproduce --plots-only --only {page.id}"
        draw = f"<p>To draw what is stored: <code>{draw}</code></p>" if stored else ""
        return (
            f'<article class="page not-run"><div class="picture"></div><div><h3>{title}</h3>'
            f'<p class="about">{html.escape(page.about)}</p><p><span class="chip not-run">not drawn'
            f" here</span> {''.join(others)}</p>{draw}{_command(page, 'small')}</div></article>\n"
        )
    stamp = stamps[name]
    picture = (
        f'<img src="{stamp.picture}" alt="{html.escape(page.title)}, in small">'
        if stamp.picture
        else ""
    )
    chips = [f'<span class="chip {css_class(stamp.status)}">{stamp.status}</span>']
    if stamp.status == "ok":
        chips = [f'<span class="chip {stamp.profile}">{stamp.profile} profile</span>']
    chips += [
        f'<span class="chip {css_class(word)}">{stamp.verdicts[word]} {word}</span>'
        for word in (*LEVELS, *(f"pairs {order}" for order in ORDERS))
        if word in stamp.verdicts
    ]
    words = in_line(stamp.answer) or html.escape(stamp.error or page.about)
    facts = [stamp.runs and f"{stamp.runs} stored", *_made(stamp)]
    absent = stamp.status == "not run"
    profile = "paper" if absent else stamp.profile
    command = _command(page, profile) if absent or stamp.runs else ""  # of some runs, or of all
    return (
        f'<article class="page {css_class(stamp.status)}"><a class="picture" href="{name}"'
        f' tabindex="-1" aria-hidden="true">{picture}</a><div><h3><a href="{name}">{title}</a></h3>'
        f'<p class="answer">{words}</p><p>{" ".join([*chips, *others])}</p>{command}'
        f'<p class="facts">{_joined(facts)}</p></div></article>\n'
    )


def _made(stamp: Stamp) -> list[str]:
    """Time, memory, date and code of a page."""
    memory = f"{stamp.megabytes:,} MB" if stamp.megabytes else ""
    made = [f"made {stamp.finished} UTC", f"pfl_lib {stamp.version}"]
    return [f"{stamp.seconds:.0f} s", memory, *made]


def _joined(facts: list[str]) -> str:
    return html.escape(" · ".join(filter(None, facts)))


def _command(page: Page, profile: str) -> str:
    command = f"pfl-lib reproduce --profile {profile} --only {page.id}"
    return f"<p>To train the missing runs: <code>{command}</code></p>"


def _live(
    pages: Mapping[str, Page], by_id: Mapping[str, Mapping[str, str]], stamps: Mapping[str, Stamp]
) -> str:
    """What was trained on this machine in the quick profile, and whether its numbers are those
    recorded.
    """
    there = [(page, by_id.get(id, {}).get(LIVE)) for id, page in pages.items() if page.paper]
    done = [(page, name, stamps[name]) for page, name in there if name]
    head = '<section id="live"><h2>Live check on this machine</h2>'
    if not done:
        return (
            f"{head}<p>Not run yet. <code>pfl-lib reproduce</code> trains the quick profile and"
            " compares its numbers with recorded ones.</p></section>\n"
        )
    rows = "".join(
        f'<tr><td><a href="{name}">{html.escape(f"{page.paper}, {page.title}")}</a></td>'
        f"<td>{_agrees(stamp)}</td><td>{stamp.compared:,}</td><td>{stamp.seconds:.0f}</td>"
        f"<td>{stamp.megabytes or '–'}</td></tr>\n"
        for page, name, stamp in done
    )
    return (
        f'{head}<p class="answer">{live_sentence([stamp for *_, stamp in done])}</p>'
        "<p>The quick profile trains on data that scikit-learn carries. Its numbers show that the"
        " code computes here what it computed where they were recorded, to a tolerance that the"
        " page states; whether a paper's numbers hold is shown above.</p>"
        f"<details><summary>{len(done)} page{'s' * (len(done) != 1)}</summary>"
        "<div class='scroll'><table><thead><tr>"
        "<th>Page</th><th>Numbers</th><th>Values compared</th><th>Seconds</th><th>Memory, MB</th>"
        f"</tr></thead><tbody>\n{rows}</tbody></table></div></details></section>\n"
    )


def live_sentence(stamps: list[Stamp]) -> str:
    """How many numbers of how many pages were compared with recorded ones, and how that ended."""
    compared = sum(stamp.compared for stamp in stamps)
    pages = sum(stamp.compared > 0 for stamp in stamps)
    failed = [stamp.id for stamp in stamps if stamp.status == "failed"]
    of = f"{pages} page{'s' * (pages != 1)}"
    words = f"{compared:,} numbers of {of} were computed here and agree with recorded ones"
    if failed:
        return f"{words}; {len(failed)} of {len(stamps)} pages failed: {', '.join(failed)}."
    return f"{words}; none differs." if compared else "No number was compared with a recorded one."


def _agrees(stamp: Stamp) -> str:
    if stamp.status == "failed":
        return f'<span class="chip failed">failed</span> {html.escape(stamp.error)}'
    if stamp.status == "not run":
        return '<span class="chip not-run">not run</span>'
    word = "agree" if stamp.compared else "not compared"
    return f'<span class="chip {"ok" if stamp.compared else "not-run"}">{word}</span>'


def _general(page: Page, name: str, stamp: Stamp) -> str:
    return (
        f'<p><a href="{name}">{html.escape(page.title)}</a> <span class="about">'
        f'{html.escape(page.about)}</span> <span class="facts">{_joined(_made(stamp))}</span></p>\n'
    )
