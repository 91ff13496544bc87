"""What commands have in common: options, and the pages that they name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pfl_lib.errors import MOST_SEEDS, BadInput

if TYPE_CHECKING:  # annotations only: the command line starts without torch and pandas
    from pfl_lib.pages.registry import NotebookPage

PROFILES = {
    "quick": "small data that need no download; shows that the code works",
    "small": "the paper's data, with fewer images, rounds or seeds, or a smaller network",
    "paper": "the paper's setting; where something stands in, the page says so",
}
NUMBER = click.IntRange(min=1)


def folder(text: str) -> Path:
    """A folder's path with ~ resolved; the command says whether it has to exist."""
    if not text.strip():
        raise BadInput(f"folder {text!r}: give its path")
    return Path(text).expanduser().absolute()


def only(command: Callable) -> Callable:
    """`--only ID ...`: some pages.  click takes one word; the others are the argument `further`."""
    further = click.argument("further", nargs=-1, metavar="[ID]...")
    words = "these pages only, such as waffle-table1 (see list)"
    return click.option("--only", multiple=True, metavar="ID...", help=words)(further(command))


def profile(words: str, default: str | None = None) -> Callable:
    """`--profile`, with what it does in the command."""
    return click.option("--profile", type=click.Choice(list(PROFILES)), default=default, help=words)


OWN = "a method of your own on the tables that --only names: module:Class or path/to/file.py:Class"
method = click.option("--method", multiple=True, metavar="M", help=f"{OWN} (several: again)")
SEEDS = "seeds 1 to N, not the profile's own"
seeds = click.option("--seeds", type=click.IntRange(1, MOST_SEEDS), metavar="N", help=SEEDS)
RESULTS = "folder of results (PFL_RESULTS_DIR, else results)"


def _store(context, option, root: Path | None):
    if context.resilient_parsing:  # a shell completes the line: nothing is read
        return None
    from pfl_lib.results.store import Store

    return Store(root)


store = click.option(
    "--results-dir", "store", type=folder, callback=_store, metavar="R", help=RESULTS
)


def pages(ids: Sequence[str], methods: Sequence[str] = ()) -> "list[NotebookPage]":
    """The named pages, else all, with `--method`'s; BadInput for unknown ones or none named."""
    from pfl_lib.pages import registry

    if methods and not ids:
        raise BadInput("--method joins printed tables: name their pages, as --only waffle-table1")
    named = dict.fromkeys(ids or registry.pages())
    return [registry.page(id).with_methods(methods) for id in named]


def has_all(line: str, words: Sequence[str]) -> bool:
    """Whether a line has all of these words in it, in capitals or not."""
    return all(word.lower() in line.lower() for word in words)
