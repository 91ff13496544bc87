"""Federated Averaging (McMahan et al. 2017): the server averages what clients have trained."""

from dataclasses import dataclass

from torch import Tensor

from pfl_lib.errors import check_settings, choose, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.rows import Rows, Step, as_kept, average, copies, each_sends_a_model, sgd, uniform

WEIGHTING = (choose, ("size", "uniform"))


@dataclass(frozen=True)
class FedAvg:
    """x <- sum_i w_i y_i over the round's participants (McMahan et al. 2017, Algorithm 1).

    `weighting`: "size" gives w_i = n_i / sum n, the paper's; "uniform" gives 1/n, as WAFFLE's and
    Weight Erosion's benchmarks do [the code of WAFFLE's first author averages without sizes].
    """

    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "fedavg", "FedAvg", 1
    one_model = True  # the same for all clients
    look = ("#0173b2", "o", "--")
    served = as_kept
    __post_init__ = check_settings

    def start(self, fed: Federation) -> Rows:
        return fed.initial()

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        return averaged_training(fed, state, r, self.weighting)


def averaged_training(
    fed: Federation, state: Rows, r: int, weighting: str, step: Step = sgd
) -> tuple[Rows, dict]:
    """The round's participants train the shared model; their average, and the log."""
    clients = fed.participants(r)
    trained, _ = fed.train(copies(state, len(clients)), r, clients, step)
    weights = averaging_weights(weighting, fed.sizes(clients))
    return average(weights, trained), each_sends_a_model(weights, clients, len(fed))


def averaging_weights(weighting: str, sizes: Tensor) -> Tensor:
    """The participants' weights [n], float64: n_i / sum n for "size", 1/n for "uniform"."""
    return uniform(len(sizes)) if weighting == "uniform" else sizes / sizes.sum()
