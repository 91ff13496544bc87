"""Does our number say what the paper's says?  One rule, the same for every table.

* *reproduced*, only in the paper profile: our mean lies within max(0.4 points, 2 paper standard
  deviations, 2 standard errors of ours) of the printed value.
* *same ranking*, paper or small profile: of the method pairs in the value's row of the table whose
  printed values differ by more than both printed standard deviations, at least 90 % stand in the
  same order here.
* *other ranking*, small profile: fewer pairs than that.
* *not reproduced*: neither, in the paper profile, with the reason or the words "reason unknown".
* *no verdict*: nothing can be said, as `MEANINGS` has it.
* *not run*: no result.

Quick pages get no verdict, since their data are not the paper's.  A run that diverged has no
number: it is *not reproduced* whatever it reached before.  A pair is compared on the seeds that
both methods ran; where one diverged on such a seed, the pair does not stand in order.  Where the
paper prints no standard deviation it counts as 0; with a single seed our standard error is unknown
and does not widen the tolerance.  A verdict on fewer seeds than the paper averages says on how
many; one on a ranking, on how few some pair of it rests.
"""

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pfl_lib.errors import choose
from pfl_lib.results.summary import HAIR, Ours, common, differences, few_seeds

PROFILES = ("quick", "small", "paper")
FLOOR = 0.4
SAME_ORDER = 0.9

MEANINGS = {
    "reproduced": (
        f"our mean over seeds is within {FLOOR:g} points of the printed value, or within two of the"
        " paper's standard deviations, or within two standard errors of ours; paper profile only"
    ),
    "same ranking": (
        f"not that, but at least {SAME_ORDER:.0%} of the pairs of methods that the paper's row"
        " separates by more than both standard deviations stand in the same order here; paper and"
        " small profiles"
    ),
    "other ranking": (
        "fewer of those pairs stand in the paper's order; small profile, whose numbers are not"
        " compared with the paper's"
    ),
    "not reproduced": (
        "too far from the printed value, with fewer of those pairs in the paper's order or no such"
        " pair in its row; paper profile only.  Or a run diverged"
    ),
    "no verdict": (
        "nothing can be said: the data are not the paper's (quick profile), or methods of the row"
        " that were not run could still decide its order, or (small profile) the paper's row"
        " separates no pair of methods clearly"
    ),
    "not run": "there is no result",
}
"""What a page says of each word; a number of seeds beside one means that fewer ran than the paper
averages.
"""


class Printed(NamedTuple):
    """A printed value and its printed standard deviation, in the paper's unit; NaN where the paper
    prints no spread.
    """

    value: float
    std: float


@dataclass(frozen=True)
class Ranking:
    """How many of a row's clearly ordered `pairs` stand in the paper's order (`same`) or cannot be
    compared (`unknown`).

    `seeds`: the fewest that two methods compared have in common; None where no pair was compared.
    `turned`: the compared pairs (higher in the paper, lower) that do not stand in its order.
    """

    same: int
    pairs: int
    unknown: int = 0
    seeds: int | None = None
    turned: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool | None:
        """True or False when it is certain, None when no pair is clearly ordered or those not
        compared could decide it.
        """
        if self.pairs == 0:
            return None
        if self.same >= SAME_ORDER * self.pairs:
            return True
        return None if self.same + self.unknown >= SAME_ORDER * self.pairs else False

    def __str__(self) -> str:
        if self.pairs == 0:
            return "no pair of the row is clearly ordered in the paper"
        words = [f"{self.same} of {self.pairs} pairs in the paper's order"]
        if self.unknown:
            words.append(f"{self.unknown} not compared")
        if self.turned:
            more = len(self.turned) - 2
            named = " or ".join(f"{higher} above {lower}" for higher, lower in self.turned[:2])
            words.append(f"not {named}" + (f" or {more} more" if more > 0 else ""))
        return ", ".join(words)


