"""Tables of a page: the numbers behind each figure.

Accuracies are in percent, as the papers print them.  A run that is not there, or that diverged, is
a word, never a number.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display.table_format import Link, Strong, show_table, to_csv, to_html, to_text
from pfl_lib.results.summary import at_round, status

if TYPE_CHECKING:  # annotations only
    from pfl_lib.partitions.base import Partition
    from pfl_lib.results.result import Result

__all__ = [
    "Link",
    "Strong",
    "accuracy_by_round",
    "alone_from",
    "by_round",
    "holdings",
    "name_with_status",
    "shares",
    "show_table",
    "some_rounds",
    "stops_counting",
    "to_csv",
    "to_html",
    "to_text",
    "vanishing",
]


def accuracy_by_round(
    results: Mapping[str, Sequence["Result"]], running_best: bool = False
) -> pd.DataFrame:
    """Accuracy in percent by round and method (columns, in the order of `results`), the mean over
    each method's results.

    `running_best` takes the best accuracy up to each round, as WAFFLE's Figure 4 does, before the
    mean.  From the round at which the first of a method's runs diverged there is no number for that
    method; `attrs["diverged"]` has that round by method.
    """
    curves, diverged = {}, {}
    for method, of_method in results.items():
        runs = pd.concat(
            [100 * result.accuracy_by_round().astype(float) for result in of_method], axis=1
        )
        if running_best:
            runs = runs.cummax()
        curves[method] = runs.mean(axis=1, skipna=False)
        if ended := [result.diverged for result in of_method if result.diverged is not None]:
            diverged[method] = min(ended)
    return by_round(curves, diverged)


def by_round(columns: Mapping[str, pd.Series], diverged: Mapping[str, int]) -> pd.DataFrame:
    """Columns by round in one table; `attrs["diverged"]`: the round from which a column has no
    numbers since its run diverged.

    There is a row for that round also where no other run has one, so that no table ends before it.
    """
    frame = pd.DataFrame(columns)
    frame = frame.reindex(sorted({*frame.index, *diverged.values()})).rename_axis("round")
    frame.attrs["diverged"] = dict(diverged)
    return frame


def some_rounds(by_round: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """About `count` evenly spaced rows of a table by round, first and last included, with `round`
    as first column.

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
    """For each client the round (from 1) from which its weight stays 0, NaN if it never does.
    `weights` [rounds, N].
    """
    positive = np.asarray(weights) > 0
    rounds = len(positive)
    last = np.where(positive.any(axis=0), rounds - positive[::-1].argmax(axis=0), 0)
    return pd.Series(
        np.where(last < rounds, last + 1.0, np.nan), name="weight 0 from round"
    ).rename_axis("client")


def stops_counting(result: "Result", clients: int, alice: int = 0) -> dict[int, str]:
    """For each of the clients but Alice "round 12", from which its weight stays 0, or "never"; all
    alike for a run that diverged.
    """
    others = [client for client in range(clients) if client != alice]
    if result.diverged is not None:
        return dict.fromkeys(others, status(result))
    gone = vanishing(result.weights)
    return {
        client: "never" if math.isnan(gone[client]) else f"round {gone[client]:.0f}"
        for client in others
    }


def name_with_status(method: str, result: "Result") -> str:
    """A method's name for a title or a caption: "WAFFLE", or "WAFFLE, diverged at round 7"."""
    return method if result.diverged is None else f"{method}, {status(result)}"


def alone_from(weights: np.ndarray, alice: int = 0) -> int | None:
    """The round from which all weight stays on Alice, None when that never happens.  `weights`
    [rounds, N].
    """
    others = vanishing(weights).drop(alice)
    return None if others.isna().any() else int(others.max())


def holdings(partition: "Partition", dataset) -> pd.DataFrame:
    """Who holds what: each client's training images under each of its own labels, their number, and
    its test images.
    """
    matrix = pd.DataFrame(partition.label_matrix(dataset).numpy())
    matrix.columns = [f"label {label}" for label in matrix.columns]
    matrix.insert(0, "client", range(partition.clients))
    return matrix.assign(train=partition.sizes.numpy(), test=[len(test) for test in partition.test])
