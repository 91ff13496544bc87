"""Several runs as one: one method's over several seeds, and those with each client as Alice."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Never

import numpy as np
import pandas as pd

from pfl_lib.errors import BadInput
from pfl_lib.results.result import Result


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        spread = f" ± {self.std:.4g}" if len(self.values) > 1 else ""
        return f"<Summary: {self.mean:.4g}{spread}, {self.status}; .values by seed>"

    @property
    def status(self) -> str:
        """ "ran" or "diverged at round 7 (seed 2)"."""
        lost = ", ".join(f"round {round} (seed {seed})" for seed, round in self.diverged.items())
        return f"diverged at {lost}" if lost else "ran"


@dataclass(frozen=True, repr=False)
class Results(Sequence[Result]):
    """One method's results over several seeds, one `Result` each (`results[0]`).  `summary` reads a
    number a seed, with its mean and spread; `mean` and `spread` are the best round's accuracy.  In
    these three accuracies are in percent, in `by_client` and `metrics` 0 to 1, as in a `Result`.
    Raises BadInput for what are no results, for those of several methods, and for a seed twice.
    """

    results: tuple[Result, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", tuple(self.results))
        check("results", self.results)
        # A federation's setting may follow from the seed
        called = list(dict.fromkeys(one.config["method"]["name"] for one in self.results))
        if len(called) > 1:
            raise BadInput(f"results of methods {', '.join(called)}: give those of one")
        if len({*self.seeds}) < len(self.seeds):
            raise BadInput(f"results of seeds {[*self.seeds]}: give one of each seed")

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> Result:
        return self.results[place]

    def __getattr__(self, name: str) -> Never:
        one = name in Result.__dataclass_fields__ or hasattr(Result, name)
        cure = f": read one seed's, as results[0].{name}" if one else ""
        raise AttributeError(f"results of several seeds have no {name!r}{cure}")

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(result.config["seed"] for result in self.results)

    @property
    def metrics(self) -> pd.DataFrame:
        """All results' `Result.metrics`, one below the other, with their seed in front."""
        each = [result.metrics.assign(seed=result.config["seed"]) for result in self.results]
        return pd.concat(each, ignore_index=True).set_index("seed").reset_index()

    def summary(
        self,
        protocol: str = "best",
        *,
        metric: str = "accuracy",
        over: str = "clients",
        model: str = "served",
    ) -> Summary:
        """A number a seed, read as `Result.value` reads it (accuracies in percent): `values`, their
        `mean` and `std`, and `status`, which tells of seeds that diverged; then there is no mean.
        """
        ran = [one for one in self if one.diverged is None]
        values = {one.config["seed"]: one.value(metric, protocol, over, model) for one in ran}
        lost = {one.config["seed"]: one.diverged for one in self if one.diverged is not None}
        scale = 100 if "accuracy" in metric else 1
        return Summary(scale * pd.Series(values, dtype=float), lost)

    def by_client(
        self, metric: str = "accuracy", protocol: str = "best", model: str = "served"
    ) -> pd.DataFrame:
        """`Result.by_client` of each seed, a column; NaN of one that diverged; a row a client."""
        ran, read = [one for one in self.results if one.diverged is None], (metric, protocol, model)
        frame = pd.DataFrame({one.config["seed"]: one.by_client(*read) for one in ran})
        return frame.reindex(columns=list(self.seeds))

    @property
    def mean(self) -> float:
        """Mean over seeds of the best round's accuracy (percent); nan where a seed diverged."""
        return self.summary().mean

    @property
    def spread(self) -> float:
        """Sample standard deviation over seeds of the best round's accuracy (points)."""
        return self.summary().std

    def plot(self):
        """Draw accuracy by round, with a band of one standard deviation; returns the figure."""
        from pfl_lib.results.comparison import compare

        return compare({self.results[0].config["method"]["name"]: self}).plot()

    def __repr__(self) -> str:
        best, last = self.summary(), self.summary("last")
        said = f"accuracy best {_percent(best)}, last {_percent(last)}"
        told = best.status if best.diverged else said
        name, seeds = self.results[0].config["method"]["name"], ", ".join(map(str, self.seeds))
        return f"<Results of {name}: seeds {seeds}, {told}; .metrics, .summary(), .plot()>"


def _percent(of: Summary) -> str:
    spread = f" ± {of.std:.2f}" if of.std >= 0 else ""
    return "not a number" if math.isnan(of.mean) else f"{of.mean:.2f}{spread} %"


def check(name: object, every: tuple) -> None:
    """BadInput unless all of what is shown under a name are results, and there is one."""
    if not every or not all(isinstance(one, Result) for one in every):
        shown = every[0] if len(every) == 1 else [*every]
        raise BadInput(f"{name} {shown!r}: give a result, as pfl_lib.run returns it, or a list")


def of_each_alice(results: Sequence[Result]) -> Result:
    """The runs of one setting with each client as Alice in turn as one result: a row of metrics for
    every client and round; row i of the weights, [rounds, N, N] or [rounds, L, N, N] by layer, is
    what client i's run gave her.  Where one diverged, it ends with the first round that did.
    """
    end = min((one.diverged for one in results if one.diverged is not None), default=None)
    metrics = pd.concat([result.metrics for result in results], ignore_index=True)
    metrics = metrics.sort_values(["round", "client"], ignore_index=True)
    non_finite: dict[int, int] = {}
    for client, r in (pair for result in results for pair in result.non_finite.items()):
        non_finite[client] = min(r, non_finite.get(client, r))
    weights = weights_rounds = None
    if all(result.weights is not None for result in results):
        rounds = min(len(result.weights) for result in results)
        every = [result.weights[:rounds] for result in results]
        own = [of if of.ndim == 2 else of[..., i, :] for i, of in enumerate(every)]
        weights, weights_rounds = np.stack(own, axis=-2), results[0].weights_rounds[:rounds]
    first, schedule = results[0].config, results[0].config.get("schedule", {})
    in_turn = {"alice": None, "keys": [r.config.get("key") for r in results]}
    if schedule.get("participation", 1) < 1 or schedule.get("availability"):
        in_turn["alice in turn"] = True  # who takes part then, always does
    return Result(
        first | in_turn,
        metrics if end is None else metrics[metrics["round"] < end],
        weights,
        end,
        sum(result.seconds for result in results),
        weights_rounds=weights_rounds,
        non_finite=non_finite,
    )
