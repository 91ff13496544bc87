"""What clients send and receive, beside what they reach by it."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.federation.participation import round_half_up
from pfl_lib.papers.runs import Runs

if TYPE_CHECKING:  # annotations only
    from pfl_lib.papers.settings import Setting
    from pfl_lib.results.result import Result

MB = 2**20
PLACE = ["dataset", "setting", "method"]
SENT = ("models down", "models up", "MB down", "MB up")


def per_round(runs: Runs) -> pd.DataFrame:
    """What one client receives and sends in a round that it takes part in, beside the accuracy.

    Columns dataset, setting, method, accuracy (percent: the table's protocol), models down and
    models up (vectors of the model's parameters), MB down and MB up (2**20 bytes, 4 bytes a
    number); means over rounds, clients and seeds, of the runs that ended well.
    """
    lines = []
    for run in runs.planned:
        result = runs.find(run.spec)
        if result is None or result.diverged is not None:
            continue
        place = {"dataset": run.row.dataset, "setting": run.row.setting, "method": run.column.name}
        accuracy = 100 * result.value("accuracy", run.table.protocol, run.table.over)
        sent = dict(zip(SENT, _per_client(result, run.row.at), strict=True))
        lines.append(place | {"accuracy": accuracy} | sent)
    frame = pd.DataFrame(lines, columns=[*PLACE, "accuracy", *SENT])
    return frame.groupby(PLACE, sort=False).mean().reset_index()


def _per_client(result: "Result", setting: "Setting") -> list[float]:
    part = max(1, round_half_up(setting.clients * setting.schedule.participation))
    by_round = result.metrics.groupby("round")[["models_down", "models_up"]].first()
    models = (by_round.mean() / part).tolist()
    up, down = result.bytes or (np.nan, np.nan)
    each = part * len(by_round) * MB
    return [*models, down / each, up / each]
