"""The sentence that answers each of pFedLA's pages, made from its numbers: none is typed in."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.papers.pfedla.weights import on

if TYPE_CHECKING:  # annotations only
    from pfl_lib.results.result import Result

OTHER_DATA = " (Other data than the paper's: no verdict.)"


def figure_5(brief: pd.DataFrame, found: Mapping[str, "Result"]) -> str:
    """For how many layers of each data set the target weighs its twin above the similar client
    above the rest.

    `brief`: `weights.nearest_first`; `found`: the runs, by data set, as in the next two.
    """
    if brief.empty:
        return "No run of this figure has weights."
    expected = brief["order"].eq("same > similar > others").groupby(brief["dataset"], sort=False)
    words = [
        f"{of.sum()} of {len(of)} layers on {on(dataset, found[dataset])}"
        for dataset, of in expected
    ]
    return (
        "In the last round the client with the same classes weighs more than the similar one, and"
        f" this more than the others, in {', '.join(words)}."
    )


def figure_6(table: pd.DataFrame, found: Mapping[str, "Result"]) -> str:
    """In how many layers of each data set self-weights are the highest, and how weights go with
    class distance.

    `table`: `weights.figure_6`.
    """
    if table.empty:
        return "No run of this figure has weights."
    words = []
    for dataset, rows in table.groupby("dataset", sort=False):
        pairs = rows["own weight highest"].str.split(" of ", expand=True)
        low, high = rows["rank correlation"].min(), rows["rank correlation"].max()
        words.append(
            f"{on(dataset, found[dataset])}, {(pairs[0] == pairs[1]).sum()} of {len(rows)} layers"
            f" (weights of others with class distance: rank correlation {low:+.2f} to {high:+.2f})"
        )
    return (
        f"Layers in which every client's own weight is the highest of its row: {'; '.join(words)}."
        " The paper's picture would give a correlation near -1."
    )


def figure_7(brief: pd.DataFrame, found: Mapping[str, "Result"]) -> str:
    """Which layer each data set keeps most to itself, against the paper's.

    `brief`: `weights.largest_layers`.
    """
    words = [
        f"{on(line['dataset'], found[line['dataset']])}, {line['largest here']}"
        f" (paper: {line['largest in the paper']})"
        for line in brief.to_dict("records")
    ]
    return f"The layer with the largest self-weight: {'; '.join(words) or 'none, nothing was run'}."


def answered(answers: pd.DataFrame) -> str:
    """How many of the sentences hold here.  `answers`: `claims.all_claims`."""
    counts = answers["here"].str.extract(r"^(yes|no answer|not run|no|undecided)")[0].value_counts()
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    own = answers["by the paper's own numbers"].value_counts()
    theirs = ", ".join(f"{count} {word}" for word, count in own.items() if word != "–")
    return (
        f"Of {len(answers)} sentences of the paper, by our runs: {words}; by the paper's own"
        f" printed numbers, where it prints any: {theirs}."
    )


def steps(accuracies: Mapping[str, float], own: Mapping[str, float]) -> str:
    """Where pFedLA lies between FedAvg and Local by its step.

    `accuracies`, `own`: column of `STEPS` to accuracy in percent, and to the mean self-weight.
    """
    words = [f"{name}, {accuracies[name]:.1f} % ({own[name]:.2f})" for name in own]
    ends = [f"{name} {accuracies[name]:.1f} %" for name in accuracies if name not in own]
    return (
        "The hypernetwork's step decides what pFedLA becomes; accuracy (and mean self-weight) by"
        f" step: {'; '.join(words) or 'nothing was run'}. Beside {' and '.join(ends) or 'none'}."
    )
