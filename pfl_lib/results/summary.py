"""What runs of one setting with several seeds say together, and what became of one run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from pfl_lib.results.result import Result


@dataclass(frozen=True, eq=False)
class Summary:
    """`values` of finished runs by seed; `diverged`: by seed, the round of a loss not finite."""

    values: pd.Series
    diverged: Mapping[int, int]

    @property
    def mean(self) -> float:
        """Mean over seeds; not a number where a run diverged."""
        return math.nan if self.diverged else float(self.values.mean(skipna=False))

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds; NaN for a single one, and where a run diverged."""
        return math.nan if self.diverged else float(self.values.std(skipna=False))

    @property
    def status(self) -> str:
        """ "ran" or "diverged at round 7 (seed 2)"."""
        lost = ", ".join(f"round {round} (seed {seed})" for seed, round in self.diverged.items())
        return f"diverged at {lost}" if lost else "ran"


def status(result: Result | None) -> str:
    """What became of one run: "ran", "not run" or "diverged at round 7"."""
    if result is None:
        return "not run"
    return "ran" if result.diverged is None else f"diverged at round {result.diverged}"
