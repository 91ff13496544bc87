"""`pfl-lib list`: everything that can be named on the command line or in `pfl_lib.run`."""

import click

from pfl_lib.cli import options
from pfl_lib.errors import BadInput


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
def command(words: tuple[str, ...]) -> None:
    """List pages, methods, data sets, distributions, models and profiles.

    With WORDs, only lines that have all of them, such as: waffle table.
    """
    from pfl_lib.data import DATASETS
    from pfl_lib.methods import METHODS
    from pfl_lib.models import MODELS
    from pfl_lib.pages import registry
    from pfl_lib.partitions import FAMILIES, PARTITIONS

    try:
        pages = {id: page.heading for id, page in registry.pages().items()}
    except BadInput:  # installed without its notebooks
        pages = {}
    named = {type(recipe) for recipe in PARTITIONS.values()}
    sections = {
        "pages (reproduce --only ID)": pages,
        "profiles (--profile)": options.PROFILES,
        "methods (pfl_lib.methods)": {
            name: f"{method.title}, the class {method.__name__}" for name, method in METHODS.items()
        },
        "data sets": {name: source.title for name, source in DATASETS.items()},
        "distributions": {name: recipe.title for name, recipe in PARTITIONS.items()},
        "recipes of distributions (pfl_lib.partitions)": {
            family.__name__: f"{family().title}; {family().default_clients} clients by default"
            for family in FAMILIES.values()
            if family not in named
        },
        "models": dict.fromkeys(MODELS, ""),
    }
    width, told = max(len(name) for names in sections.values() for name in names), []
    for title, names in sections.items():
        lines = [f"  {name:<{width}}  {about}".rstrip() for name, about in names.items()]
        kept = [line for line in lines if options.has_all(line, words)]
        told += [title, *kept, ""] if kept else []
    if not told:
        raise BadInput(f"no line has all of {', '.join(words)}: leave a word out")
    print("\n".join(told))
