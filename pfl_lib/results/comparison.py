"""Methods compared: results side by side, by name."""

import json
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pfl_lib.errors import BadInput, choose, flag
from pfl_lib.results.result import Result
from pfl_lib.results.several import Results, check
from pfl_lib.results.writing import written

PARTS = ("table", "rounds")  # of a comparison, as files have them
WORST = "worst client, last (%)"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results by name: `table`, a row for each; `plot()` and `plot_clients()`; `differences()`,
    paired by seed; `to_csv()` and `to_latex()`.
    """

    results: dict[str, Results]

    @property
    def table(self) -> pd.DataFrame:
        """By name: seeds, accuracy of the best and the last round, each with its standard deviation
        over seeds, and of the last round's worst client (percent), and what became of it.
        """
        rows = {}
        for name, several in self.results.items():
            best, last = several.summary(), several.summary("last")
            numbers = best.mean, best.std, last.mean, last.std
            worst = several.summary("last", over="worst").mean
            rows[name] = len(several), *numbers, worst, best.status
        columns = ["best (%)", "± best", "last (%)", "± last", WORST]
        columns = ["seeds", *columns, "status"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def rounds(self) -> pd.DataFrame:
        """A row for each name, seed, round and client: accuracy (0 to 1), loss, what is logged."""
        each = [several.metrics.assign(name=name) for name, several in self.results.items()]
        return pd.concat(each, ignore_index=True).set_index("name").reset_index()

    @property
    def frame(self) -> pd.DataFrame:
        """`rounds` as figures draw them: names as "method", accuracy in percent, and the seconds of
        training up to the round (each run's own spread evenly over its rounds, mean over a name's
        runs).
        """
        pace, lost = {}, []
        for name, several in self.results.items():
            each = [one.seconds / max(1, one.metrics["round"].max()) for one in several]
            pace[name] = sum(each) / len(each)
            lost += [(name, one.config["seed"], 1) for one in several if one.metrics.empty]
        nothing = pd.DataFrame(lost, columns=["method", "seed", "round"])  # no round ended
        frame = self.rounds.rename(columns={"name": "method"})
        frame = pd.concat([frame, nothing], ignore_index=True) if lost else frame
        seconds = frame["round"] * frame["method"].map(pace)
        return frame.assign(accuracy=100 * frame["accuracy"], seconds=seconds)

    def differences(
        self,
        to: str | None = None,
        protocol: str = "best",
        over: str = "clients",
        *,
        metric: str = "accuracy",
        model: str = "served",
    ) -> pd.DataFrame:
        """By how much each is above the one named `to` (default: the first), accuracies in points,
        on the seeds that both finished: their number, the mean, its 95 % confidence interval by
        Student's t (NaN for one seed, and where all differ by the same), and "above", "below" or,
        where 0 lies within or there is no interval, "undecided".

        The others as in `Result.value`; who does not log the metric is left out.  Raises BadInput
        for an unknown name.
        """
        from scipy.stats import t  # takes half a second to import

        logged = {name: of for name, of in self.results.items() if metric in of.metrics}
        results = logged or self.results
        to = next(iter(results)) if to is None else choose("name", str(to), results)
        read = {"protocol": protocol, "metric": metric, "over": over, "model": model}
        values = {name: several.summary(**read) for name, several in results.items()}
        rows = []
        beside = values.pop(to)
        for name, ours in values.items():
            apart = (ours.values - beside.values).dropna()
            # Equal shares of examples differ in their last bits.
            alike = not apart.max() - apart.min() > 1e-9
            mean = apart.mean()
            half = math.nan if alike else t.ppf(0.975, len(apart) - 1) * apart.sem()
            found = ("above" if mean > 0 else "below") if abs(mean) > half else "undecided"
            rows.append((name, len(apart), mean, mean - half, mean + half, found))
        columns = ["method", "seeds", "difference", "95 % from", "95 % to", f"than {to}"]
        return pd.DataFrame(rows, columns=columns)

    def to_csv(self, path: str | os.PathLike, of: str = "rounds") -> Path:
        """Write the "rounds", every number behind it, or the "table" as CSV; returns the path."""
        named = self.table.reset_index(names="method")
        frame = self.rounds if choose("of", of, PARTS) == "rounds" else named
        return written("file", path, frame.to_csv(index=False).encode())

    def to_latex(self, path: str | os.PathLike | None = None, of: str = "table") -> str:
        """The "table" as LaTeX (package booktabs), each number with its standard deviation over
        seeds, or the "rounds"; where a `path` is given, it is written there as well.
        """
        from pfl_lib.display import table

        every = choose("of", of, PARTS) == "rounds"
        text = table.latex(self.rounds, digits=4) if every else table.latex(self._spreads())
        if path is not None:
            written("file", path, text.encode())
        return text

    def _spreads(self) -> pd.DataFrame:
        """The table with each number and its spread in one cell, or what became of it."""
        table = self.table.astype(object)
        for what in ("best", "last"):
            spread = table.pop(f"± {what}").map(lambda std: f" ± {std:.2f}" if std == std else "")
            table[f"{what} (%)"] = table[f"{what} (%)"].map("{:.2f}".format) + spread
        table[WORST] = table[WORST].map("{:.2f}".format)
        status = table.pop("status")
        table.loc[status != "ran", table.columns[1:]] = ""
        table["best (%)"] = table["best (%)"].where(status == "ran", status)
        heads = {"best (%)": "best round (%)", "last (%)": "last round (%)"}
        return table.rename(columns=heads).reset_index(names="method")

    def plot(self, metric: str = "accuracy"):
        """Draw accuracy, or another metric of `rounds` such as "loss", by round: a line for each
        name, its mean over seeds and a band of one standard deviation; returns the figure.
        """
        from pfl_lib.display import curves, theme

        frame = self.frame
        measured = frame.columns.drop(["method", "seed", "round", "client", "seconds"])
        if choose("metric", metric, measured) != "accuracy":
            frame = frame[frame.groupby("method")[metric].transform("count") > 0]
            frame = frame.assign(**{metric: frame[metric] * (100 if "accuracy" in metric else 1)})
        with theme.theme():
            figure = curves.accuracy(frame, y=metric).figure
            words = metric.replace("_", " ").capitalize()
            theme.show(figure, f"{words} by round, mean over clients and seeds.")
        return figure

    def plot_clients(self):
        """Draw the last round's mean over clients and, beside it, the worst client, for each name,
        with one standard deviation over seeds; returns the matplotlib figure.
        """
        from pfl_lib.display import curves, theme

        rows = [
            {"method": name, "seed": seed, "clients": words, "accuracy": value}
            for name, several in self.results.items()
            for over, words in (("clients", "mean"), ("worst", "worst"))
            for ours in [several.summary("last", over=over)]
            for seed, value in enumerate([math.nan] if ours.diverged else ours.values)
        ]
        with theme.theme():
            figure = curves.mean_and_worst(pd.DataFrame(rows)).figure
            theme.show(figure, "Accuracy in the last round, mean over clients and worst client.")
        return figure

    def __repr__(self) -> str:
        return self.table.round(2).to_string()

    def _repr_html_(self) -> str:
        return self.table.round(2).to_html()


def compare(
    results: Mapping[str, Result | Results | Sequence[Result]], across: bool = False
) -> Comparison:
    """Results side by side, by the names they are to be shown under: `compare({"alone":
    run("local"), "WAFFLE": run("waffle", seeds=3)})`; a list's are of one seed each.

    Raises BadInput for what is no result, and for results that differ in their data, partition,
    network (its layers, as it is printed), schedule, initial model or in whose model is read,
    unless `across`.
    """
    if not isinstance(results, Mapping) or not results:
        example = '{"WAFFLE": pfl_lib.run("waffle")}'
        raise BadInput(f"results {results!r}: give a dict of results by name, such as {example}")
    if not all(str(name).strip() for name in results):
        raise BadInput(f"names {list(results)}: one is blank, give each its own")
    named = {str(name): _several(name, given) for name, given in results.items()}
    if len(named) < len(results):
        raise BadInput(f"names {list(results)}: two of them read alike, give each its own")
    flag("across", across)
    first, *others = named
    for other in [] if across else others:
        if apart := _apart(named[first], named[other]):
            cure = "compare results of one setting, or give across=True"
            if apart.startswith("initial "):
                cure = "give Federation a function that makes the network, or compare across=True"
            raise BadInput(f"{other!r} and {first!r} differ in {apart}: {cure}")
    return Comparison(named)


def _several(name: object, given: object) -> Results:
    """What is shown under a name: results, of one seed each."""
    if isinstance(given, Results):
        return given
    every = tuple(given) if isinstance(given, list | tuple) else (given,)
    check(name, every)
    seeds = [one.config["seed"] for one in every]
    if len({*seeds}) < len(seeds):
        raise BadInput(f"{name}: results of seeds {seeds}: give one of each seed")
    for one in every:
        if apart := _apart_in(every[0].config, one.config, False, ("method",)):
            raise BadInput(f"{name}: results that differ in {apart}: give those of one setting")
    return Results(every)


def _apart(ours: Results, others: Results) -> str:
    """The first part of the setting in which results differ (of one seed, else first); or ""."""
    pairs = [(a, b) for a in ours for b in others if a.config["seed"] == b.config["seed"]]
    # Data may follow from the seed.
    pairs = [(a.config, b.config, True) for a, b in pairs]
    found = (_apart_in(*pair) for pair in pairs or [(ours[0].config, others[0].config, False)])
    return next(filter(None, found), "")


def _apart_in(
    one: Mapping, other: Mapping, of_one_seed: bool, further: tuple[str, ...] = ()
) -> str:
    """The first part of the setting in which two results' configurations differ; "" where none."""
    names = ("dataset", "images", "partition", "clients", "model", "validation", "alice")
    names += ("alice in turn", "loss", "evaluate_every", *further)
    for drawn in ("data", "split"):
        names += (drawn,) * (of_one_seed and drawn in one and drawn in other)
    last = ("initial",) * (of_one_seed and "initial" in one and "initial" in other)
    settings = [
        {name: config.get(name) for name in names}
        | dict(config.get("schedule", {}))
        | {name: config[name] for name in last}
        for config in (one, other)
    ]
    for name in settings[0] | settings[1]:
        values = [setting.get(name) for setting in settings]
        if json.dumps(values[0], sort_keys=True) != json.dumps(values[1], sort_keys=True):
            names = [value.get("name") if isinstance(value, dict) else value for value in values]
            shown = names if names[0] != names[1] else values
            words = [str(value) for value in shown]
            alike = max(0, len(os.path.commonprefix(words)) - 30)  # of networks, which are long
            one, other = (textwrap.shorten("..." * (alike > 0) + w[alike:], 80) for w in words)
            return f"{name.replace('initial', 'initial model')} ({other} and {one})"
    return ""
