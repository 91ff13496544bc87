"""`pfl-lib list`: everything that can be named on the command line or in `pfl_lib.run`."""

import argparse
from collections.abc import Mapping

from pfl_lib.cli.words import has_all

PROFILES = {
    "quick": "small data that need no download; shows that the code works",
    "small": "the paper's data, with fewer images, rounds or seeds, or a smaller network",
    "paper": "the paper's setting; where something stands in, the page says so",
}


def add_parser(subparsers) -> None:
    """Add `list` to the command line."""
    parser = subparsers.add_parser(
        "list",
        help="pages, methods, data sets, distributions, models, profiles",
        description=(
            "List pages (tables and figures), methods, data sets, distributions, models and"
            " profiles."
        ),
    )
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="only lines that have all these words, such as waffle table",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the names and what they stand for."""
    from pfl_lib.data import DATASETS
    from pfl_lib.methods import METHODS
    from pfl_lib.models import MODELS
    from pfl_lib.papers import EXHIBITS
    from pfl_lib.partitions import FAMILIES, PARTITIONS

    sections: dict[str, Mapping[str, str]] = {
        "pages (reproduce --only ID)": {
            id: f"{exhibit.paper}, {exhibit.title}" if exhibit.paper else exhibit.title
            for id, exhibit in EXHIBITS.items()
        },
        "profiles (--profile)": PROFILES,
        "methods": {name: method.title for name, method in METHODS.items()},
        "data sets": {name: source.title for name, source in DATASETS.items()},
        "distributions": {name: recipe.title for name, recipe in PARTITIONS.items()},
        "recipes of distributions (pfl_lib.partitions)": {
            family.__name__: f"{family().title}; {family().default_clients} clients by default"
            for family in FAMILIES.values()
            if family not in {type(recipe) for recipe in PARTITIONS.values()}
        },
        "models": dict.fromkeys(MODELS, ""),
    }
    width = max(len(name) for names in sections.values() for name in names)
    for title, names in sections.items():
        lines = [f"  {name:<{width}}  {words}".rstrip() for name, words in names.items()]
        kept = [line for line in lines if has_all(line, args.words)]
        if kept:
            print("\n".join([title, *kept, ""]))
    return 0
