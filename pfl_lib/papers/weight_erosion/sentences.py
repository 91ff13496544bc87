"""Sentences of Weight Erosion's pages that say what came out, made from the results each time: none
of them is typed in.
"""

from collections.abc import Mapping

import pandas as pd

from pfl_lib.papers.weight_erosion import RIGHT
from pfl_lib.papers.weight_erosion.tables import CLEAR, SHORT


def two_measures(ends: Mapping[str, pd.DataFrame]) -> str:
    """Where the two ways of measuring are more than `CLEAR` points apart for Weight Erosion after
    the last round.

    `ends`: split -> `tables.in_the_end`.
    """
    words = []
    for split, table in ends.items():
        for row in table[table["method"] == "WE"].to_dict("records"):
            both = [row[name] for name in SHORT]
            if not any(isinstance(value, str) for value in both) and abs(both[0] - both[1]) > CLEAR:
                words.append(
                    f"{split}, client {row['client']}: {both[0]:.1f} % as the paper measures,"
                    f" {both[1]:.1f} % rightly"
                )
    return (
        f"Weight Erosion's accuracies by the two measures are more than {CLEAR:g} points apart"
        f" here: {'; '.join(words) or 'nowhere'}."
    )


def clear_gains(gains: pd.DataFrame) -> str:
    """For whom, split by split, Weight Erosion is clearly above a true FedAvg, by how many of how
    many test examples.
    """
    words = []
    for split, rows in gains.groupby("split", sort=False):
        of_split = []
        for row in rows[rows["clear over FedAvg"] == "yes"].to_dict("records"):
            by = f"in points {row['over FedAvg, right']}"
            if "test examples" in row:
                examples = row["over FedAvg, in examples"]
                by += f", in test examples {examples} of {row['test examples']}"
            of_split.append(f"client {row['client']} ({by})")
        unknown = int((rows["clear over FedAvg"] == "open").sum())
        still = f", {unknown} of {len(rows)} clients still open" if unknown else ""
        words.append(f"in {split} for {' and '.join(of_split) or 'nobody'}{still}")
    return f"Weight Erosion is clearly above a true FedAvg {'; '.join(words)}."


def figure_1(ends: Mapping[str, pd.DataFrame]) -> str:
    """For how many clients Weight Erosion ends above a true FedAvg and above Local, in the share
    predicted rightly; `ends`: split -> `tables.in_the_end`.
    """
    right = pd.concat(
        [table.pivot(index="client", columns="method", values=RIGHT) for table in ends.values()]
    ).apply(pd.to_numeric, errors="coerce")
    words = []
    cases = "clients" if len(ends) == 1 else f"cases, clients of {len(ends)} splits"
    for other in ("FedAvg", "Local"):
        if {"WE", other} <= set(right.columns):
            gain = (right["WE"] - right[other]).dropna()
            words.append(
                f"above {other} for {int((gain > 0).sum())}, level for {int((gain == 0).sum())} and"
                f" below for {int((gain < 0).sum())} of {len(gain)} {cases}"
                f" ({gain.mean():+.1f} points on average)".replace("-", "−")
            )
    return f"In single runs Weight Erosion ends {'; '.join(words) or 'nowhere: it was not run'}."


def claims(answers: pd.DataFrame) -> str:
    """How many of the paper's sentences hold in its own way and done right; `answers`:
    `claims.answers`.
    """
    if answers["as run"].str.startswith("no answer").all():
        return (
            f"The quick profile answers none of the {len(answers)} sentences: its data are not the"
            " paper's."
        )
    as_run = int((answers["as run"] == "yes").sum())
    right = answers.loc[answers["done right"] != "the same", "done right"]
    return (
        f"Of the paper's {len(answers)} sentences {as_run} hold as run by the authors; of the"
        f" {len(right)} about averages or accuracies {int((right == 'yes').sum())} hold done right."
    )
