"""Tables of a page: the paper's values beside ours, and the numbers behind each figure.

Accuracies are in percent, as the papers print them.  A run that is not there, or that diverged, is a word, never a
number.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.verdicts import MEANINGS, Ours, at_round, gather, judge, ranking, status
from pfl_lib.writing import Strong, keep, show_table, to_csv, to_html, to_text, written

if TYPE_CHECKING:  # annotations only
    from pfl_lib.partition import Partition
    from pfl_lib.store import Result, Store

__all__ = [
    "Strong",
    "accuracy_by_round",
    "alone_from",
    "as_printed",
    "beside",
    "by_round",
    "holdings",
    "in_words",
    "legend",
    "named",
    "shares",
    "show_table",
    "some_rounds",
    "stops_counting",
    "to_csv",
    "to_html",
    "to_text",
    "vanishing",
]

# --- the paper beside ours ---


def beside(exhibit, profile, store: "Store") -> pd.DataFrame:
    """One row for each printed result of an exhibit (`papers.Exhibit`): what the paper prints, what `store` has, the verdict.

    Columns: profile, dataset and distribution (the paper's), run on (our data set, empty where this package has no runs),
    method, paper and paper std, ours and ours std (mean and sample standard deviation over seeds of the best round, the
    papers' protocol), last round (mean), seeds (how many finished), difference (ours - paper; none for the quick profile,
    whose data are not the paper's), protocol, status ("ran", "not run", "diverged at round 7") and verdict.  Numbers in
    percent, NaN where there is none; `attrs["banner"]` says what was run.
    """
    rows = []
    for _, of_row in groupby(exhibit.entries(profile), key=lambda entry: entry.row):
        of_row = list(of_row)
        ours = {entry.method: gather((cell.seed, store.find(cell)) for cell in entry.cells) for entry in of_row}
        order = ranking({entry.method: entry.printed for entry in of_row}, ours)
        for entry in of_row:
            found = ours[entry.method]
            verdict = judge(profile.name, entry.printed, found, order, entry.reason, profile.paper_seeds)
            rows.append(_line(entry, profile, ours[entry.method], str(verdict)))
    frame = pd.DataFrame(rows)
    frame.attrs["banner"] = profile.banner
    return frame


def _line(entry, profile, ours: Ours, verdict: str) -> dict[str, object]:
    comparable = profile.name != "quick"
    return {
        "profile": profile.name,
        "dataset": entry.dataset,
        "run on": profile.dataset if entry.cells else "",
        "distribution": entry.setting,
        "method": entry.method,
        "paper": entry.printed.value,
        "paper std": entry.printed.std,
        "ours": ours.mean,
        "ours std": ours.std,
        "last round": ours.last_mean,
        "seeds": len(ours.seeds),
        "difference": ours.mean - entry.printed.value if comparable else math.nan,
        "protocol": f"best of {profile.rounds} rounds on Alice's test set",
        "status": ours.status,
        "verdict": verdict,
    }


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `beside` as they are read: numbers as text, words where there is no number."""
    signed = table["difference"].map(lambda number: written(number, sign=True))
    ours = [_ours(row.ours, row.status) for row in table.itertuples()]
    return keep(
        table,
        {
            "dataset": table["dataset"],
            "run on": table["run on"],
            "distribution": table["distribution"],
            "method": table["method"],
            "paper": table["paper"].map(written),
            "paper std": table["paper std"].map(written),
            "ours": ours,
            "ours std": table["ours std"].map(written),
            "last round": table["last round"].map(written),
            "seeds": table["seeds"].astype(str),
            "difference": signed,
            "protocol": table["protocol"],
            "verdict": table["verdict"],
        },
    )


def as_printed(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `beside` in the paper's layout: a column for each method; for each distribution the paper's value,
    ours (best round), ours in the last round, the difference, and the verdict in one word.  The highest of each line of
    values is `Strong`.
    """
    lines = []
    several = table["dataset"].nunique() > 1
    for (dataset, distribution), rows in table.groupby(["dataset", "distribution"], sort=False):
        kinds = {
            "paper": _best(rows["paper"], [_spread(row["paper"], row["paper std"]) for _, row in rows.iterrows()]),
            "ours, best round": _best(
                rows["ours"], [_ours(row["ours"], row["status"], row["ours std"]) for _, row in rows.iterrows()]
            ),
            "ours, last round": _best(rows["last round"], rows["last round"].map(written)),
        }
        if not rows["profile"].eq("quick").all():
            kinds["difference"] = [written(number, sign=True) for number in rows["difference"]]
            kinds["verdict"] = [verdict.partition(":")[0] for verdict in rows["verdict"]]
        for kind, words in kinds.items():
            place = f"{dataset}, {distribution}" if several else distribution
            lines.append({"distribution": place, "value": kind, **dict(zip(rows["method"], words, strict=True))})
    return keep(table, pd.DataFrame(lines, dtype=object))


def legend(table: pd.DataFrame) -> pd.DataFrame:
    """What the verdicts in the rows of `beside` mean, a row for each word that stands there."""
    there = [word for word in MEANINGS if table["verdict"].str.match(rf"{word}\b").any()]
    return pd.DataFrame({"verdict": there, "means": [MEANINGS[word] for word in there]})


def _spread(value: float, std: float) -> str:
    return written(value) if math.isnan(std) else f"{written(value)} ± {written(std)}"


def _ours(mean: float, status: str, std: float = math.nan) -> str:
    return _spread(mean, std) if status == "ran" else status


def _best(numbers: pd.Series, words: Sequence[str]) -> list[str]:
    highest = numbers.round(2).max()
    return [Strong(word) if round(number, 2) == highest else word for number, word in zip(numbers, words, strict=True)]


# --- the numbers behind the figures ---


def accuracy_by_round(results: Mapping[str, Sequence["Result"]], running_best: bool = False) -> pd.DataFrame:
    """Accuracy in percent by round and method (columns, in the order of `results`), the mean over each method's
    results.

    `running_best` takes the best accuracy up to each round, as WAFFLE's Figure 4 does, before the mean.  From the
    round at which the first of a method's runs diverged there is no number for that method; `attrs["diverged"]` has
    that round by method.
    """
    curves, diverged = {}, {}
    for method, of_method in results.items():
        runs = pd.concat([100 * result.accuracy_by_round().astype(float) for result in of_method], axis=1)
        if running_best:
            runs = runs.cummax()
        curves[method] = runs.mean(axis=1, skipna=False)
        if ended := [result.diverged for result in of_method if result.diverged is not None]:
            diverged[method] = min(ended)
    return by_round(curves, diverged)


def by_round(columns: Mapping[str, pd.Series], diverged: Mapping[str, int]) -> pd.DataFrame:
    """Columns by round in one table; `attrs["diverged"]`: the round from which a column has no numbers since its run diverged.

    There is a row for that round also where no other run has one, so that no table ends before it.
    """
    frame = pd.DataFrame(columns)
    frame = frame.reindex(sorted({*frame.index, *diverged.values()})).rename_axis("round")
    frame.attrs["diverged"] = dict(diverged)
    return frame


def some_rounds(by_round: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """About `count` evenly spaced rows of a table by round, first and last included, with `round` as first column.

    What diverged, in a table made by `by_round`, says so from that round on.
    """
    chosen = np.unique(np.linspace(0, len(by_round) - 1, count).round().astype(int))
    shown = by_round.iloc[chosen].copy()
    for method, round in by_round.attrs.get("diverged", {}).items():
        shown[method] = shown[method].astype(object).where(shown.index < round, at_round(round))
    return shown.reset_index()


def shares(weights: np.ndarray) -> np.ndarray:
    """Aggregation weights [rounds, N] as shares of each round's average (every row sums to 1)."""
    weights = np.asarray(weights, dtype=float)
    return weights / weights.sum(axis=1, keepdims=True)


def vanishing(weights: np.ndarray) -> pd.Series:
    """For each agent the round (from 1) from which its weight stays 0, NaN if it never does.  `weights` [rounds, N]."""
    positive = np.asarray(weights) > 0
    rounds = len(positive)
    last = np.where(positive.any(axis=0), rounds - positive[::-1].argmax(axis=0), 0)
    return pd.Series(np.where(last < rounds, last + 1.0, np.nan), name="weight 0 from round").rename_axis("agent")


def stops_counting(result: "Result", agents: int, alice: int = 0) -> dict[int, str]:
    """For each of the agents but Alice "round 12", from which its weight stays 0, or "never"; all alike for a run that diverged."""
    others = [agent for agent in range(agents) if agent != alice]
    if result.diverged is not None:
        return dict.fromkeys(others, status(result))
    gone = vanishing(result.weights)
    return {agent: "never" if math.isnan(gone[agent]) else f"round {gone[agent]:.0f}" for agent in others}


def named(method: str, result: "Result") -> str:
    """A method's name for a title or a caption: "WAFFLE", or "WAFFLE, diverged at round 7"."""
    return method if result.diverged is None else f"{method}, {status(result)}"


def alone_from(weights: np.ndarray, alice: int = 0) -> int | None:
    """The round from which all weight stays on Alice, None when that never happens.  `weights` [rounds, N]."""
    others = vanishing(weights).drop(alice)
    return None if others.isna().any() else int(others.max())


def holdings(partition: "Partition", dataset) -> pd.DataFrame:
    """Who holds what: each client's training images under each of its own labels, their number, and its test images."""
    matrix = pd.DataFrame(partition.label_matrix(dataset).numpy())
    matrix.columns = [f"label {label}" for label in matrix.columns]
    matrix.insert(0, "client", range(partition.clients))
    return matrix.assign(train=partition.sizes.numpy(), test=[len(test) for test in partition.test])
