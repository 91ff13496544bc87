"""`pfl-lib compare`: the papers' printed values beside ours, from the results that are stored or
came with the checkout.
"""

import argparse
import textwrap

from pfl_lib.cli import arguments

WIDTH = 100


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

    from pfl_lib.papers import EXHIBITS, PROFILES, compare
    from pfl_lib.papers.runs import Runs
    from pfl_lib.results.store import Store

    store = Store(args.results_dir)
    if args.format in ("scorecard", "values", "sentences"):
        return _overview(args, store)
    pages, found = arguments.pages(args), []
    for page in pages:
        for name in [args.profile] if args.profile else reversed(PROFILES):
            profile = page.profile(name, args.seeds)
            for table in page.tables:
                runs = Runs((table.scaled(profile),), store.find)
                beside = compare.beside(runs)
                if args.profile or beside["status"].isin(["ran", "diverged"]).any():
                    found.append((page, profile, runs, beside.assign(page=page.id)))
    if not found:
        comparing = [page.id for page in EXHIBITS.values() if page.tables]
        if any(page.id in comparing for page in pages):
            print("nothing to compare: nothing was run yet (pfl-lib reproduce)")
        else:
            print(
                "nothing to compare: these pages set no printed results beside ours; pages that do:"
                f" {', '.join(comparing)}"
            )
    elif args.format == "csv":
        print(pd.concat([beside for *_, beside in found]).to_csv(index=False), end="")
    elif args.format == "runs":
        frames = [runs.values.assign(page=page.id, profile=p.name) for page, p, runs, _ in found]
        print(pd.concat(frames).to_csv(index=False), end="")
    else:
        for page, profile, runs, beside in found:
            _print(args.format, f"{page.paper}, {page.title}", profile, runs, beside)
    return 0


def _print(format: str, title: str, profile, runs, beside) -> None:
    """One table for reading: its values that ran, its rows' pairs, how many values were not run."""
    from pfl_lib.display import table
    from pfl_lib.papers import compare

    mark = "% " if format == "latex" else ""
    for words in (title, profile.banner):
        print(textwrap.fill(words, WIDTH, initial_indent=mark, subsequent_indent=mark))
    if format == "latex":
        print(table.latex(compare.as_printed(beside), title))
        return
    ran = beside[beside["status"].isin(["ran", "diverged"])]
    shown = ran[["method", "metric"]].assign(
        printed=compare.with_spread(ran["printed"], ran["printed std"]),
        ours=compare.with_spread(ran["ours"], ran["ours std"]).where(
            ran["status"] == "ran", "diverged"
        ),
        difference=ran["difference"].map("{:+.2f}".format).replace("+nan", "–"),
        seeds=ran["seeds"],
        verdict=ran["verdict"],
    )
    for place, rows in shown.groupby([ran["dataset"], ran["setting"]], sort=False):
        print(f"\n{', '.join(place)}\n{rows.to_string(index=False)}")
    orders = compare.orders(runs)
    for row in orders.to_dict("records"):
        told = ", ".join(f"{row[word]} {word}" for word in ("stands", "turned", "open"))
        print(f"{row['dataset']}, {row['setting']}: {row['pairs']} clear pairs: {told}")
    missing = beside[~beside["status"].isin(["ran", "diverged"])]
    for word, count in missing["status"].value_counts().items():
        print(f"{count} of {len(beside)} values {word}")
    print()


def _overview(args: argparse.Namespace, store) -> int:
    """All papers in brief, each printed value as CSV, or each sentence."""
    import pandas as pd

    from pfl_lib.errors import BadInput
    from pfl_lib.papers import overview, printed_tables, scorecard
    from pfl_lib.papers.waffle import inputs

    if args.only or args.method or args.profile or args.seeds:
        raise BadInput(
            f"--format {args.format} is about all papers: leave --only, --method, --profile and"
            " --seeds out"
        )
    if args.format == "sentences":
        for line in scorecard.sentences(store).to_dict("records"):
            answer = (
                f"{line['in full']}, {line['profile']} profile" if line["profile"] else "not run"
            )
            if line["done right"] not in ("", "the same"):
                answer += f"; done right: {line['done right']}"
            head = f"{line['paper']}, {line['where']} ({line['page']}): {answer}"
            indent = {"initial_indent": "    ", "subsequent_indent": "    "}
            print(f"{head}\n{textwrap.fill(line['claim'], WIDTH, **indent)}\n")
        return 0
    found = overview.overview(PRINTED, store.find)
    if args.format == "values":
        used = overview.settings_used(inputs.used())
        print(pd.concat([found.values, used]).to_csv(index=False), end="")
        return 0
    for line in overview.headline(found):
        print(f"{textwrap.fill(line, WIDTH)}\n")
    for title, table in (
        ("In the exact setting", overview.exact(found)),
        ("In smaller runs", overview.smaller(found)),
        ("Sentences", scorecard.counts(scorecard.sentences(store))),
    ):
        print(f"{title}\n{table.to_string(index=False)}\n")
    return 0
