"""The index over the pages of a folder: what there is, how it was made, and what is missing."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from pfl_lib.pages.html import Page, Stamp, banner_line, css_class, styles

PAPERS = {
    "WAFFLE": (
        "WAFFLE: Weighted Averaging for Personalized Federated Learning (Beaussart et al., 2021)"
    ),
    "Weight Erosion": (
        "Weight Erosion: an Update Aggregation Scheme for Personalized Collaborative Machine"
        " Learning (Grimberg et al., 2020)"
    ),
    "FedFomo": (
        "Personalized Federated Learning with First Order Model Optimization (Zhang et al., 2021)"
    ),
    "pFedLA": "Layer-wised Model Aggregation for Personalized Federated Learning (Ma et al., 2022)",
}


def build_index(folder: Path, pages: Sequence[Page], stamps: Mapping[str, Stamp]) -> Path:
    """Write `index.html` into `folder`: each notebook with its page, profile, code version, time
    and status.
    """
    rows, group = [], None
    for page in pages:
        if page.paper != group and page.paper:
            rows.append(
                '<tr class="group"><th colspan="6"'
                f' scope="rowgroup">{html.escape(PAPERS.get(page.paper, page.paper))}</th></tr>\n'
            )
        group = page.paper
        rows.append(_index_row(page, stamps.get(page.id)))
    # Pages of one profile can differ in their data: each banner that stands on a page, once.
    banners = dict.fromkeys(
        (stamp.profile, stamp.banner) for stamp in stamps.values() if stamp.profile
    )
    words = "".join(banner_line(profile, banner) for profile, banner in banners)
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
<p>One page per table or figure, each computed by the notebook of the same name.</p>
{words}
<table>
<thead><tr><th>Page</th><th>Status</th><th>Profile</th><th class="time">Seconds</th><th>Made</th>
<th>Code</th></tr></thead>
<tbody>
{"".join(rows)}
</tbody>
</table>
</main>
</body>
</html>
"""
    index = folder / "index.html"
    index.write_text(text, encoding="utf-8")
    return index


def _index_row(page: Page, stamp: Stamp | None) -> str:
    about = f'<span class="about">{html.escape(page.about)}</span>'
    if stamp is None:
        return (
            f'<tr><td>{html.escape(page.title)}{about}</td><td><span class="chip not-run">not'
            " run</span></td><td></td><td></td><td></td><td></td></tr>\n"
        )
    error = f'<span class="about">{html.escape(stamp.error)}</span>' if stamp.error else ""
    runs = f'<span class="about">{html.escape(stamp.runs)}</span>' if stamp.runs else ""
    return (
        f'<tr><td><a href="{page.name}">{html.escape(page.title)}</a>{about}{error}</td>'
        f'<td><span class="chip {css_class(stamp.status)}">{stamp.status}</span>{runs}</td>'
        f'<td><span class="chip {stamp.profile}">{stamp.profile}</span></td>'
        f'<td class="time">{stamp.seconds:.1f}</td><td>{html.escape(stamp.finished)} UTC</td>'
        f'<td class="version">{html.escape(stamp.version)}</td></tr>\n'
    )
