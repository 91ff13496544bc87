"""What several runs of one setting say together: a number a seed, its mean and spread, and what
went wrong.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NOT_RUN = "not run"
"""What stands in place of the number of a run that is not there."""


@dataclass(frozen=True)
class Ours:
    """What our runs say about one printed value: a number per finished seed, and what went wrong.

    `values` are the numbers to compare, as `gather` read them by a table's protocol.  `diverged`
    holds (seed, round) of each run whose loss became infinite or not a number; `missing` counts the
    runs without a result.
    """

    seeds: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    diverged: tuple[tuple[int, int], ...] = ()
    missing: int = 0

    @property
    def runs(self) -> int:
        """How many results there are, finished or diverged."""
        return len(self.values) + len(self.diverged)

    @property
    def ran(self) -> bool:
        """Whether there is any result, finished or diverged."""
        return self.runs > 0

    @property
    def comparable(self) -> bool:
        """Whether there is a number to compare: some run finished and none diverged."""
        return bool(self.values) and not self.diverged

    @property
    def mean(self) -> float:
        """Mean over seeds of the values; not a number unless `comparable`."""
        return statistics.fmean(self.values) if self.comparable else math.nan

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds of the values; not a number for a single seed."""
        if not self.comparable or len(self.values) < 2 or any(map(math.isnan, self.values)):
            return math.nan
        return statistics.stdev(self.values)

    @property
    def status(self) -> str:
        """ "ran", "not run", "diverged at round 7" or, of several runs, "diverged at round 7 (seed
        2)".
        """
        if not self.ran:
            return NOT_RUN
        if not self.diverged:
            return "ran"
        if not self.values and len(self.diverged) == 1:
            return at_round(self.diverged[0][1])
        return "diverged at " + ", ".join(
            f"round {round} (seed {seed})" for seed, round in self.diverged
        )


def differences(one: Ours, other: Ours) -> list[float]:
    """By how much the value of one method is above another's, for each seed that both finished."""
    first, second = (dict(zip(ours.seeds, ours.values, strict=True)) for ours in (one, other))
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


def gather(
    results: Iterable[tuple[int, object | None]],
    protocol: str = "best",
    *,
    metric: str = "accuracy",
    over: str = "clients",
    model: str = "served",
) -> Ours:
    """Summarise runs, given as (seed, Result or None for a run that is not there).

    `protocol`, `metric`, `over` and `model` choose the values, as in `Result.value`; accuracies
    become percent.
    """
    scale = 100 if "accuracy" in metric else 1
    seeds, values, diverged, missing = [], [], [], 0
    for seed, result in results:
        if result is None:
            missing += 1
        elif result.diverged is not None:
            diverged.append((seed, result.diverged))
        else:
            seeds.append(seed)
            values.append(scale * result.value(metric, protocol, over, model))
    return Ours(tuple(seeds), tuple(values), tuple(diverged), missing)


def status(result: object | None) -> str:
    """What became of one run, in the words of `Ours.status`: "ran", "not run" or "diverged at round
    7".
    """
    if result is None:
        return NOT_RUN
    return "ran" if result.diverged is None else at_round(result.diverged)


def at_round(diverged: int) -> str:
    """What stands in place of the number of a run that diverged at that round."""
    return f"diverged at round {diverged}"
