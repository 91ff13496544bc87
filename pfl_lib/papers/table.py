"""A printed table as a description: its rows and columns, what it prints, how that is read.

From a `Table` follow its runs and its printed values; our numbers, verdicts, CSV and LaTeX follow
from these (`papers.runs`, `papers.compare`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Any

import pandas as pd

from pfl_lib.display.table import as_shown
from pfl_lib.errors import BadInput, choose, whole
from pfl_lib.experiments.own import load
from pfl_lib.experiments.spec import RunSpec, check_storable
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Local, Method, check_method, make_method, short_name
from pfl_lib.papers import values
from pfl_lib.papers.metrics import ACCURACY, Metric
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.values import Printed
from pfl_lib.results.result import Result

Find = Callable[[RunSpec], Result | None]  # as `Store.find`; None where there is no result
UNPRINTED = Printed(math.nan, math.nan)
ALWAYS = (  # told by every table's description; images None: all
    *("row", "dataset", "partition", "clients", "images", "model"),
    *("rounds", "local_epochs", "batch_size", "lr"),
)
NAMES = ("data set", "setting", "column", "metric")


@dataclass(frozen=True)
class Row:
    """One row of a table: data set and setting as `paper_values.csv` names them, and what is run
    for it; None where this package does not run it.

    `stands_in`: words for the data that are run in place of the paper's ("MNIST stands in for
    EMNIST"); its values then get no verdict.  `own`: a setting of the reader's, beside what the
    paper prints; `base`: the setting that it changes; `same_data`: it leaves that one's data set
    and partition as they are.
    """

    dataset: str
    setting: str
    at: Setting | None = None
    stands_in: str = ""
    own: bool = False
    base: str = ""
    same_data: bool = True


@dataclass(frozen=True)
class Column:
    """One column of a table: the method's printed name, the method or a function that gives it for
    a setting (None where it is not run there), and what it changes in a setting, such as its
    learning rate.  `own`: a method of the user's, beside what the paper prints.  `model`: what it
    reads in place of what the table does, "served" or "trained"; the paper prints no such column.
    """

    name: str
    method: Method | Callable[[Setting], Method | None]
    changes: Callable[[Setting], Setting] | None = None
    own: bool = False
    model: str | None = None

    @property
    def printed(self) -> bool:
        """Whether the paper prints it."""
        return not self.own and self.model is None

    def spec(self, setting: Setting, seed: int) -> RunSpec | None:
        """The run of this column in a scaled setting with a seed; None where it is not run."""
        own = self.changes(setting) if self.changes else setting
        method = self.method(own) if callable(self.method) else self.method
        return None if method is None else own.spec(method, seed)


@dataclass(frozen=True)
class Table:
    """A table that a paper prints.

    `metrics`: what it prints at each place.  `protocol`, `over` and `model` say how it is read, in
    the words of `Result.value`: of which round, whose, served or trained.  `values`: the
    printed values as `printed` gives them, None for those of `paper_values.csv`.
    """

    paper: str
    name: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    metrics: tuple[Metric, ...] = (ACCURACY,)
    protocol: str = "best"
    over: str = "alice"
    model: str = "served"
    values: Mapping[tuple[str, str, str, str], Printed] | None = None
    profile: str = "paper"
    seeds: tuple[int, ...] = ()
    paper_seeds: int = 1

    # --- its size, and a reader's changes ---

    def scaled(self, profile: Profile) -> "Table":
        """The table as a profile runs it; rows that the profile leaves out have no setting.

        Raises BadInput for a table that is scaled or has rows or seeds of the reader's: a profile
        would make them smaller, or put its own in their place.
        """
        if not isinstance(profile, Profile):
            raise BadInput(f"profile {profile!r}: give a Profile, as waffle.ALL_PROFILES has them")
        if self.seeds or any(row.own for row in self.rows):
            told = f"{self.paper} {self.name} is scaled, or has rows or seeds of your own"
            raise BadInput(f"{told}: scale the paper's table first, then change it")
        rows = (replace(row, at=row.at and profile.make(row.at)) for row in self.rows)
        seeds = {"seeds": profile.seeds, "paper_seeds": profile.paper_seeds}
        return replace(self, rows=tuple(rows), profile=profile.name, **seeds)

    def with_seeds(self, *seeds: int) -> "Table":
        """The table with these seeds, each once."""
        for seed in seeds:
            whole("a seed", seed)
        if len({*seeds}) < len(seeds) or not seeds:
            raise BadInput(f"seeds {list(seeds)}: give one or more, each once")
        return replace(self, seeds=seeds)

    def with_rows(self, settings: Mapping[str, Setting]) -> "Table":
        """The table with further rows, settings of your own by name, without printed values."""
        for name, at in _named("with_rows", settings):
            if not isinstance(at, Setting):
                raise BadInput(f"row {name!r}: give a Setting, such as one of table.settings")
            at.spec(Local(), 1)  # checks its values, here in the reader's own cell
        own = (Row(at.dataset, name, at, own=True) for name, at in settings.items())
        return replace(self, rows=(*self.rows, *own))

    def with_columns(self, methods: Mapping[str, Method | str]) -> "Table":
        """The table with further columns, methods (or names) by name to show; none is printed."""
        names, own = [column.name for column in self.columns], []
        for name, method in _named("with_columns", methods):
            if name in names:
                raise BadInput(f"{self.paper} {self.name} has a column {name!r}: give another name")
            if isinstance(method, str):
                method = make_method(method)
            elif isinstance(method, type) or not callable(method):
                check_method(method)
            own.append(Column(name, method, own=True))
        return replace(self, columns=(*self.columns, *own))

    def scheduled(self, **changes: Any) -> "Table":
        """The table with changed schedules, such as `lr=0.05`, as rows of your own."""
        return self._changed(Schedule, Setting.scheduled, changes)

    def with_setting(self, **changes: Any) -> "Table":
        """The table with other fields of `Setting`, such as `partition="B"` or `images=1000`, as
        rows of your own.  They are checked at once: what fits together is given together.
        """
        return self._changed(Setting, replace, changes)

    def clients(self, clients: int) -> "Table":
        """The table with so many clients, as rows of your own."""
        return self.with_setting(clients=clients)

    def _changed(self, of: type, change: Callable[..., Setting], named: dict[str, Any]) -> "Table":
        for name in named:
            choose(f"field of the {of.__name__.lower()}", name, [f.name for f in fields(of)])
        if not named:
            raise BadInput("nothing to change: give fields, such as lr=0.05")
        words = ", ".join(f"{name} {value}" for name, value in named.items())
        rows = []
        for row in self.rows:
            name, base = f"{row.setting}, {words}", row.base or row.setting
            at = row.at and change(row.at, **named)
            if at is not None:
                at.spec(Local(), 1)  # checks its values, here in the reader's own cell
            same = row.same_data and not {"dataset", "partition"} & named.keys()
            rows.append(replace(row, setting=name, at=at, own=True, base=base, same_data=same))
        return replace(self, rows=tuple(rows))

    def description(self) -> pd.DataFrame:
        """What is run for each row: `ALWAYS` and what else is not at its default in all of them."""
        rows = [row for row in self.rows if row.at is not None]
        told = [vars(row.at) | vars(row.at.schedule) for row in rows]
        if not rows:
            left = "its rows are left out: give other rows, or another profile"
            raise BadInput(f"{self.paper} {self.name} in the {self.profile} profile: {left}")
        frame = pd.DataFrame(told, dtype=object).drop(columns="schedule")
        frame.insert(0, "row", [f"{row.dataset}, {row.setting}" for row in rows])
        usual = {f.name: f.default for kind in (Setting, Schedule) for f in fields(kind)}
        rare = frame.columns.drop([*ALWAYS])
        further = [n for n in rare if any(x != usual[n] for x in frame[n])]
        # A weight decay of 0.0005 is no 0.00.
        return frame[[*ALWAYS, *further]].map(as_shown)

    def methods(self) -> pd.DataFrame:
        """The hyper-parameters of each column's method, and what the column changes of the
        schedule: columns method, settings (which rows have them so) and hyper-parameters.
        """
        rows, lines = [row for row in self.rows if row.at is not None], []
        several = len({row.dataset for row in rows}) > 1
        for column, row in product(self.columns, rows):
            spec, usual = column.spec(row.at, 1), vars(row.at.schedule)
            told = [*hyper_parameters(spec.method).items()] if spec else [("", "not run")]
            changed = vars(spec.schedule).items() if spec else ()
            told += [(name, value) for name, value in changed if value != usual[name]]
            words = ", ".join(f"{name} {as_shown(value)}".strip() for name, value in told)
            where = f"{row.dataset}, {row.setting}" if several else row.setting
            lines.append((column.name, words, where))
        frame = pd.DataFrame(lines, columns=["method", "hyper-parameters", "settings"])
        by = frame.groupby(["method", "hyper-parameters"], sort=False)["settings"]
        found = by.agg(lambda of: "all" if len(of) == len(rows) else ", ".join(of)).reset_index()
        return found[["method", "settings", "hyper-parameters"]]

    # --- its parts ---

    def only(
        self,
        settings: Iterable[str] | None = None,
        columns: Iterable[str] | None = None,
        datasets: Iterable[str] | None = None,
    ) -> "Table":
        """The part of the table with these settings, columns and data sets; columns in the order
        given.  A changed row is also found by the setting that it changes, where that has no row.
        Raises `BadInput` for one that it does not have.
        """
        rows = self.rows
        for attribute, wanted in (("setting", settings), ("dataset", datasets)):
            if wanted is not None:
                here = [getattr(row, attribute) for row in rows]
                bases = [row.base for row in rows if attribute == "setting"]
                found = []
                for name in _listed(wanted):
                    choose(attribute, name, dict.fromkeys([*here, *filter(None, bases)]))
                    names = here if name in here else bases
                    found += [k for k, its in enumerate(names) if its == name]
                rows = [rows[k] for k in dict.fromkeys(found)]
        own = {column.name: column for column in self.columns}
        names = own if columns is None else _listed(columns)
        kept = tuple(own[choose("column", name, own)] for name in names)
        return replace(self, rows=tuple(rows), columns=kept)

    def with_methods(self, methods: Iterable[str]) -> "Table":
        """The table with a further column for each of the reader's methods ("module:Class" or
        "path/to/file.py:Class"), by their short names; BadInput where two have the same, and for
        what names no method or one that cannot be stored.
        """
        named: dict[str, Method] = {}
        for method in map(load, [methods] if isinstance(methods, str) else methods):
            check_storable(method)
            if (name := short_name(method)) in named:
                raise BadInput(f"two methods would be the column {name!r}: give each a title")
            named[name] = method
        return self.with_columns(named)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What is run for its rows, in the paper's size."""
        return tuple(row.at for row in self.rows if row.at is not None)

    def spec(self, setting: str, column: str, profile: Profile, seed: int) -> RunSpec:
        """One run, by the names of its row and column; `BadInput` where the profile has none."""
        runs = self.only([setting], [column]).runs(replace(profile, seeds=(seed,)))
        if not runs:
            raise BadInput(f"the {profile.name} profile does not run {column} on {setting}")
        return runs[0]

    def runs(self, profile: Profile) -> tuple[RunSpec, ...]:
        """The runs behind the paper's table, unscaled, in a profile, each once."""
        return tuple(dict.fromkeys(spec for *_, spec in self.scaled(profile).planned()))

    def planned(self) -> Iterator[tuple[Row, Column, RunSpec]]:
        """Every run of a scaled table, with its row and column; a run may stand in several."""
        rows = [row for row in self.rows if row.at is not None]
        for row, column, seed in product(rows, self.columns, self.seeds):
            if (spec := column.spec(row.at, seed)) is not None:
                yield row, column, spec

    @property
    def known(self) -> Mapping[tuple[str, str, str, str], Printed]:
        """All values that the paper prints in it, whatever rows and columns there are here."""
        return values.of_table(self.paper, self.name) if self.values is None else self.values

    def printed(self) -> dict[tuple[str, str, str, str], Printed]:
        """The paper's values by (data set, setting, column, metric), in the order of the rows, NaN
        where the paper leaves a place empty; none at all for a table that the paper does not print.
        A changed row has those of the row that it changes, unless its data or partition are others.

        Raises `BadInput` for a name in the description that the printed table does not have.
        """
        known = self.known
        if not known:
            return {}
        printed = [column for column in self.columns if column.printed]
        places = {
            (row.dataset, row.setting, column.name, metric.name): row
            for row, column, metric in product(self.rows, printed, self.metrics)
        }
        for part, what in enumerate(NAMES):
            there = dict.fromkeys(place[part] for place in known)
            for place in (place for place, row in places.items() if not row.own):
                choose(f"{what} of {self.paper} {self.name}", place[part], there)
        found = {}
        for place, row in places.items():
            value = known.get((place[0], row.base, *place[2:]) if row.own else place, UNPRINTED)
            # An infinite epsilon says how a run is made, and is no result to compare.
            value = UNPRINTED if math.isinf(value.value) else value
            if not row.own or (row.same_data and not math.isnan(value.value)):
                found[place] = value
        return found


def _listed(names: Iterable[str]) -> list[str]:
    """A lone text is a list of one; BadInput for an empty one."""
    if not (listed := [names] if isinstance(names, str) else list(names)):
        raise BadInput("no name is given: give one or more, or None for all")
    return listed


def _named(what: str, given: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(given, Mapping):
        raise BadInput(f"{what} {given!r}: give a dict by the name to show")
    if blank := [name for name in given if not (isinstance(name, str) and name.strip())]:
        raise BadInput(f"{what}: {blank[0]!r} is no name to show")
    return given.items()


def hyper_parameters(method: Method) -> dict[str, Any]:
    """A method's fields by name; of a method that is no dataclass none."""
    own = fields(method) if is_dataclass(method) else ()
    return {field.name: getattr(method, field.name) for field in own}
