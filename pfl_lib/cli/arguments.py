"""What the commands have in common: options, and the one line in which bad input is told."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pfl_lib.errors import BadInput

if TYPE_CHECKING:  # annotations only
    from pfl_lib.papers import Exhibit


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose complaint is a single line, without the usage text before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"pfl-lib: {message} (see {self.prog} --help)\n")


def at_least_one(text: str) -> int:
    """A whole number, 1 or more."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return number


def hours(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours above 0")
    return number


def folder(text: str) -> Path:
    """A folder's path with ~ resolved; whether it exists is for the command to say."""
    return Path(text).expanduser().absolute()


def add_only(parser: argparse.ArgumentParser) -> None:
    """`--only ID ...`: some pages instead of all."""
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        metavar="ID",
        help="these pages only, such as waffle-table1 (see list)",
    )


def add_method(parser: argparse.ArgumentParser) -> None:
    """`--method M ...`: methods of one's own on printed tables."""
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="M",
        help=(
            "a method of your own on the tables that --only names: module:Class or"
            " path/to/file.py:Class (several: again)"
        ),
    )


def pages(args: argparse.Namespace) -> list["Exhibit"]:
    """The pages that `--only` names, else all, with the methods of `--method`; raises `BadInput`
    for an unknown page, and for methods without named pages.
    """
    from pfl_lib.papers import EXHIBITS, exhibit

    if args.method and not args.only:
        raise BadInput("--method joins printed tables: name their pages, as --only waffle-table1")
    ids = dict.fromkeys(args.only or EXHIBITS)
    return [exhibit(id).with_methods(args.method) for id in ids]


def add_results_dir(parser: argparse.ArgumentParser) -> None:
    """`--results-dir R`."""
    parser.add_argument(
        "--results-dir",
        type=folder,
        metavar="R",
        help="folder of results (PFL_RESULTS_DIR, else results)",
    )
