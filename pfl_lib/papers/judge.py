"""Does our number say what the paper's says?  The rules stand in docs/verdicts.md: levels are
judged value by value, in the exact setting alone, orders row by row, in every profile.
"""

import itertools
import math
from collections.abc import Mapping

import pandas as pd

from pfl_lib.papers.metrics import ACCURACY, Metric
from pfl_lib.papers.values import Printed

HAIR = 1e-9  # 98.96 - 98.56 is 0.4 on paper and a little more in binary
LEVELS = ("reproduced", "compatible", "not reproduced", "diverged", "not run")
ORDERS = ("stands", "turned", "open")
Seeds = pd.Series  # a method's values by seed, of the runs that finished


def allowed(printed: Printed, n: int, m: int, metric: Metric = ACCURACY) -> tuple[float, float]:
    """How far our mean of m seeds may lie from one of n: to reproduce it, to be compatible."""
    spread = 0.0 if math.isnan(printed.std) else printed.std
    chance = 2 * spread * math.sqrt(1 / n + 1 / m)
    return max(metric.floor, min(chance, metric.cap)), max(metric.floor, chance)


def level(printed: Printed, n: int, ours: Seeds, metric: Metric = ACCURACY) -> str:
    """The word of `LEVELS` for our values, one a seed, none diverged; "not run" without any."""
    if ours.empty:
        return "not run"
    apart = abs(ours.mean() - printed.value)
    near, far = allowed(printed, n, len(ours), metric)
    if apart <= near + HAIR:
        return "reproduced"
    return "compatible" if apart <= far + HAIR else "not reproduced"


def clear_pairs(row: Mapping[str, Printed], metric: Metric = ACCURACY) -> list[tuple[str, str]]:
    """The pairs (higher, lower) of a row whose printed values the paper separates."""
    pairs = []
    for one, other in itertools.combinations(row, 2):
        higher, lower = sorted((one, other), key=lambda name: -row[name].value)
        spreads = [row[name].std for name in (one, other) if not math.isnan(row[name].std)]
        apart = row[higher].value - row[lower].value
        if apart > max(spreads, default=metric.floor) + HAIR:
            pairs.append((higher, lower))
    return pairs


def order(higher: Seeds, lower: Seeds, metric: Metric = ACCURACY) -> str:
    """The word of `ORDERS` for the values of two methods by seed; "open" without a common one."""
    apart = (higher - lower).dropna()
    if apart.empty or abs(apart.mean()) <= margin(apart, metric) + HAIR:
        return "open"
    return "stands" if apart.mean() > 0 else "turned"


def margin(differences: Seeds, metric: Metric = ACCURACY) -> float:
    """How far the mean of differences by seed must lie from 0 to decide an order."""
    if len(differences) < 2:
        return metric.near
    return max(metric.floor, 2 * differences.std() / math.sqrt(len(differences)))


def wrong_pairings(
    row: Mapping[str, Printed], n: int, ours: Mapping[str, Seeds], metric: Metric = ACCURACY
) -> tuple[int, int]:
    """What the tolerance cannot tell apart: of our mean of one method held against the value that
    is printed for another, how many pass as reproduced, and how many there are.
    """
    words = [
        level(row[other], n, ours[method], metric)
        for method, other in itertools.permutations(row, 2)
        if not ours[method].empty
    ]
    return words.count("reproduced"), len(words)
