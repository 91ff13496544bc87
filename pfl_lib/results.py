"""`pfl-lib results`: what is stored, and which of it comes with the checkout."""

import argparse
from collections.abc import Iterable

from pfl_lib import arguments


def add_parser(subparsers) -> None:
    """Add `results` to the command line."""
    parser = subparsers.add_parser(
        "results",
        help="list stored results; publish some with the checkout",
        description="List stored results, or copy those behind pages into reports/published, without their models: small text files "
        "that are committed and read wherever a run is missing.",
    )
    parser.add_argument("action", choices=("list", "publish"), help="what to do")
    arguments.add_only(parser)
    parser.add_argument(
        "--profile", choices=("quick", "small", "paper"), default="paper", help="publish this profile's runs (paper)"
    )
    parser.add_argument("--seeds", type=arguments.at_least_one, metavar="N", help="seeds 1 to N, not the profile's own")
    arguments.add_results_dir(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List results, or publish those of the given pages and profile that are stored."""
    from pfl_lib.papers import EXHIBITS, exhibit
    from pfl_lib.store import Store

    store = Store(args.results_dir)
    if args.action == "list":
        print(_table(store.cells()))
        return 0
    pages = [exhibit(id) for id in args.only] if args.only else list(EXHIBITS.values())
    wanted = {cell.key: cell for page in pages for cell in page.cells(page.profile(args.profile, args.seeds))}
    published = [cell.slug for cell in wanted.values() if store.publish(cell)]
    print("\n".join(published))
    print(
        f"{len(published)} of {len(wanted)} runs published in {store.published}; the others are published already or not stored"
    )
    return 0


def _table(configs: Iterable[dict]) -> str:
    import pandas as pd

    rows = [
        {
            "method": config["method"]["name"],
            "data set": config["dataset"],
            "images": config["images"] or "all",
            "distribution": config["partition"]["name"],
            "rounds": config["schedule"]["rounds"],
            "seed": config["seed"],
            "key": config["key"][:10],
        }
        for config in configs
    ]
    return pd.DataFrame(rows).to_string(index=False) if rows else "no results yet (pfl-lib reproduce)"
