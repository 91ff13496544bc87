"""Several results side by side: one method over seeds, and methods compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from pfl_lib.errors import BadInput
from pfl_lib.results.result import Result
from pfl_lib.results.summary import Ours, gather


@dataclass(frozen=True, repr=False)
class Results:
    """One method's results over several seeds, in their order; what a `Result` has as a number is
    here a mean with its spread.
    """

    results: tuple[Result, ...]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> Result:
        return self.results[place]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(result.config["seed"] for result in self.results)

    def summary(
        self,
        protocol: str = "best",
        *,
        metric: str = "accuracy",
        over: str = "clients",
        model: str = "served",
    ) -> Ours:
        """A number a seed, read as `Result.value` reads it (accuracies in percent): `values`,
        `mean`, `std` over seeds, and `status`, which tells of seeds that diverged; then there is no
        mean.
        """
        runs = zip(self.seeds, self.results, strict=True)
        return gather(runs, protocol, metric=metric, over=over, model=model)

    @property
    def mean(self) -> float:
        """Mean over seeds of the best round's accuracy (percent); nan where a seed diverged."""
        return self.summary().mean

    @property
    def spread(self) -> float:
        """Sample standard deviation over seeds of the best round's accuracy (points)."""
        return self.summary().std

    def plot(self):
        """Draw accuracy by round, its mean and a band of one standard deviation over seeds; returns
        the matplotlib figure.
        """
        return compare({self.results[0].config["method"]["name"]: self}).plot()

    def __repr__(self) -> str:
        name, best, last = self.results[0].config["method"]["name"], self.summary(), "last"
        said = (
            f"accuracy best {best.mean:.2f} ± {best.std:.2f} %, last"
            f" {self.summary(last).mean:.2f} ± {self.summary(last).std:.2f} %"
            if best.comparable
            else best.status
        )
        seeds = ", ".join(map(str, self.seeds))
        return f"<Results of {name}: seeds {seeds}, {said}; .results, .summary(), .plot()>"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results by name: `table`, a row for each, and `plot()`."""

    results: dict[str, Results]

    @property
    def table(self) -> pd.DataFrame:
        """By name: seeds, accuracy of the best and the last round and of the worst client of the
        last round (percent), each with its standard deviation over seeds, and what became of it.
        """
        rows = {}
        for name, several in self.results.items():
            best, last = several.summary(), several.summary("last")
            worst = several.summary("last", over="worst")
            rows[name] = {
                "seeds": len(several),
                "best (%)": best.mean,
                "± best": best.std,
                "last (%)": last.mean,
                "± last": last.std,
                "worst client (%)": worst.mean,
                "status": best.status,
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def plot(self):
        """Draw accuracy by round, a line for each name, its mean over seeds and a band of one
        standard deviation; returns the matplotlib figure.
        """
        from pfl_lib.display import figures, spread

        figure, alt = spread.accuracy_with_spread({n: s.results for n, s in self.results.items()})
        figures.show(figure, alt)
        return figure

    def __repr__(self) -> str:
        return self.table.round(2).to_string()

    def _repr_html_(self) -> str:
        return self.table.round(2).to_html()


def compare(results: Mapping[str, Result | Results]) -> Comparison:
    """Results side by side, by the names they are to be shown under: `compare({"alone":
    run("local"), "WAFFLE": run("waffle", seeds=3)})`.

    Raises BadInput for what is no result.
    """
    if not isinstance(results, Mapping) or not results:
        raise BadInput(
            f"results {results!r}: give a dict of results by name, such as"
            ' {"WAFFLE": pfl_lib.run("waffle")}'
        )
    for name, result in results.items():
        if not isinstance(result, Result | Results):
            raise BadInput(f"{name} {result!r}: give a result, as pfl_lib.run returns it")
    return Comparison(
        {
            str(name): result if isinstance(result, Results) else Results((result,))
            for name, result in results.items()
        }
    )
