"""A table's runs as one tidy frame, as the values that the table reads of them, and as results."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pandas as pd

from pfl_lib.errors import BadInput
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.table import Column, Find, Row, Table, hyper_parameters
from pfl_lib.results.result import Result

PLACE = ["paper", "table", "dataset", "setting", "method"]
VALUE = [*PLACE, "metric"]
IN_TABLE = PLACE[2:]  # a place within one table


class Planned(NamedTuple):
    """One run of a table: its place and its description."""

    table: Table
    row: Row
    column: Column
    spec: RunSpec

    @property
    def place(self) -> dict[str, str]:
        names = (self.table.paper, self.table.name, self.row.dataset, self.row.setting)
        return dict(zip(PLACE, (*names, self.column.name), strict=True))


@dataclass(frozen=True)
class Runs:
    """The runs of some tables, scaled by a profile, as `find` has them (`Store.find`)."""

    tables: tuple[Table, ...]
    find: Find

    @cached_property
    def planned(self) -> tuple[Planned, ...]:
        """Every run of every place, in the order of the tables.  Raises BadInput where a table has
        two different runs of a seed at one place, and where a reader's own column has the name of a
        column of another table that stands beside it.
        """
        every = tuple(Planned(table, *place) for table in self.tables for place in table.planned())
        found: dict[tuple, RunSpec] = {}
        names: dict[tuple, bool] = {}
        for run in every:
            place, own = tuple(run.place.values()), run.column.own
            first = found.setdefault((*place, run.column.model, run.spec.seed), run.spec)
            if first != run.spec or names.setdefault(place[2:], own) != own:
                told = "two different runs would stand there: give yours another name"
                raise BadInput(f"{', '.join(place[2:])}: {told}")
        return every

    @property
    def specs(self) -> tuple[RunSpec, ...]:
        """The descriptions of the runs, each once."""
        return tuple(dict.fromkeys(run.spec for run in self.planned))

    @cached_property
    def _results(self) -> dict[RunSpec, Result | None]:
        return {spec: self.find(spec) for spec in self.specs}

    def result(self, method: str, setting: str | None = None, seed: int | None = None):
        """The first run of a method that is stored, of this setting and seed where they are given;
        None where none is.  Raises BadInput where the tables have no such run.
        """
        there = [
            run.spec
            for run in self.planned
            if run.column.name == method
            and setting in (None, run.row.setting)
            and seed in (None, run.spec.seed)
        ]
        if not there:
            raise BadInput(
                f"no run of method {method!r}, setting {setting!r}, seed {seed!r} in these tables:"
                f" methods {', '.join(dict.fromkeys(run.column.name for run in self.planned))};"
                f" settings {', '.join(dict.fromkeys(run.row.setting for run in self.planned))}"
            )
        return next((found for spec in there if (found := self._results[spec])), None)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """What the runs measured: a row for each run, evaluated round and client.

        Columns paper, table, dataset, setting, method, `own` (of the reader), seed, the method's
        hyper-parameters by name, round, client, accuracy (percent), loss, what else was measured,
        diverged (the round, where the run did) and run (its slug).
        """
        frames = []
        for run in self.planned:
            result = self._results[run.spec]
            if result is not None:
                told = run.place | {"own": run.row.own or run.column.own, "seed": run.spec.seed}
                percent = {n: 100 * of for n, of in result.metrics.items() if "accuracy" in n}
                measured = result.metrics.assign(**percent)
                settings = hyper_parameters(run.spec.method)
                told |= {n: v for n, v in settings.items() if n not in measured and n not in told}
                told |= {"diverged": result.diverged, "run": run.spec.slug}
                # What a method logs under the name of such a column is left to its result.
                measured = measured.drop(columns=[*told], errors="ignore")
                frames.append(pd.DataFrame([told], dtype=object).merge(measured, how="cross"))
        if not frames:
            columns = [*PLACE, "own", "seed", "round", "client", "accuracy", "loss"]
            return pd.DataFrame(columns=[*columns, "diverged", "run"])
        frame = pd.concat(frames, ignore_index=True).infer_objects()
        return frame.astype({"seed": int, "diverged": "Int64"})

    @cached_property
    def values(self) -> pd.DataFrame:
        """What the tables read of their runs: a row for each run and metric.

        Columns of the place, own, metric, seed, value (by the table's protocol, in the metric's
        unit), last (of the last round), status ("ran", "not run", "diverged" or "not measured"),
        diverged (the round) and run.  NaN where a run has no number.  Places without a run have
        none here.
        """
        lines = []
        for run in self.planned:
            result = self._results[run.spec]
            table, model = run.table, run.column.model or run.table.model
            for metric in table.metrics:
                value = last = float("nan")
                status = "not run" if result is None else "diverged"
                if result is not None and result.diverged is None:
                    value = metric.read(result, table.protocol, table.over, model)
                    last = metric.read(result, "last", table.over, model)
                    status = "not measured" if value != value else "ran"
                own = {"own": run.row.own or run.column.own, "metric": metric.name}
                read = {"seed": run.spec.seed, "value": value, "last": last, "status": status}
                ended = {"diverged": result and result.diverged, "run": run.spec.slug}
                lines.append(run.place | own | read | ended)
        names = [*PLACE, "own", "metric", "seed", "value", "last", "status", "diverged", "run"]
        numbers = {"value": float, "last": float, "diverged": "Int64"}
        return pd.DataFrame(lines, columns=names).astype(numbers)

    def seeds(self, *place: str) -> pd.Series:
        """The values of a place (paper, table, data set, setting, method, metric) by seed, of the
        runs that finished; empty where one of them diverged.
        """
        return self._seeds.get(place, pd.Series(dtype=float))

    @cached_property
    def _seeds(self) -> dict[tuple[str, ...], pd.Series]:
        lost = self.values.groupby(VALUE)["diverged"].transform("count") > 0
        ran = self.values[(self.values["status"] == "ran") & ~lost]
        by_place = ran.set_index("seed").groupby(VALUE)["value"]
        return dict(tuple(by_place))
