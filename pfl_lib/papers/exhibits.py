"""What a page shows: its notebook, the runs behind it, the printed tables set beside ours."""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pfl_lib.errors import BadInput, choose
from pfl_lib.experiments import own
from pfl_lib.experiments.spec import RunSpec, check_storable
from pfl_lib.methods import Method
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table

Runs = Callable[[Profile], tuple[RunSpec, ...]]


def nothing(profile: Profile) -> tuple:
    """For a page without runs, or one that needs no models."""
    return ()


def by_notebook(notebook: str) -> Runs:
    """The runs that a notebook itself asks for, for each profile."""

    @functools.cache
    def runs(profile: Profile) -> tuple[RunSpec, ...]:
        collect = importlib.import_module("pfl_lib.pages.collect")  # pages are above papers
        folder = importlib.import_module("pfl_lib.pages.registry").notebooks_folder()
        given = {"profile": profile.name, "seeds": len(profile.seeds)}
        return collect.needed(folder / notebook, given).specs

    return runs


@dataclass(frozen=True)
class Exhibit:
    """A page: `id` as the command line names it, `notebook` relative to the folder of notebooks.

    `runs(profile)` are the runs that its notebook needs, `models(profile)` those of them whose
    trained models it shows, which published results do not carry; without duplicates, empty where
    there are none.  `tables` are the printed tables that it sets beside ours.  `methods` name the
    user's own methods that stand on them (`with_methods`).
    """

    id: str
    paper: str
    title: str
    notebook: str
    profiles: Mapping[str, Profile]
    runs: Runs = nothing
    tables: tuple[Table, ...] = ()
    models: Runs = nothing
    methods: tuple[str, ...] = ()

    def with_methods(self, methods: Sequence[str | Method]) -> "Exhibit":
        """The page with further methods on its printed tables, and their runs behind it: methods,
        or "module:Class" and "path/to/file.py:Class" that name them.

        Raises `BadInput` for a page without a printed table, for what names no method, and for a
        method that says not what its results are to be stored under.
        """
        if not methods:
            return self
        if not self.tables:
            raise BadInput(f"page {self.id!r} shows no printed table: no method can join it")
        loaded = [own.load(named) if isinstance(named, str) else named for named in methods]
        for method in loaded:
            check_storable(method)
        tables = tuple(table.with_methods(loaded) for table in self.tables)

        def runs(profile: Profile) -> tuple[RunSpec, ...]:
            further = [table.only(columns=table.own_columns).runs(profile) for table in tables]
            return tuple(dict.fromkeys([*self.runs(profile), *chain.from_iterable(further)]))

        named = tuple(own.absolute(named) for named in methods if isinstance(named, str))
        return replace(self, tables=tables, runs=runs, methods=named)

    def profile(self, name: str, seeds: int | None = None) -> Profile:
        """The profile of that name, with seeds 1 to `seeds` where given; raises `BadInput` for an
        unknown name.
        """
        profile = self.profiles[choose("profile", name, self.profiles)]
        return profile if seeds is None else profile.with_seeds(seeds)


def most_stored(exhibit: Exhibit, find: Find, seeds: int | None = None) -> Profile | None:
    """The profile on the paper's data of which most of a page's runs are stored, the paper's own
    where two are level; None where no run is.  A page without runs is the paper's.
    """
    stored = {}
    for name in ("paper", "small"):
        runs = exhibit.runs(exhibit.profile(name, seeds))
        stored[name] = sum(find(run) is not None for run in runs)
        if not runs:
            return exhibit.profile(name, seeds)
    best = max(stored, key=stored.get)
    return exhibit.profile(best, seeds) if stored[best] else None
