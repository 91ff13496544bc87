"""MOCHA (Smith et al. 2017) for networks: a model a client, with a penalty on their distance."""

import math
from dataclasses import dataclass

from torch import Tensor

from pfl_lib.errors import NOT_NEGATIVE, check_settings, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.progress import tell
from pfl_lib.rows import Rows, as_kept, copies, models_of, penalised, sgd, with_models


@dataclass(frozen=True)
class Mocha:
    """Multi-task learning: each client i trains its own w_i on f_i(w_i) + c (|W|^2 + tr(W Omega
    W^T)), with the clients' models as the columns of W.

    Omega = (I - 11^T/N)^2 makes the second term sum_i |w_i - mean w|^2 ("mean regularisation"), so
    that, the others' models held fixed, every local step is
        w_i <- w_i - lr (grad f_i(w_i) + 2c (w_i + (w_i - mean w))).

    * MOCHA itself is for convex models, with their dual problem and a learnt Omega.  FedFomo's
      MOCHA is LG-FedAvg's released code, which trains networks by SGD with this penalty.
    * c = `coefficient` x 10^-f with f = floor(log10 P + 1) + 1 for P parameters, as in that code;
      0 is local training.
    * That code's Omega takes a matrix of ones for I, by a slip: a constant matrix, which pulls the
      models' sum towards 0 and no two together.  Here I is the identity.
    * The others' models are those at the start of the round, so the order of clients cannot matter;
      those of clients that do not take part count too.
    * The penalty's gradient is added before weight decay and momentum.  Served is a client's own
      model.  A client uploads its model and receives the sum of the others'.
    """

    coefficient: float = setting(1.0, *NOT_NEGATIVE)

    name, title, version = "mocha", "MOCHA", 1
    served = as_kept
    __post_init__ = check_settings

    def start(self, fed: Federation) -> Rows:
        pull = 2 * self.coefficient * scale(fed.layout.P)
        if 0 < pull < 1e-4:  # of which no step of training is felt
            tell(f"{self.name} pulls clients together by {pull:.0e}: it is near local training")
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients, n = fed.participants(r), len(fed)
        double = 2 * self.coefficient * scale(fed.layout.P)

        def pull(rows: Rows) -> Tensor:
            mean = (rows["theta"] + rows["others"]) / n
            return double * (2 * rows["theta"] - mean)

        rows = models_of(state, clients)
        rows["others"] = state["theta"].sum(0) - rows["theta"]
        trained, _ = fed.train(rows, r, clients, penalised(pull) if double else sgd)
        log = {"models_up": len(clients), "models_down": len(clients)}
        return with_models(state, clients, trained), log


def scale(parameters: int) -> float:
    """10^-f with f = floor(log10 P + 1) + 1: 1e-7 for FedFomo's network of 122,570 parameters."""
    return 10.0 ** -(math.floor(math.log10(parameters) + 1) + 1)
