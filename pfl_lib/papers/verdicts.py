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

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pfl_lib.errors import choose
from pfl_lib.papers.metrics import ACCURACY, Metric
from pfl_lib.results.summary import HAIR, Ours, common, differences, few_seeds, lost_beside

PROFILES = ("quick", "small", "paper")

MEANINGS = {
    "reproduced": (
        f"our mean over seeds is within {ACCURACY.floor:g} points (the floor of an accuracy) of the"
        " printed value, or within two standard deviations of the difference of two such means by"
        " the paper's spread, but no further than half the range of its row, or 1 point; paper"
        " profile only"
    ),
    "same order": (
        "not that, but all pairs with this method that the paper's row separates by more than both"
        " standard deviations, or by more than the floor where it prints none, stand in the paper's"
        " order here; in the paper profile the value is also no further from the printed one than"
        " half the range of its row, or 1 point"
    ),
    "other order": (
        "small profile only: at least one pair with this method that the paper's row separates"
        " clearly is turned or level here, or the method diverged and the paper has it higher than"
        " another; with less data or fewer rounds than the paper's that does not refute its value"
    ),
    "not reproduced": (
        "paper profile only: neither reproduced nor in the same order, or a run diverged"
    ),
    "no verdict": (
        "nothing can be said: the data are not the paper's (quick profile, or others stand in),"
        " methods of the row that were not run, or diverged, could still decide the order, or"
        " (small profile) the paper separates no pair with this method clearly"
    ),
    "not run": "there is no result",
    "left out": "the profile leaves this setting of the paper out",
}
"""What a page says of each word; a number of seeds beside one means that fewer ran than the paper
averages.
"""


def word(verdict: str) -> str:
    """A verdict without its reason and its seeds: "same order"."""
    return verdict.partition(":")[0].partition(" (")[0]


class Printed(NamedTuple):
    """A printed value and its printed standard deviation, in the paper's unit; NaN where the paper
    prints no spread.
    """

    value: float
    std: float


