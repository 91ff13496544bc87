"""`pfl-lib compare`: the papers' printed values beside ours, from the results that are stored or
came with the checkout.
"""

import argparse
import textwrap

from pfl_lib.cli import arguments
from pfl_lib.cli.words import count
from pfl_lib.display.table_format import NONE, run_on, setting_words
from pfl_lib.papers import comparison
from pfl_lib.results.summary import LEFT_OUT, NOT_RUN, NOTHING

WIDTH = 100
COLUMNS = [
    "setting",
    "method",
    "metric",
    "paper",
    "ours",
    "last round",
    "seeds",
    "difference",
    "verdict",
]


def add_parser(subparsers) -> None:
    """Add `compare` to the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="the papers' values beside ours",
        description=(
            "Print the papers' values beside ours, in percent, with the difference and the"
            " verdict.  Ours is read as the paper's table is: WAFFLE's in the best round (its last"
            " one stands beside it), FedFomo's and pFedLA's in the last.  Spreads and the"
            " verdicts' reasons are in --format csv.  Nothing is trained."
        ),
    )
    arguments.add_only(parser)
    arguments.add_method(parser)
    parser.add_argument(
        "--profile",
        choices=("quick", "small", "paper"),
        help="this profile (each that has a result)",
    )
    parser.add_argument(
        "--seeds",
        type=arguments.at_least_one,
        metavar="N",
        help="seeds 1 to N, not the profile's own",
    )
    arguments.add_results_dir(parser)
    parser.add_argument(
        "--format",
        choices=("table", "scorecard", "values", "sentences", "csv", "runs", "latex"),
        default="table",
        help=(
            "for reading; all papers in brief (scorecard); all 558 printed values with their"
            " verdicts (values); the papers' sentences with their answers (sentences); the values"
            " of the pages with ours (csv); every run's number (runs); a table for a paper, with"
            " the package booktabs (latex) (table)"
        ),
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 0 also when there is nothing to compare yet, which is said."""
    import pandas as pd

    from pfl_lib.display import tables
    from pfl_lib.papers import EXHIBITS, PROFILES
    from pfl_lib.results.store import Store

    store = Store(args.results_dir)
    if args.format in ("scorecard", "values", "sentences"):
        return _scorecard(args, store)
    exhibits = arguments.pages(args)
    found = []
    for page in exhibits:
        for name in [args.profile] if args.profile else reversed(PROFILES):
            profile = page.profile(name, args.seeds)
            for described in page.tables:
                table = comparison.compare(described, profile, store)
                if args.profile or not table["status"].isin(NOTHING).all():
                    table.insert(0, "page", page.id)
                    found.append((page, described, profile, table))
    if not found:
        comparing = [page.id for page in EXHIBITS.values() if page.tables]
        if any(page.id in comparing for page in exhibits):
            print("nothing to compare: nothing was run yet (pfl-lib reproduce)")
        else:
            print(
                "nothing to compare: these pages set no printed results beside ours; pages that do:"
                f" {', '.join(comparing)}"
            )
    elif args.format == "csv":
        print(tables.to_csv(pd.concat([table for *_, table in found])), end="")
    elif args.format == "runs":
        frames = [
            described.frame(profile, store.find).assign(page=page.id, profile=profile.name)
            for page, described, profile, _ in found
        ]
        print(tables.to_csv(pd.concat(frames)), end="")
    else:
        for page, _, _, table in found:
            print(textwrap.fill(f"{page.paper}, {page.title}", WIDTH, **_comment(args.format)))
            banner = textwrap.fill(table.attrs["banner"], WIDTH, **_comment(args.format))
            print(f"{banner}\n")
            print(comparison.to_latex(table) if args.format == "latex" else f"{_compact(table)}\n")
    return 0


