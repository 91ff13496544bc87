"""What the four papers print: 558 values of their tables, 126 of them settings and 432 results.

The values were copied from the papers' tables into `paper_values.csv`, one row a value, in the
paper's own names: `dataset` ("MNIST", "any" where the table has no data set), `setting` (a
distribution such as "A*", or a description such as "latent_D5_15_clients"), `method` ("WE",
"FedFomo (n=5)"), `metric`.  Accuracies are in percent; `std` is the spread the paper prints, not a
number where it prints none. WAFFLE prints some CIFAR10 accuracies as "0.771%"; they stand here as
77.1.
"""

import functools
import math
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from pfl_lib.errors import BadInput, choose

KEY = ["paper", "table", "dataset", "setting", "method"]


class Printed(NamedTuple):
    """A printed value and its printed standard deviation, in the paper's unit; NaN where the paper
    prints no spread.
    """

    value: float
    std: float


def load() -> pd.DataFrame:
    """All printed values: columns paper, table, dataset, setting, method, metric, value, std and
    `kind`.

    `kind` is "setting" for what a reader puts into an experiment (WAFFLE's Tables 2 and 3, and
    FedFomo's infinite epsilons, which say that no noise is added) and "result" for what comes out.
    """
    return _read().copy()


def value(
    paper: str, table: str, dataset: str, setting: str, method: str, metric: str | None = None
) -> Printed:
    """The value that a table prints for one data set, setting and method; raises `BadInput` when it
    prints none.

    `metric` may be left out where the table prints a single number at that place; where it prints
    several (FedFomo's Table 4 has an accuracy and an epsilon) it must be named.
    """
    place, known = (paper, table, dataset, setting, method), _values()
    for part, column in enumerate(KEY):
        there = dict.fromkeys(one[part] for one in known if one[:part] == place[:part])
        choose(f"{column} of the printed values", place[part], there)
    metrics = {one[-1]: printed for one, printed in known.items() if one[:-1] == place}
    if metric is None and len(metrics) > 1:
        raise BadInput(
            f"{paper} {table} prints {', '.join(metrics)} at this place; name one of them as metric"
        )
    return metrics[choose("metric of the printed values", metric or next(iter(metrics)), metrics)]


def of_table(paper: str, table: str) -> dict[tuple[str, str, str, str], Printed]:
    """All values of a table: (data set, setting, method, metric) to the value; empty for a table
    that `paper_values.csv` does not have.
    """
    known = _values().items()
    return {place[2:]: printed for place, printed in known if place[:2] == (paper, table)}


@functools.cache
def _values() -> dict[tuple[str, ...], Printed]:
    """The values by place and metric: pages look them up hundreds of times."""
    rows = _read()[[*KEY, "metric", "value", "std"]].itertuples(index=False, name=None)
    return {tuple(place): Printed(value, std) for *place, value, std in rows}


@functools.cache
def _read() -> pd.DataFrame:
    with files("pfl_lib.papers").joinpath("paper_values.csv").open(encoding="utf-8") as file:
        frame = pd.read_csv(file)
    is_setting = (frame.paper == "waffle") & frame.table.isin(["table2", "table3"])
    is_setting |= frame.value == math.inf
    return frame.assign(kind=is_setting.map({True: "setting", False: "result"}))
