"""Two baselines that WAFFLE's Table 1 does not have: Ditto, which the paper names as future work,
and FedAvg's model after Alice's own local epoch, which every personalised method should beat.
"""

import pandas as pd

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import Ditto, FineTuned
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Column, Table, gathered
from pfl_lib.papers.waffle import PAPER, TABLE1

TABLE = Table(
    PAPER,
    "baselines",
    rows=TABLE1.only(datasets=["MNIST"]).rows,
    columns=(
        Column("FedAvg, fine-tuned", FineTuned(weighting="uniform")),
        Column("Ditto", Ditto(weighting="uniform")),
    ),
    values={},  # the paper prints none
)


def with_table_1(profile: Profile) -> tuple[RunSpec, ...]:
    """Table 1's runs, then those of the two baselines."""
    return TABLE1.runs(profile) + TABLE.runs(profile)


def accuracies(profile: Profile, store) -> pd.DataFrame:
    """A row for each distribution and baseline.

    Columns setting, method, ours, ours std (best round, mean and standard deviation over seeds,
    percent), last round, seeds and status; there is no printed value and no verdict.
    """
    ours = gathered(TABLE.frame(profile, store.find), ["protocol", "setting", "method"])
    rows = [
        {
            "setting": setting,
            "method": method,
            "ours": found.mean,
            "ours std": found.std,
            "last round": ours["last", setting, method].mean,
            "seeds": len(found.seeds),
            "status": found.status,
        }
        for (protocol, setting, method), found in ours.items()
        if protocol == "best"
    ]
    return profile.table(rows)
