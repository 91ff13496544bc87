"""Two methods on the same seeds: by how much one is above the other, and how sure that is."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pfl_lib.results.summary import Ours, differences

# Student's t at 97.5 % for 1, 2, ... 30 degrees of freedom.
T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
NORMAL = 1.959964  # the same of the normal distribution


@dataclass(frozen=True)
class Paired:
    """The differences of two methods, one a seed, in the values' own unit."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the common seeds; not a number where there is none."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def half(self) -> float:
        """Half the width of the 95 % confidence interval of the mean, by Student's t; not a number
        for fewer than two seeds.
        """
        n = len(self.values)
        if n < 2 or any(map(math.isnan, self.values)):
            return math.nan
        return student_t(n - 1) * statistics.stdev(self.values) / math.sqrt(n)

    @property
    def words(self) -> str:
        """ "above" or "below" where the interval leaves 0 out, else "undecided": also where all
        seeds differ by the same, as accuracies on few test examples may, for an interval without a
        width says nothing.
        """
        if not self.half > 0 or abs(self.mean) <= self.half:
            return "undecided"
        return "above" if self.mean > 0 else "below"


def student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t; beyond 30 degrees of freedom to within 0.0001, by the
    first terms of its expansion about the normal distribution.
    """
    if freedom <= len(T):
        return T[freedom - 1]
    z = NORMAL
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def paired(one: Ours, other: Ours) -> Paired:
    """By how much `one` is above `other`, seed by seed, on the seeds that both finished."""
    return Paired(tuple(differences(one, other)))


def difference_rows(values: dict[str, Ours], reference: str) -> Sequence[dict[str, object]]:
    """A row for each method but the reference: seeds, difference, "95 % from", "95 % to" and the
    words of `Paired`.
    """
    rows = []
    for name, ours in values.items():
        if name != reference:
            found = paired(ours, values[reference])
            rows.append(
                {
                    "method": name,
                    "seeds": len(found.values),
                    "difference": found.mean,
                    "95 % from": found.mean - found.half,
                    "95 % to": found.mean + found.half,
                    f"than {reference}": found.words,
                }
            )
    return rows
