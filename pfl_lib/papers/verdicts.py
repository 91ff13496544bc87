"""Does our number say what the paper's says?  One rule, the same for every table.

Let a paper print a value with standard deviation s over n seeds, and ours be the mean of m seeds.

* *reproduced*, paper profile only: the two lie within max(floor, 2 s sqrt(1/n + 1/m)) of each
  other, and within reach of each other.  The floor is the metric's, 0.4 points for an accuracy.
  Our own spread never widens this.  A value printed without a spread has the floor alone.
* *same order*, paper and small profiles: all pairs of methods *with this one* that the row
  separates clearly stand in the paper's order here, on common seeds; in the paper profile the value
  also lies within reach of the printed one.
* *other order*, small profile only: such a pair is turned or level here, or the method diverged
  where the paper has it higher.  With less data or fewer rounds that does not refute the printed
  value.
* *not reproduced*, paper profile only: none of these, or a run diverged.  With the page that
  explains it or "reason unknown".
* *no verdict*: nothing can be said, as `MEANINGS` has it.
* *not run*: no result; *left out*: the profile leaves the setting out.

Two methods are clearly separated where their printed values differ by more than both printed
standard deviations, or, where the paper prints none, by more than the floor.  Within reach means:
no further than half the range of the row's printed values, or than the metric's `near` (1 point) if
that is more.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from pfl_lib.papers.metrics import ACCURACY, Metric

PROFILES = ("quick", "small", "paper")


class Printed(NamedTuple):
    """A printed value and its printed standard deviation, in the paper's unit; NaN where the paper
    prints no spread.
    """

    value: float
    std: float


def separation(one: Printed, other: Printed, metric: Metric = ACCURACY) -> float:
    """How far apart two printed values must be to be told apart: by more than both printed standard
    deviations; where neither has one, by more than the metric's floor.
    """
    spreads = [printed.std for printed in (one, other) if not math.isnan(printed.std)]
    return max(spreads, default=metric.floor)


def reach(row: Mapping[str, Printed], metric: Metric = ACCURACY) -> float:
    """How far a value may lie from the printed one, whatever the spread: half the row's range or
    the metric's `near`; without a limit in a row of one value.
    """
    values = [printed.value for printed in row.values()]
    return max((max(values) - min(values)) / 2, metric.near) if len(values) > 1 else math.inf


def tolerance(
    row: Mapping[str, Printed],
    method: str,
    seeds: int,
    paper_seeds: int = 1,
    metric: Metric = ACCURACY,
) -> float:
    """How far our mean of so many seeds may lie from the value printed for a method to reproduce
    it.
    """
    chance = 2 * _spread(row[method]) * math.sqrt(1 / paper_seeds + 1 / seeds)
    return min(max(metric.floor, chance), reach(row, metric))


def _spread(printed: Printed) -> float:
    return 0.0 if math.isnan(printed.std) else printed.std
