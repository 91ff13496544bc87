"""What FedFomo says about Tables 1, 2, 5 and Figure 3, for the scorecard; the pages answer from
`claims.yaml` and in their own cells.
"""

import math
from collections.abc import Iterable
from itertools import combinations, pairwise

import pandas as pd

from pfl_lib.papers.claims import (
    QUICK,
    Claim,
    about_table,
    answer,
    answers,
    every_pair,
    with_seeds,
)
from pfl_lib.papers.fedfomo import (
    D5,
    DOWNLOADS,
    EPSILONS,
    FIGURE3,
    METHODS,
)
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table, gathered
from pfl_lib.papers.verdicts import Printed
from pfl_lib.results.summary import common

OURS = ("FedFomo (n=5)", "FedFomo (n=10)")
OTHERS = tuple(name for name in METHODS if name not in OURS)
GLOBAL = ("FedAvg", "FedAvg + Data", "FedProx")  # one model for all clients
PERSONALISED = tuple(name for name in OTHERS if name not in (*GLOBAL, "Local Training"))
"""The others whose clients learn from each other, each with a model of its own."""


def _latent(*groups: int) -> list[str]:
    return [f"latent_D{d}_15_clients" for d in groups]


TABLE_1 = (
    Claim(
        "FedFomo strongly outperforms alternative methods in settings with larger number clients",
        "section 4, Pathological Non-IID",
        every_pair(["pathological_100_clients"], OURS, OTHERS),
    ),
    Claim(
        "methods that try to train a single robust model [...] notably do not perform better than"
        " local training alone",
        "section 4, Pathological Non-IID",
        every_pair(
            ["pathological_15_clients", "pathological_100_clients"], ["Local Training"], GLOBAL
        ),
    ),
)
TABLE_2 = (
    Claim(
        "[FedFomo] outperforms both [local training and FedAvg] in moderately non-IID settings (EMD"
        " ∈ [1,2])",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(2, 3, 4), OURS, ("Local Training", "FedAvg")),
    ),
    Claim(
        "[in the most extreme non-IID case] strongly outperforming FedAvg",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(10), OURS, ["FedAvg"]),
    ),
    Claim(
        "higher performance most convincingly come from methods that do not rely on a single model",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(2, 3, 4, 5, 10), (*PERSONALISED, *OURS), GLOBAL),
        best=True,  # where the highest accuracies come from is said, not that all are higher
    ),
    Claim(
        "our method strongly outperforms others in highly non-IID settings",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(5, 10), OURS, OTHERS),
    ),
    Claim(
        "FedFomo also outperforms personalizing-component and multi-model approaches (MOCHA and"
        " LG-FedAvg)",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(2, 3, 4, 5, 10), OURS, ("MOCHA", "LG-FedAvg")),
    ),
)
TABLE_5 = (
    Claim(
        "[our method] handily outperforms others as we increase this statistical label"
        " heterogeneity",
        "appendix A.2",
        every_pair(
            _latent(5, 10),
            OURS,
            ["Clustered FL" if name == "CFL" else name for name in OTHERS],
        ),
    ),
)
DOWNLOADED = (
    Claim(
        "With fixed ε, greater M led to higher performance",
        "section 4, Exploration",
        tuple((D5, f"M = {more}", f"M = {fewer}") for fewer, more in pairwise(DOWNLOADS)),
    ),
)


ABOUT = {"table1": TABLE_1, "table2": TABLE_2, "table5": TABLE_5}


def about_tables(tables: Iterable[Table], profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to the sentences about Tables 1, 2 or 5, a row for each sentence and data set;
    columns table, dataset and those of `claims.answers`.
    """
    found = []
    for table in tables:
        for dataset in dict.fromkeys(row.dataset for row in table.rows):
            part = table.only(datasets=[dataset])
            answered = about_table(ABOUT[table.name], part, profile, find)
            answered.insert(0, "dataset", dataset)
            answered.insert(0, "table", table.name.removeprefix("table"))
            found.append(answered)
    return profile.table(pd.concat(found, ignore_index=True))


def ablations(profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to what is said about Figure 3, as `claims.answers` gives them: that more downloads
    help, and that epsilon does not matter.

    The paper prints no numbers, so fewer than three seeds leave the first open.  The second is
    answered "yes" where accuracies neither rise nor fall all the way with epsilon, each step by
    more than 0.4 points, and needs three seeds too.
    """
    ours = _of_figure(FIGURE3, profile, find)
    answered = answers(DOWNLOADED, profile, ours, dict.fromkeys(ours, Printed(0.0, math.nan)))
    chain = [ours[D5, f"ε = {epsilon:g}"] for epsilon in EPSILONS]
    steps = [after.mean - before.mean for before, after in pairwise(chain)]
    trend = all(step > ACCURACY.floor for step in steps) or all(
        step < -ACCURACY.floor for step in steps
    )
    enough = min(len(common(*pair)) for pair in combinations(chain, 2)) >= 3
    word = answer([not trend if enough and not any(map(math.isnan, steps)) else None])
    line = {
        "claim": "We did not find consistent correlation between ε and model performance",
        "where": "section 4, Exploration",
        "here": QUICK
        if profile.name == "quick"
        else with_seeds(word, list(pairwise(chain)), profile),
        "numbers here": ", ".join(
            f"ε = {epsilon:g} {one.mean:.2f}" if one.ran else f"ε = {epsilon:g} {one.status}"
            for epsilon, one in zip(EPSILONS, chain, strict=True)
        ),
        "not confirmed here": "–",
    }
    together = pd.concat([answered, pd.DataFrame([line])], ignore_index=True)
    return profile.table(together.drop(columns="by the paper's own numbers"))


def _of_figure(table: Table, profile: Profile, find: Find) -> dict:
    frame = table.frame(profile, find)
    return gathered(frame[frame["protocol"] == table.protocol], ["setting", "method"])
