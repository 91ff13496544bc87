"""What runs of one setting with several seeds say together, and what became of one run."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pfl_lib.results.result import Result


@dataclass(frozen=True)
class Summary:
    """A number of each finished seed (`seeds`, `values`), and (seed, round) of each run whose loss
    became infinite or not a number (`diverged`).
    """

    seeds: tuple[int, ...]
    values: tuple[float, ...]
    diverged: tuple[tuple[int, int], ...]

    @property
    def mean(self) -> float:
        """Mean over seeds; not a number where a run diverged."""
        return math.nan if self.diverged else statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds; not a number for a single seed, and where a run
        diverged.
        """
        if self.diverged or len(self.values) < 2 or any(map(math.isnan, self.values)):
            return math.nan
        return statistics.stdev(self.values)

    @property
    def status(self) -> str:
        """ "ran", "diverged at round 7" or, of several runs, "diverged at round 7 (seed 2)"."""
        if not self.diverged:
            return "ran"
        if not self.values and len(self.diverged) == 1:
            return at_round(self.diverged[0][1])
        return "diverged at " + ", ".join(
            f"round {round} (seed {seed})" for seed, round in self.diverged
        )


def differences(one: Summary, other: Summary) -> list[float]:
    """By how much the value of one method is above another's, for each seed that both finished."""
    first, second = (dict(zip(of.seeds, of.values, strict=True)) for of in (one, other))
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def half_interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of a mean, by Student's t; not a number for
    fewer than two values.
    """
    n = len(values)
    if n < 2 or any(map(math.isnan, values)):
        return math.nan
    from scipy.stats import t  # takes half a second to import

    return float(t.ppf(0.975, n - 1)) * statistics.stdev(values) / math.sqrt(n)


def status(result: Result | None) -> str:
    """What became of one run: "ran", "not run" or "diverged at round 7"."""
    if result is None:
        return "not run"
    return "ran" if result.diverged is None else at_round(result.diverged)


def at_round(diverged: int) -> str:
    """What stands in place of the number of a run that diverged at that round."""
    return f"diverged at round {diverged}"
