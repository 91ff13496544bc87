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
