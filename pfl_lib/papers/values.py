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
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

PAPERS = {  # by their names in the file, as their folders of notebooks are called
    "waffle": "WAFFLE",
    "weight_erosion": "Weight Erosion",
    "fedfomo": "FedFomo",
    "pfedla": "pFedLA",
}


class Printed(NamedTuple):
    """A printed value and its deviation, in the paper's unit; NaN where none is printed."""

    value: float
    std: float


def load() -> pd.DataFrame:
    """All printed values: columns paper, table, dataset, setting, method, metric, value, std and
    `kind`.

    `kind` is "setting" for what a reader puts into an experiment (WAFFLE's Tables 2 and 3, and
    FedFomo's infinite epsilons, which say that no noise is added) and "result" for what comes out.
    """
    frame = pd.read_csv(Path(__file__).with_name("paper_values.csv"))
    is_setting = (frame.paper == "waffle") & frame.table.isin(["table2", "table3"])
    is_setting |= frame.value == math.inf
    return frame.assign(kind=is_setting.map({True: "setting", False: "result"}))


@functools.cache
def of_table(paper: str, table: str) -> Mapping[tuple[str, str, str, str], Printed]:
    """A table's values by (data set, setting, method, metric); none for one not in the file."""
    of = load().query("paper == @paper and table == @table")
    printed = of[["dataset", "setting", "method", "metric", "value", "std"]]
    rows = printed.itertuples(index=False, name=None)
    return MappingProxyType({tuple(place): Printed(value, std) for *place, value, std in rows})
