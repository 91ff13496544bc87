"""The sentence that answers each of WAFFLE's pages, made from its numbers: none is typed in."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from pfl_lib.display import tables
from pfl_lib.papers.waffle import ALICE


def listed(words: Iterable[str]) -> str:
    """ "A", "A and B", "A, B and C"; "none" of none."""
    words = list(words)
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "none"


def table_1(compared: pd.DataFrame) -> str:
    """How many of the values printed for MNIST came out how; for the quick profile, which gives no
    verdicts, which methods are best where.  `compared`: `comparison.compare`.
    """
    mnist = compared[compared["dataset"] == "MNIST"]
    ran = mnist[mnist["ours"].notna()]
    if ran.empty:
        return f"None of the {len(mnist)} values printed for MNIST was run."
    if (mnist["profile"] == "quick").all():
        top = ran["ours"] >= ran.groupby("setting")["ours"].transform("max") - 1e-9
        best = ran[top].groupby("method", sort=False)["setting"].agg(listed)
        words = "; ".join(f"{method} on {where}" for method, where in best.items())
        return (
            f"Alice's best accuracy is {ran['ours'].min():.1f} to {ran['ours'].max():.1f} %. The"
            f" highest of six methods, level ones included: {words}. (Other data than the paper's:"
            " no verdict.)"
        )
    counts = mnist["verdict"].str.extract(r"^([^(:]+)")[0].str.strip().value_counts()
    fewer = int(mnist["verdict"].str.contains(r"\(\d+ of \d+ seeds\)").sum())
    rows = mnist.drop_duplicates("setting")
    return (
        f"Of {len(mnist)} values printed for MNIST"
        f" {listed(f'{count} are {word}' for word, count in counts.items())}; of"
        f" {rows['clear pairs'].sum()} pairs of methods that the paper tells clearly apart"
        f" {rows['pairs in order'].sum()} stand in its order."
        + (f" {fewer} of the verdicts rest on fewer seeds than the paper's." if fewer else "")
    )


def table_2(apart: float | None) -> str:
    """How far the recipe's shares are from the printed ones; `apart`: the largest difference."""
    if apart is None:
        return "Without the data at hand, only the paper's own table can be shown."
    return (
        "The recipe gives every agent's shares of labels in distribution C as Table 2 prints them,"
        f" to within {100 * apart:.1f} points."
    )


def table_3(alone: pd.DataFrame) -> str:
    """When Alice is alone under both methods, and how often at the same time; `alone`:
    `claims.alone`.
    """
    ran = alone[alone["same time"].isin(["yes", "no"])]
    same = int((ran["same time"] == "yes").sum())
    words = [
        f"{row['distribution']}: {row['WE']} and {row['WAFFLE']}"
        for row in alone.to_dict("records")
    ]
    return (
        "Weight Erosion and WAFFLE leave Alice alone at about the same time on"
        f" {same} of {len(ran)} distributions (round by WE and by WAFFLE, {'; '.join(words)})."
    )


def figure_3(weights: Mapping[str, np.ndarray]) -> str:
    """From which share to which Alice's goes, and when she is alone.  `weights`: method -> [rounds,
    N].
    """
    words = []
    for method, of_method in weights.items():
        share = tables.shares(of_method)[:, ALICE]
        alone = tables.alone_from(of_method, ALICE)
        end = f"all of it from round {alone}" if alone else f"{share[-1]:.0%} in round {len(share)}"
        words.append(f"under {method}, from {share[0]:.0%} in round 1 to {end}")
    return f"Alice's share of the average goes, {'; '.join(words) or 'nowhere: no run is stored'}."


def speed(rounds: pd.DataFrame) -> str:
    """In which round WAFFLE and WE reach the same accuracy, and whether WAFFLE is faster.

    `rounds`: `claims.speed`.
    """
    words = []
    for row in rounds.to_dict("records"):
        if np.isnan(row["target"]):
            words.append(f"on {row['distribution']} it is not known (a run is missing or diverged)")
        else:
            words.append(
                f"on {row['distribution']} WAFFLE reaches {row['target']:.1f} % in round"
                f" {row['WAFFLE']}, WE in round {row['WE']}"
            )
    # The quick profile's word is "no answer".
    answered = rounds[rounds["faster"].str.match("yes|no(?! answer)")]
    earlier = int(answered["faster"].str.startswith("yes").sum())
    if len(answered):
        clear = f" WAFFLE is clearly faster on {earlier} of {len(rounds)}."
    else:
        clear = ""
    text = "; ".join(words)
    return f"{text[:1].upper()}{text[1:]}.{clear}"


def figure_8(curve: Mapping[int, float], slope: float) -> str:
    """Ω at the first, the middle and the last of some rounds; `curve`: round -> Ω."""
    words = [f"{degree:.2f} in round {r}" for r, degree in curve.items()]
    return f"With ΔΩ = {slope:g}, Ω is {listed(words)}."


def readings(read: pd.DataFrame) -> str:
    """What the second reading of each formula changes, in points of the best round.  `read`:
    `readings.accuracies`.
    """
    found = read.pivot(index="distribution", columns="reading", values="best round")
    found = found.reindex(read["distribution"].unique())
    words = []
    for first, second, name in (
        ("WAFFLE", "WAFFLE, c as printed", "c read as printed changes WAFFLE by"),
        ("APFL", "APFL, by round", "a mixture moved by whole rounds changes APFL by"),
    ):
        if {first, second} <= set(found.columns):
            change = (found[second] - found[first]).dropna()
            points = [f"{value:+.1f} points on {name}" for name, value in change.items()]
            words.append(f"{name} {listed(points).replace('-', '−')}")
    text = "; ".join(words) or "no two readings were run"
    return f"{text[:1].upper()}{text[1:]}."
