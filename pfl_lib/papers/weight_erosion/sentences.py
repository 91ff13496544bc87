"""Sentences of Weight Erosion's pages that say what came out, made from the results each time: none
of them is typed in.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from pfl_lib.papers.weight_erosion.tables import CLEAR, SHORT

LOW = 0.5  # a relative distance below it is "very low"


def one_example(
    sizes: Mapping[tuple[str, int], int], users: Iterable[int], split: str = "AGE_STRICT"
) -> str:
    """What a single test example is in points: "One test example is 0.8 points for agent 0, 0.6
    points for agent 2."
    """
    words = [f"{100 / sizes[split, user]:.1f} points for agent {user}" for user in users]
    return f"One test example is {', '.join(words)}."


def two_measures(ends: Mapping[str, pd.DataFrame]) -> str:
    """Where the two ways of measuring are more than `CLEAR` points apart for Weight Erosion after
    the last round.

    `ends`: split -> `weight_erosion_tables.in_the_end`.
    """
    words = []
    for split, table in ends.items():
        ran = table[
            (table["scheme"] == "WE")
            & ~table["predicted rightly"].map(lambda value: isinstance(value, str))
        ]
        for row in ran.to_dict("records"):
            measured, right = (row[name] for name in SHORT)
            if abs(measured - right) > CLEAR:
                words.append(
                    f"{split}, user {row['user']}: {measured:.1f} % as the paper measures,"
                    f" {right:.1f} % rightly"
                )
    found = "; ".join(words) or "nowhere"
    return (
        f"Weight Erosion's accuracies by the two measures are more than {CLEAR:g} points apart"
        f" here: {found}."
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
                by += (
                    f", in test examples {row['over FedAvg, in examples']} of"
                    f" {row['test examples']}"
                )
            of_split.append(f"agent {row['user']} ({by})")
        unknown = int((rows["clear over FedAvg"] == "open").sum())
        still = f", {unknown} of {len(rows)} users still open" if unknown else ""
        words.append(f"in {split} for {' and '.join(of_split) or 'nobody'}{still}")
    return f"Weight Erosion is clearly above a true FedAvg {'; '.join(words)}."


def first_distances(first: pd.DataFrame) -> str:
    """Whether Example 1 of Appendix A comes out; `first`: `weight_erosion_gradients.example_1`."""
    found = first.filter(like="agent").to_numpy()
    answer = "as the example says" if found.max() < LOW else "so the example does not come out"
    return (
        f"At these models the others' gradients are {found.min():.2f} to {found.max():.2f} times as"
        f" far from the user's as that is long, {answer}"
        f" ({'all' if found.max() < LOW else 'not all'} are below {LOW:g})."
    )


def figure_1(ends: Mapping[str, pd.DataFrame]) -> str:
    """For how many users Weight Erosion ends above a true FedAvg and above Local, in the share
    predicted rightly.

    `ends`: split -> `tables.in_the_end`.
    """
    right = pd.concat(
        {
            split: table.pivot(index="user", columns="scheme", values="predicted rightly")
            for split, table in ends.items()
        }
    ).apply(pd.to_numeric, errors="coerce")
    words = []
    for other in ("FedAvg", "Local"):
        if {"WE", other} <= set(right.columns):
            gain = (right["WE"] - right[other]).dropna()
            words.append(
                f"above {other} for {int((gain > 0).sum())}, level for {int((gain == 0).sum())} and"
                f" below for {int((gain < 0).sum())} of {len(gain)} users"
                f" ({gain.mean():+.1f} points on average)".replace("-", "−")
            )
    return f"In single runs Weight Erosion ends {'; '.join(words) or 'nowhere: it was not run'}."


def figure_2(learned: Mapping[tuple[int, str], pd.DataFrame]) -> str:
    """The input with the largest effect in each model of Weight Erosion; `learned`: (user, scheme)
    -> parameters of class 0 and class 1.
    """
    words = []
    for (user, scheme), both in learned.items():
        if scheme == "WE":
            effect = (both["class 1"] - both["class 0"]).drop("Bias term")
            name = effect.abs().idxmax()
            words.append(f"{name} for agent {user} ({effect[name]:+.2f})".replace("-", "−"))
    return f"What counts most in Weight Erosion's models: {'; '.join(words) or 'not run'}."


def penalties(grid: pd.DataFrame) -> str:
    """Between what accuracies and weights the grid of penalties moves; `grid`: `tables.grid`."""
    words = []
    for user, rows in grid[grid["status"] == "ran"].groupby("user"):
        words.append(
            f"for agent {user} the others' mean weight falls from {rows['others'].max():.2f} to"
            f" {rows['others'].min():.2f} and accuracy lies between"
            f" {rows['accuracy'].min():.1f} and {rows['accuracy'].max():.1f} %"
        )
    return f"Over the grid of penalties, {'; '.join(words) or 'nothing was run'}."


def examples(first: pd.DataFrame, second: pd.DataFrame, third: pd.DataFrame) -> str:
    """Which of Appendix A's three examples come out, with their distances."""
    found = first.filter(like="agent").to_numpy()
    apart = (second["computed"] - second["formula"]).abs().max()
    out = "comes out" if found.max() < LOW else "does not come out"
    return (
        f"Example 1 {out}: distances at a new model are {found.min():.2f} to {found.max():.2f}."
        f" Example 2's formula holds to {apart:.0e}. Example 3: on the way to the local model"
        f" distances grow to {third.iloc[-1].max():,.0f}."
    )


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
