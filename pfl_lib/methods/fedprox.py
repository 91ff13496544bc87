"""FedProx (Li et al. 2020): FedAvg whose clients are held near the model they were given."""

from dataclasses import dataclass

from torch import Tensor

from pfl_lib.errors import NOT_NEGATIVE, check_settings, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.methods.fedavg import WEIGHTING, FedAvg, averaged_training
from pfl_lib.rows import Rows, Step, as_kept, penalised, sgd


@dataclass(frozen=True)
class FedProx:
    """FedProx, Algorithm 2: clients minimise f_i(y) + mu/2 ||y - x||^2, x the model of the round's
    start (Eq. 2); the server averages.

    * Local solver: the schedule's SGD, y <- y - lr (grad f_i(y) + mu (y - x)); the term is part of
      the gradient that momentum sees.  The paper's clients that stop early are not simulated.
    * `mu` 0.1 (our choice): FedFomo gives none, FedProx tunes among 0.001, 0.01, 0.1 and 1.
    * `weighting`: "size" as FedAvg, "uniform" as in Algorithm 2, where sizes decide who is drawn.
    """

    mu: float = setting(0.1, *NOT_NEGATIVE)
    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "fedprox", "FedProx", 1
    one_model = True  # the same for all clients
    start, served = FedAvg.start, as_kept
    __post_init__ = check_settings

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        return averaged_training(fed, state, r, self.weighting, held_near(state["theta"], self.mu))


def held_near(centre: Tensor, strength: float) -> Step:
    """A local step along the gradient of f(y) + strength/2 ||y - centre||^2, for a centre [P]."""
    if not strength:
        return sgd  # whatever the centre has become
    return penalised(lambda rows: strength * (rows["theta"] - centre))