@dataclass(frozen=True)
class Ranking:
    """What became of the pairs (higher in the paper, lower) that a row separates clearly.

    `stand`: in the paper's order here.  `turned`: compared, and the other way round, or the higher
    one diverged.  `level`: compared, and the same to the last digit, which is not the paper's order
    either.  `unknown`: not compared, since no seed is common or the other one diverged.  `seeds`:
    the fewest that two methods compared have in common; None where none were compared.
    """

    stand: tuple[tuple[str, str], ...] = ()
    turned: tuple[tuple[str, str], ...] = ()
    level: tuple[tuple[str, str], ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    seeds: int | None = None

    @property
    def pairs(self) -> int:
        """How many pairs the paper's row separates clearly."""
        return sum(map(len, (self.stand, self.turned, self.level, self.unknown)))

    @property
    def holds(self) -> bool | None:
        """True or False when it is certain, None when there is no pair or the unknown ones could
        still decide it.
        """
        if self.turned or self.level:
            return False
        return None if self.unknown or not self.stand else True

    def __str__(self) -> str:
        if not self.pairs:
            return "the paper separates no pair clearly"
        words = [f"{len(self.stand)} of {self.pairs} clear pairs in the paper's order"]
        if self.unknown:
            words.append(f"{len(self.unknown)} not compared")
        for here, which in (("turned", self.turned), ("level", self.level)):
            if which:
                pairs = "; ".join(f"{one} above {two}" for one, two in which)
                words.append(f"{here} here: the paper has {pairs}")
        return ", ".join(words)


@dataclass(frozen=True)
class Verdict:
    """One of the words above and why; `seeds` is "1 of 5 seeds" where fewer ran than the paper
    averages, "pairs on 1 of 5 seeds" where the order rests on fewer than the mean, else empty.
    """

    word: str
    reason: str = ""
    seeds: str = ""

    def __str__(self) -> str:
        word = f"{self.word} ({self.seeds})" if self.seeds else self.word
        return f"{word}: {self.reason}" if self.reason else word


def separation(one: Printed, other: Printed, metric: Metric = ACCURACY) -> float:
    """How far apart two printed values must be to be told apart: by more than both printed standard
    deviations; where neither has one, by more than the metric's floor.
    """
    spreads = [printed.std for printed in (one, other) if not math.isnan(printed.std)]
    return max(spreads, default=metric.floor)


def clearly_ordered(row: Mapping[str, Printed], metric: Metric = ACCURACY) -> list[tuple[str, str]]:
    """The pairs (higher, lower) of a row whose printed values are clearly separated."""
    pairs = []
    for one, other in itertools.combinations(row, 2):
        higher, lower = (one, other) if row[one].value >= row[other].value else (other, one)
        difference = row[higher].value - row[lower].value
        if difference > separation(row[higher], row[lower], metric) + HAIR:
            pairs.append((higher, lower))
    return pairs


def ranking(
    row: Mapping[str, Printed],
    ours: Mapping[str, Ours],
    method: str | None = None,
    metric: Metric = ACCURACY,
) -> Ranking:
    """Compare the order of the methods in one row of a table: `row` and `ours` by method name.

    `method`: only pairs with this one count.  A pair whose higher method alone diverged on a seed
    that both ran is turned, but for the lower one, of which that says nothing: there it is unknown,
    as a pair without such a seed, or of which the lower one or both diverged, is for all.
    """
    found: dict[str, list[tuple[str, str]]] = {
        "stand": [],
        "turned": [],
        "level": [],
        "unknown": [],
    }
    seeds = []
    for names in clearly_ordered(row, metric):
        if method in (None, *names):
            pair = [ours.get(name, Ours()) for name in names]
            became = _order(*pair)
            if method == names[1] and lost_beside(*pair):
                became = "unknown"
            seeds += [] if became == "unknown" else [len(common(*pair))]
            found[became].append(names)
    return Ranking(
        **{word: tuple(of) for word, of in found.items()}, seeds=min(seeds, default=None)
    )


def _order(higher: Ours, lower: Ours) -> str:
    """What became of a pair: the word of `Ranking` for it."""
    if not common(higher, lower) or lost_beside(lower, higher):
        return "unknown"
    if lost_beside(higher, lower):
        return "turned"
    apart = statistics.fmean(differences(higher, lower))
    return "level" if abs(apart) <= HAIR else "stand" if apart > 0 else "turned"


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


def wrong_pairings(
    row: Mapping[str, Printed],
    ours: Mapping[str, Ours],
    paper_seeds: int = 1,
    metric: Metric = ACCURACY,
) -> tuple[int, int]:
    """What the tolerance can tell apart: of the wrong pairings in a row (our mean of one method,
    the value printed for another), how many would pass as reproduced, and how many there are.

    Only methods with a mean of ours are paired.
    """
    pairings = [
        (found, other)
        for method, found in ours.items()
        for other in row
        if other != method and method in row and found.comparable
    ]
    passing = [
        abs(found.mean - row[other].value)
        <= tolerance(row, other, found.runs, paper_seeds, metric) + HAIR
        for found, other in pairings
    ]
    return sum(passing), len(passing)


def judge(
    profile: str,
    method: str,
    row: Mapping[str, Printed],
    ours: Mapping[str, Ours],
    paper_seeds: int = 1,
    metric: Metric = ACCURACY,
    explained_by: str = "",
) -> Verdict:
    """The verdict on the value printed for a method.

    `profile`: "quick", "small" or "paper", in which `ours` was run.  `row` and `ours`: the whole
    row of the table, by method.  `paper_seeds`: how many seeds the paper averages.  `explained_by`:
    the page that shows why a value is not reproduced, where there is one.
    """
    choose("profile", profile, PROFILES)
    found = ours.get(method, Ours())
    if not found.ran:
        return Verdict(found.status)
    if profile == "quick":
        return Verdict("no verdict", "quick profile")
    reason = f"explained on page {explained_by}" if explained_by else "reason unknown"
    seeds = few_seeds(found.runs, paper_seeds)
    if not found.comparable and profile == "paper":
        return Verdict("not reproduced", found.status, seeds)
    order = ranking(row, ours, method, metric)
    on_seeds = seeds
    if order.seeds and order.seeds < found.runs:
        fewer = few_seeds(order.seeds, paper_seeds)
        on_seeds = fewer and f"pairs on {fewer}"
    if profile == "small":
        told = str(order) if found.comparable else f"{found.status}; {order}"
        if order.holds is None:
            return Verdict("no verdict", told, seeds)
        if order.holds:
            return Verdict("same order", told, on_seeds)
        explained = f"; {reason}" if explained_by else ""
        return Verdict("other order", f"{told}{explained}", on_seeds)
    apart = abs(found.mean - row[method].value)
    allowed = tolerance(row, method, found.runs, paper_seeds, metric)
    distance = f"{apart:.2f} apart, {allowed:.2f} allowed ({metric.unit})"
    if apart <= allowed + HAIR:
        return Verdict("reproduced", distance, seeds)
    far = apart > reach(row, metric) + HAIR
    if far:
        distance += f", {reach(row, metric):.2f} for the same order"
    if order.holds and not far:
        return Verdict("same order", f"{distance}; {order}", on_seeds)
    if order.holds is None and order.unknown and not far:
        return Verdict("no verdict", f"{distance}; {order}", seeds)
    rests_on = seeds if far else on_seeds
    return Verdict("not reproduced", f"{distance}; {order}; {reason}", rests_on)


def _spread(printed: Printed) -> float:
    return 0.0 if math.isnan(printed.std) else printed.std
