"""What HeurpFedLA sends: Table 3's megabytes, counted from the network and from runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from pfl_lib.engine.layout import Layout
from pfl_lib.experiments.logs import BYTES
from pfl_lib.models import build
from pfl_lib.papers import values
from pfl_lib.papers.metrics import MEGABYTES, Metric

LEARNED = "learned choice / 8"  # the column of what our runs sent

if TYPE_CHECKING:  # annotations only
    from pfl_lib.results.result import Result

ROUNDS, CLIENTS = 600, 10
SLIP = 8
"""The printed megabytes are an eighth of what 600 rounds of ten clients send at 4 bytes a number:
3,000 bytes for each parameter of one model up and one down.  Bits and bytes seem to be mixed up.
"""
IMPLIED = {"EMNIST": ("fc3", "fc1"), "CIFAR10": ("fc1", "conv2", "fc3")}
"""The layers that the printed costs imply are retained, in order of k: they differ by these layers'
sizes.
"""
NETWORKS = {"EMNIST": ("pfedla_cnn", (1, 28, 28)), "CIFAR10": ("pfedla_cnn-norm", (3, 32, 32))}
CLASSES = 10  # of EMNIST too, by the size of its retained classifier, 84 x 10 + 10


def layers_of(model: str) -> list[str]:
    """The names of a network's layers, in the order of its weights [L, N, N]."""
    return [layer.name for layer in Layout.of(build(model, (3, 32, 32), CLASSES)).layers]


def printed_megabytes(result: "Result", protocol: str, over: str, model: str) -> float:
    """What a run sent, as the paper counts it: by round, times 600, divided by its slip of 8."""
    rounds = result.config["schedule"]["rounds"]
    return result.value("bytes") / rounds * ROUNDS / SLIP / 2**20


COMMUNICATION = Metric(
    MEGABYTES.name, "MB", MEGABYTES.floor, MEGABYTES.near, printed_megabytes, higher_is_better=False
)


def megabytes(dataset: str, retained: Sequence[str]) -> float:
    """What ten clients send and receive in 600 rounds where these layers are not downloaded."""
    model, shape = NETWORKS[dataset]
    layout = Layout.of(build(model, shape, CLASSES))
    kept = sum(layout.layer(name).size for name in retained)
    return ROUNDS * CLIENTS * BYTES * (2 * layout.P - kept) / 2**20


def costs() -> pd.DataFrame:
    """Table 3's communication: columns dataset, k, retained (the layers that the print implies),
    paper, counted / 8, counted (all in MB) and difference (counted / 8 less the paper's).
    """
    rows = []
    for dataset, order in IMPLIED.items():
        for k in range(len(order) + 1):
            at = (f"HeurpFedLA k={k}", "communication_MB")
            paper = values.value("pfedla", "table3", dataset, "non_iid_1_10_clients", *at).value
            counted = megabytes(dataset, order[:k])
            rows.append(
                {
                    "dataset": dataset,
                    "k": k,
                    "retained": ", ".join(order[:k]) or "none",
                    "paper": paper,
                    "counted / 8": counted / SLIP,
                    "counted": counted,
                    "difference": counted / SLIP - paper,
                }
            )
    return pd.DataFrame(rows)


def beside_runs(counted: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """`costs`, with a column `LEARNED` before the difference: what our runs sent, as the
    paper counts it (mean over seeds, MB; NaN where nothing ran).  `frame`: `Table.frame`.
    """
    ran = frame[(frame["metric"] == MEGABYTES.name) & (frame["status"] == "ran")]
    means = ran.groupby(["dataset", "method"])["value"].mean()
    places = zip(counted["dataset"], counted["k"], strict=True)
    learned = [means.get((dataset, f"HeurpFedLA k={k}"), float("nan")) for dataset, k in places]
    shown = counted.copy()
    shown.insert(shown.columns.get_loc("difference"), LEARNED, learned)
    return shown
