"""What several runs of one setting say together: a number a seed, its mean and spread, and what
went wrong.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ours:
    """What our runs say about one printed value: a number per finished seed (percent), best and
    last round, and what went wrong.

    `diverged` holds (seed, round) of each run whose loss became infinite or not a number; `missing`
    counts the runs without a result.
    """

    seeds: tuple[int, ...] = ()
    best: tuple[float, ...] = ()
    last: tuple[float, ...] = ()
    diverged: tuple[tuple[int, int], ...] = ()
    missing: int = 0

    @property
    def runs(self) -> int:
        """How many results there are, finished or diverged."""
        return len(self.best) + len(self.diverged)

    @property
    def ran(self) -> bool:
        """Whether there is any result, finished or diverged."""
        return self.runs > 0

    @property
    def comparable(self) -> bool:
        """Whether there is a number to compare: some run finished and none diverged."""
        return bool(self.best) and not self.diverged

    @property
    def mean(self) -> float:
        """Mean over seeds of the best round; not a number unless `comparable`."""
        return statistics.fmean(self.best) if self.comparable else math.nan

    @property
    def last_mean(self) -> float:
        """Mean over seeds of the last round; not a number unless `comparable`."""
        return statistics.fmean(self.last) if self.comparable else math.nan

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds of the best round; not a number for a single
        seed.
        """
        return statistics.stdev(self.best) if self.comparable and len(self.best) > 1 else math.nan

    @property
    def standard_error(self) -> float:
        """Standard deviation of the mean over seeds; not a number for a single seed."""
        return self.std / math.sqrt(len(self.best)) if self.best else math.nan

    @property
    def status(self) -> str:
        """ "ran", "not run", "diverged at round 7" or, of several runs, "diverged at round 7 (seed
        2)".
        """
        if not self.ran:
            return "not run"
        if not self.diverged:
            return "ran"
        if not self.best and len(self.diverged) == 1:
            return at_round(self.diverged[0][1])
        return "diverged at " + ", ".join(
            f"round {round} (seed {seed})" for seed, round in self.diverged
        )


def common(one: Ours, other: Ours) -> list[int]:
    """The seeds that both methods ran, finished or diverged."""
    ran = [{*ours.seeds, *(seed for seed, _ in ours.diverged)} for ours in (one, other)]
    return sorted(ran[0] & ran[1])


def differences(one: Ours, other: Ours) -> list[float]:
    """By how many points the best round of one method is above another's, for each seed that both
    finished.
    """
    first, second = (dict(zip(ours.seeds, ours.best, strict=True)) for ours in (one, other))
    return [
        first[seed] - second[seed]
        for seed in common(one, other)
        if seed in first and seed in second
    ]


def gather(results: Iterable[tuple[int, object | None]]) -> Ours:
    """Summarise runs, given as (seed, Result or None for a run that is not there)."""
    seeds, best, last, diverged, missing = [], [], [], [], 0
    for seed, result in results:
        if result is None:
            missing += 1
        elif result.diverged is not None:
            diverged.append((seed, result.diverged))
        else:
            seeds.append(seed)
            best.append(100 * float(result.best_accuracy))
            last.append(100 * float(result.last_accuracy))
    return Ours(tuple(seeds), tuple(best), tuple(last), tuple(diverged), missing)


def status(result: object | None) -> str:
    """What became of one run, in the words of `Ours.status`: "ran", "not run" or "diverged at round
    7".
    """
    return gather([(1, result)]).status


def at_round(diverged: int) -> str:
    """What stands in place of the number of a run that diverged at that round."""
    return f"diverged at round {diverged}"


def few_seeds(runs: int, paper_seeds: int) -> str:
    """ "1 of 5 seeds" where fewer ran than the paper averages, else nothing."""
    return f"{runs} of {paper_seeds} seeds" if runs < paper_seeds else ""


HAIR = 1e-9  # 98.96 - 98.56 is 0.4 on paper and a little more in binary
