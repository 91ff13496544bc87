"""`pfl-lib compare`: the papers' printed values beside ours, from the results that are stored or came with the checkout."""

import argparse

from pfl_lib import arguments

COLUMNS = (
    "dataset",
    "distribution",
    "method",
    "paper",
    "paper std",
    "ours",
    "ours std",
    "last round",
    "seeds",
    "difference",
    "verdict",
)


def add_parser(subparsers) -> None:
    """Add `compare` to the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="the papers' values beside ours",
        description="Print the papers' values beside ours: best round (the papers' protocol) and last round, in percent, with "
        "the difference and the verdict.  Nothing is trained.",
    )
    arguments.add_only(parser)
    parser.add_argument("--profile", choices=("quick", "small", "paper"), help="this profile (each that has a result)")
    parser.add_argument("--seeds", type=arguments.at_least_one, metavar="N", help="seeds 1 to N, not the profile's own")
    arguments.add_results_dir(parser)
    parser.add_argument(
        "--format", choices=("table", "csv"), default="table", help="for reading, or every number (table)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 0 also when there is nothing to compare yet, which is said."""
    import pandas as pd

    from pfl_lib import tables
    from pfl_lib.papers import EXHIBITS, PROFILES, exhibit
    from pfl_lib.store import Store

    store = Store(args.results_dir)
    exhibits = [exhibit(id) for id in dict.fromkeys(args.only)] if args.only else list(EXHIBITS.values())
    found = []
    for page in exhibits:
        for name in [args.profile] if args.profile else reversed(PROFILES):
            profile = page.profile(name, args.seeds)
            if not page.entries(profile):
                continue
            table = tables.beside(page, profile, store)
            if args.profile or (table["status"] != "not run").any():
                table.insert(0, "page", page.id)
                found.append((page, table))
    if not found:
        print("nothing to compare: these pages print no results, or nothing was run yet (pfl-lib reproduce)")
    elif args.format == "csv":
        print(tables.to_csv(pd.concat([table for _, table in found])), end="")
    else:
        for page, table in found:
            words = tables.in_words(table)
            print(f"{page.paper}, {page.title}\n")
            print(tables.to_text(words[[name for name in COLUMNS if name in words]]))
            print()
    return 0
