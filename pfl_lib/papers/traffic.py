"""What clients send and receive, beside what they reach by it."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.federation.participation import round_half_up
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table

if TYPE_CHECKING:  # annotations only
    from pfl_lib.papers.settings import Setting
    from pfl_lib.results.result import Result

MB = 2**20


def per_round(table: Table, profile: Profile, find: Find) -> pd.DataFrame:
    """What one client receives and sends in a round that it takes part in, beside the accuracy.

    Columns dataset, setting, method, accuracy (percent: the table's protocol), models down and
    models up (vectors of the model's parameters), MB down and MB up (2**20 bytes, 4 bytes a
    number); means over rounds, clients and seeds, NaN where nothing was run or a run diverged.
    """
    lines = []
    for row in table.rows:
        made = profile.make(row.at)
        part = table.only([row.setting], datasets=[row.dataset])
        results = part.results(find, profile)
        for column in part.columns:
            runs = results.get(column.name, [])
            if any(run.diverged is not None for run in runs):
                runs = []
            found = [_per_client(run, made) for run in runs]
            numbers = np.mean(found, axis=0) if found else np.full(4, np.nan)
            accuracy = [100 * run.value("accuracy", table.protocol, table.over) for run in runs]
            lines.append(
                {
                    "dataset": row.dataset,
                    "setting": row.setting,
                    "method": column.name,
                    "accuracy": np.mean(accuracy) if accuracy else np.nan,
                    **dict(
                        zip(
                            ("models down", "models up", "MB down", "MB up"),
                            numbers,
                            strict=True,
                        )
                    ),
                }
            )
    return profile.table(lines)


def _per_client(result: "Result", setting: "Setting") -> list[float]:
    part = max(1, round_half_up(setting.clients * setting.schedule.participation))
    by_round = result.metrics.groupby("round")[["models_down", "models_up"]].first()
    models = (by_round.mean() / part).tolist()
    up, down = result.bytes or (np.nan, np.nan)
    each = part * len(by_round) * MB
    return [*models, down / each, up / each]
