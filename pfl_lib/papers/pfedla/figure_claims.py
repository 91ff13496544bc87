"""What pFedLA says of its Figures 1, 5, 6 and 7, and whether our runs show it.

The paper prints no numbers there.  Sentences about weights are answered from one run of each data
set, as the paper's figures show one: *yes* where every weight that should be larger is so by more
than `FLOOR`, *no* where one is smaller by more, else *undecided*; *not run* without a run.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.papers.claims import QUICK, answer
from pfl_lib.papers.pfedla import FIGURE5, FIGURE6, FIGURE7, toy, weights
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table

if TYPE_CHECKING:  # annotations only
    from pfl_lib.results.result import Result

FLOOR = 0.01
"""A hundredth of a client's weight: the smallest difference between weights that answers."""
CLEARLY = -0.5  # rank correlation


def larger(leads: list[float]) -> bool | None:
    """Whether all of these differences of weights are above `FLOOR` (True), one is as far below
    zero (False), or neither.
    """
    if any(lead < -FLOOR for lead in leads):
        return False
    return True if leads and all(lead > FLOOR for lead in leads) else None


def judged(table: Table) -> Table:
    """Without the rows for which other data stand in: they answer nothing about the paper's."""
    return replace(table, rows=tuple(row for row in table.rows if not row.stands_in))


def about_figures(profile: Profile, find: Find) -> pd.DataFrame:
    """A row for each sentence; columns as of `claims.answers`.  "numbers here" holds, by data set,
    the smallest of the differences of weights that should be above zero.
    """
    table5 = weights.figure_5(weights.results(judged(FIGURE5), profile, find), profile)
    six = weights.results(judged(FIGURE6), profile, find)
    table6 = weights.figure_6(six, judged(FIGURE6), profile)
    table7 = weights.figure_7(weights.results(judged(FIGURE7), profile, find), profile)
    lines = [
        *about_toy(profile, find),
        _line(
            profile,
            "the inter-weights from other clients decrease with the training process [mean over"
            " layers]",
            "4.3",
            {
                name: [_by_period(rows, "own", "last") - _by_period(rows, "own", "prior")]
                for name, rows in _of_each(table5)
            },
        ),
        _line(
            profile,
            "clients with more similar data distribution (e.g., the same labels client) have higher"
            " weight value than other clients (e.g., the similar client) [mean over layers, in the"
            " end]",
            "4.3",
            {name: _order(rows) for name, rows in _of_each(table5)},
        ),
        _close(profile, table6),
        _line(
            profile,
            "the self-weights of each client have the highest values [in the layer where this is"
            " clearest]",
            "4.3",
            {name: [max(self_leads(result))] for name, result in six.items()},
        ),
        _line(
            profile,
            "For the CIFAR10 dataset, the weights of the first fully-connected layer have the"
            " highest values [mean over clients]",
            "4.4",
            {name: _largest(rows) for name, rows in _of_each(table7)},
        ),
    ]
    return profile.table(lines)


def self_leads(result: "Result") -> list[float]:
    """By how much a client's own weight is above the largest other in its row, in the last round:
    for each layer, that of the client for whom it is least.
    """
    own = np.eye(result.weights.shape[-1], dtype=bool)
    last = np.float64(result.weights[-1])
    leads = last[:, own] - np.where(own, -np.inf, last).max(-1)
    return [float(lead) for lead in leads.min(-1)]


def _of_each(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return list(table.groupby("dataset", sort=False)) if len(table) else []


def _by_period(rows: pd.DataFrame, column: str, period: str) -> float:
    return float(rows.loc[rows["period"] == period, column].mean())


def _order(rows: pd.DataFrame) -> list[float]:
    columns = ("same classes", "similar classes", "others")
    same, similar, others = (_by_period(rows, column, "last") for column in columns)
    return [same - similar, similar - others]


def _largest(rows: pd.DataFrame) -> list[float]:
    own = rows.set_index("layer")["all clients"]
    return [float(own["fc1"] - own.drop("fc1").max())]


def _close(profile: Profile, table: pd.DataFrame) -> dict[str, str]:
    """The paper shows one layer and does not say which: some layer has to show it."""
    holds, told = [], []
    for name, rows in _of_each(table):
        apart = [
            column for column in rows if column.endswith(" apart") and rows[column].notna().all()
        ]
        lead = rows[apart[0]] - rows[apart[-1]]
        clear = rows["rank correlation"] < CLEARLY
        found = True if (clear & (lead > FLOOR)).any() else None
        found = False if (lead < -FLOOR).all() else found
        holds.append(found)
        best = rows.loc[rows["rank correlation"].fillna(1).idxmin()]
        told.append(
            f"{name}: {_word(found)} (rank correlation {best['rank correlation']:+.2f} in"
            f" {best['layer']})"
        )
    return _row(
        profile,
        "the weights among close clients [...] are larger than those of the distant clients [in"
        " some layer: rank correlation with class distance below -0.5]",
        "4.3",
        answer(holds),
        "; ".join(told),
    )


def about_toy(profile: Profile, find: Find) -> list[dict[str, str]]:
    """The two sentences about Figure 1, rows as of `about_figures`; the toy's own seeds and size of
    this profile.
    """
    own = toy.PROFILES[profile.name]
    lead, kept = toy.leads(own, find), toy.own_weights(own, find)
    told = []
    for line in lead.to_dict("records"):
        margin = "" if np.isnan(line["plus or minus"]) else f" ± {line['plus or minus']:.2f}"
        told.append(f"{line['whose']}: {line['lead']:+.2f}{margin} points, seeds: {line['seeds']}")
    return [
        _row(
            profile,
            "higher model accuracy can be achieved by the layer-wised approach comparing with the"
            " model-wised one for a certain client",
            "1",
            answer(lead.loc[lead["whose"] == "client 0", "above"]),
            "; ".join(told),
        ),
        _line(
            profile,
            "the first and second fully-connected layer (i.e., FC1, FC2) on client 1 have larger"
            " weights, while the second convolution layer, i.e., Conv1 layer has smaller weights"
            " [beside the mean over layers]",
            "1",
            {"CIFAR10": leads} if (leads := toy.layer_leads(kept)) else {},
        ),
    ]


def _line(
    profile: Profile, quote: str, where: str, leads: Mapping[str, list[float]]
) -> dict[str, str]:
    """The answer from differences of weights by data set."""
    holds = {name: larger(of) for name, of in leads.items()}
    told = "; ".join(f"{name}: {_word(holds[name])} ({min(of):+.2f})" for name, of in leads.items())
    return _row(profile, quote, where, answer(holds.values()), told)


def _word(holds: bool | None) -> str:
    return {True: "yes", False: "no", None: "open"}[holds]


def _row(profile: Profile, quote: str, where: str, word: str, told: str) -> dict[str, str]:
    return {
        "claim": quote,
        "where": f"section {where}",
        "here": QUICK if profile.name == "quick" else word if told else "not run",
        "by the paper's own numbers": "–",
        "numbers here": told or "none",
        "not confirmed here": "–",
    }
