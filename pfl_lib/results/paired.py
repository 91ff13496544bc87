"""Two methods on the same seeds: by how much one is above the other, and how sure that is."""

import math
import statistics
from dataclasses import dataclass

from pfl_lib.results.summary import Ours, differences


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
        from scipy.stats import t  # takes half a second to import

        return float(t.ppf(0.975, n - 1)) * statistics.stdev(self.values) / math.sqrt(n)

    @property
    def words(self) -> str:
        """ "above" or "below" where the interval leaves 0 out, else "undecided": also where all
        seeds differ by the same, as accuracies on few test examples may, for an interval without a
        width says nothing.
        """
        if not self.half > 0 or abs(self.mean) <= self.half:
            return "undecided"
        return "above" if self.mean > 0 else "below"


def paired(one: Ours, other: Ours) -> Paired:
    """By how much `one` is above `other`, seed by seed, on the seeds that both finished."""
    return Paired(tuple(differences(one, other)))