@dataclass(frozen=True)
class Verdict:
    """One of the words above and why; `seeds` is "1 of 5 seeds" where fewer ran than the paper
    averages, else empty.
    """

    word: str
    reason: str = ""
    seeds: str = ""

    def __str__(self) -> str:
        word = f"{self.word} ({self.seeds})" if self.seeds else self.word
        return f"{word}: {self.reason}" if self.reason else word


def clearly_ordered(row: Mapping[str, Printed]) -> list[tuple[str, str]]:
    """The pairs (higher, lower) of a row whose printed values differ by more than both printed
    standard deviations.
    """
    pairs = []
    for one, other in itertools.combinations(row, 2):
        higher, lower = (one, other) if row[one].value >= row[other].value else (other, one)
        difference = row[higher].value - row[lower].value
        if difference > max(_spread(row[higher]), _spread(row[lower])) + HAIR:
            pairs.append((higher, lower))
    return pairs


def ranking(row: Mapping[str, Printed], ours: Mapping[str, Ours]) -> Ranking:
    """Compare the order of the methods in one row of a table: `row` and `ours` by method name.

    A tie, and a pair of which one diverged on a seed that both ran, are not in the paper's order; a
    pair without such a seed is unknown.
    """
    pairs = {names: tuple(_of(ours, name) for name in names) for names in clearly_ordered(row)}
    seeds = {names: len(common(*pair)) for names, pair in pairs.items() if common(*pair)}
    turned = tuple(names for names in seeds if not _is_higher(*pairs[names]))
    return Ranking(
        len(seeds) - len(turned),
        len(pairs),
        len(pairs) - len(seeds),
        min(seeds.values(), default=None),
        turned,
    )


def _is_higher(one: Ours, other: Ours) -> bool:
    found = differences(one, other)
    return len(found) == len(common(one, other)) and statistics.fmean(found) > HAIR


def tolerance(printed: Printed, ours: Ours) -> float:
    """How far our mean may lie from the printed value, in points."""
    two_errors = 0.0 if math.isnan(ours.standard_error) else 2 * ours.standard_error
    return max(FLOOR, 2 * _spread(printed), two_errors)


def judge(
    profile: str,
    printed: Printed,
    ours: Ours,
    row: Ranking,
    known_reason: str = "",
    paper_seeds: int = 1,
) -> Verdict:
    """The verdict on one printed result, for the profile ("quick", "small" or "paper") that `ours`
    was run in.

    `row` is the `ranking` of the value's row; `known_reason` the explanation to give, where there
    is one, for a value too far from the printed one; `paper_seeds` the number of seeds that the
    paper averages.
    """
    choose("profile", profile, PROFILES)
    if not ours.ran:
        return Verdict("not run")
    if profile == "quick":
        return Verdict("no verdict", "quick profile")
    seeds = few_seeds(ours.runs, paper_seeds)
    if not ours.comparable:
        return Verdict("not reproduced", ours.status, seeds)
    allowed = tolerance(printed, ours)
    difference = ours.mean - printed.value
    if profile == "paper" and abs(difference) <= allowed + HAIR:
        return Verdict(
            "reproduced", f"{abs(difference):.2f} points apart, {allowed:.2f} allowed", seeds
        )
    if row.holds is None and (row.unknown or profile == "small"):
        return Verdict("no verdict", str(row), seeds)
    if row.holds or profile == "small":
        seeds = few_seeds(min(ours.runs, row.seeds or ours.runs), paper_seeds)
        return Verdict("same ranking" if row.holds else "other ranking", str(row), seeds)
    why = (
        f"{abs(difference):.2f} points apart, {allowed:.2f} allowed; {row};"
        f" {known_reason or 'reason unknown'}"
    )
    return Verdict("not reproduced", why, seeds)


def _spread(printed: Printed) -> float:
    return 0.0 if math.isnan(printed.std) else printed.std


def _of(ours: Mapping[str, Ours], method: str) -> Ours:
    return ours.get(method, Ours())
