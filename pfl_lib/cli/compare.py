"""`pfl-lib compare`: the papers' printed values beside ours, from stored and published results."""

import textwrap

import click

from pfl_lib.cli import options
from pfl_lib.errors import BadInput

ALL_PAPERS = ("scorecard", "values", "sentences")
RAN = ("ran", "diverged")


@click.command("compare")
@options.only
@options.method
@options.profile("this profile (each that has a result)")
@options.seeds
@options.store
@click.option(
    "--format",
    type=click.Choice(["table", *ALL_PAPERS, "csv", "runs", "latex"]),
    default="table",
    help="for reading; all papers in brief (scorecard); all printed values with their verdicts"
    " (values); the papers' sentences with their answers (sentences); the values of the pages with"
    " ours (csv); every run's number (runs); a table for a paper, with the package booktabs (latex)"
    " (table)",
)
def command(only, further, method, profile, seeds, store, format) -> None:
    """Print the papers' values beside ours, in percent, with difference and verdict.

    Ours is read as the paper's table is: WAFFLE's in the best round, FedFomo's and pFedLA's in the
    last.  Our last round and the verdicts' reasons are in --format csv.  Nothing is trained.
    """
    import pandas as pd

    from pfl_lib.display.table import latex
    from pfl_lib.papers import PRINTED, PROFILES, compare
    from pfl_lib.papers.runs import Runs
    from pfl_lib.progress import tell

    if not store.root.exists():
        tell(f"there is no folder {store.root}: beside the papers stand published results alone")
    if format in ALL_PAPERS:
        if only or further or method or profile or seeds:
            left_out = "leave --only, --method, --profile and --seeds out"
            raise BadInput(f"--format {format} is about all papers: {left_out}")
        return _all_papers(format, store)
    pages, found = options.pages(only + further, method), []
    printed = [(page, shown) for page in pages for shown in page.printed]
    for page, shown in printed:
        for name in [profile] if profile else reversed(PROFILES):
            size = shown.profiles[name].with_seeds(seeds) if seeds else shown.profiles[name]
            runs = Runs((shown.table.scaled(size),), store.find)
            beside = compare.beside(runs).assign(page=page.id)
            if profile or beside["status"].isin(RAN).any():
                found.append((page, size, runs, beside))
    if not found:
        why = "nothing was run yet (pfl-lib reproduce)"
        if not printed:
            pages = ", ".join(dict.fromkeys(shown.page for shown in PRINTED))
            why = f"printed results stand on {pages}"
        print(f"nothing to compare: {why}")
    elif format == "csv":
        print(pd.concat([beside for *_, beside in found]).to_csv(index=False), end="")
    elif format == "runs":
        frames = [r.values.assign(page=page.id, profile=size.name) for page, size, r, _ in found]
        print(pd.concat(frames).to_csv(index=False), end="")
    for page, size, runs, beside in found if format in ("latex", "table") else ():
        told = f"{page.heading}, {runs.tables[0].name}. {size.banner}"
        if format == "latex":
            ran = sorted({*beside["seeds"]} - {0}) or [0]
            seeds = f"{ran[0]} to {ran[-1]}" if len(ran) > 1 else ran[0]
            print(latex(compare.as_printed(beside), f"{told} Number of seeds that ran: {seeds}."))
        else:
            print(_filled(told))
            _print(runs, beside)


def _filled(words: str, indent: str = "") -> str:
    return textwrap.fill(words, 100, initial_indent=indent, subsequent_indent=indent)


def _print(runs, beside) -> None:
    """What ran, with one's own, each row's pairs of methods, and how many values were not run."""
    from pfl_lib.papers import compare

    own = beside["own"] & (beside["status"] != "left out")
    ran = beside[beside["status"].isin(RAN) | own]
    shown = ran[["dataset", "setting", "method", "metric"]].assign(
        printed=compare.with_spread(ran["printed"], ran["printed std"]),
        ours=compare.with_spread(ran["ours"], ran["ours std"]),
        difference=ran["difference"].round(2),
        seeds=ran["seeds"],
        verdict=ran["verdict"].where(ran["status"] == "ran", ran["status"]),
    )
    told = ["dataset", "setting", "metric", "pairs", "stands", "turned", "open"]
    for frame in (shown, compare.orders(runs).filter(told)):
        if len(frame):
            print(f"\n{frame.to_string(index=False, na_rep='–')}")
    missing = beside.loc[~beside["status"].isin(RAN), "status"]
    for word, number in missing.value_counts().items():
        print(f"{number} of {len(beside)} values {word}")
    print()


def _all_papers(format: str, store) -> None:
    """All papers in brief, each printed value as CSV, or each sentence."""
    import pandas as pd

    from pfl_lib.papers import PRINTED, compare, overview, scorecard

    answered = scorecard.answered(PRINTED, store.find) if format != "values" else None
    if format == "sentences":
        for line in answered.to_dict("records"):
            answer = f"{line['answer']}, {line['profile']} profile ({line['evidence']})"
            answer = answer if line["profile"] else "not run"
            head = f"{line['paper']}, {line['where']} ({line['page']}): {answer}"
            print(f"{_filled(head)}\n{_filled(line['quote'], '    ')}\n")
        return
    found = overview.overview(PRINTED, store.find)
    if format == "values":
        used = overview.settings_used()
        print(pd.concat([found.values, used]).to_csv(index=False), end="")
        return
    for line in overview.headline(found):
        print(f"{_filled(line)}\n")
    for title, table in (
        ("In the exact setting, epsilons and bytes too", overview.counted(found, "paper")),
        ("In smaller runs, epsilons and bytes too", overview.counted(found, "small")),
        ("Sentences", scorecard.counts(answered)),
    ):
        print(f"{title}\n{compare.in_words(table).to_string(index=False)}\n")