def _scorecard(args: argparse.Namespace, store) -> int:
    """All papers in brief, each printed value as CSV, or each sentence."""
    from pfl_lib.display import tables
    from pfl_lib.errors import BadInput
    from pfl_lib.papers.scorecard import scorecard

    if args.only or args.method or args.profile or args.seeds:
        raise BadInput(
            f"--format {args.format} is about all papers: leave --only, --method, --profile and"
            " --seeds out"
        )
    card = scorecard(store)
    if args.format == "values":
        print(tables.to_csv(card.values), end="")
        return 0
    if args.format == "sentences":
        print(f"{textwrap.fill(card.claims_sentence(), WIDTH)}\n")
        for line in card.claims.to_dict("records"):
            answer = (
                f"{line['in full']}, {line['profile']} profile" if line["profile"] else "not run"
            )
            if line["done right"] not in ("", "the same"):
                answer += f"; done right: {line['done right']}"
            head = f"{line['paper']}, {line['where']} ({line['page']}): {answer}"
            indent = {"initial_indent": "    ", "subsequent_indent": "    "}
            print(f"{head}\n{textwrap.fill(line['claim'], WIDTH, **indent)}\n")
        return 0
    for sentence, counts in (
        (card.sentence(), card.counts()),
        (card.claims_sentence(), card.answers()),
    ):
        print(f"{textwrap.fill(sentence, WIDTH)}\n\n{counts.to_string(index=False)}\n")
    return 0


def _comment(format: str) -> dict[str, str]:
    mark = "% " if format == "latex" else ""
    return {"initial_indent": mark, "subsequent_indent": mark}


def _compact(table) -> str:
    """The values that were run, in at most WIDTH columns, and how many were not."""
    from pfl_lib.display import tables

    absent, printed = table["status"].isin(NOTHING), table["paper"].notna()
    ran, left = table[~absent], []
    for status, became in ((NOT_RUN, "not run"), (LEFT_OUT, "left out by this profile")):
        missing = table.loc[(table["status"] == status) & printed, "dataset"].value_counts()
        if len(missing):
            where = ", ".join(f"{values} on {dataset}" for dataset, values in missing.items())
            left.append(f"{missing.sum()} of {printed.sum()} printed values {became}: {where}")
    own = table[absent & ~printed].groupby(["method", "status"], sort=False).size()
    left += [f"{name}, in {count(places, 'setting')}: {why}" for (name, why), places in own.items()]
    left = "\n".join(left)
    if ran.empty:
        return left
    words = comparison.in_words(ran)
    elsewhere = [run_on(*pair) for pair in zip(ran["dataset"], ran["run on"], strict=True)]
    places = words["dataset"] + ", " + words["setting"] + elsewhere
    words["setting"] = places.map(setting_words)
    words["ours"] = words["ours"].str.partition(" at ")[0]  # "diverged at round 7"
    words["verdict"] = words["verdict"].str.partition(":")[0]
    words.attrs.clear()  # the banner is printed already
    columns = [name for name in COLUMNS if name in words]
    ranked = comparison.row_by_row(table).to_dict("records")
    lines = [_line(row) for row in ranked if row["ranking"] != NONE]
    values = tables.to_text(words[columns])
    if max(map(len, values.splitlines())) > WIDTH:
        # Long names of settings become headings; what has them is read in the last round anyway.
        shown = [name for name in columns if name not in ("setting", "last round")]
        values = "\n\n".join(
            f"{setting}\n{tables.to_text(rows[shown])}"
            for setting, rows in words.groupby("setting", sort=False)
        )
    parts = [values, "\n".join(lines), left]
    return "\n\n".join(filter(None, parts))


def _line(row: dict[str, str]) -> str:
    """A row of the table in one line: its ranking and what its tolerance can tell apart."""
    place = ", ".join(filter(None, [row["dataset"], row["setting"], row.get("metric", "")]))
    passing = row.get("wrong pairings that pass")
    words = f"{setting_words(place)}: {row['ranking']}"
    words += f"; {passing} wrong pairings would pass as reproduced" if passing else ""
    return textwrap.fill(words, WIDTH, subsequent_indent="    ")
