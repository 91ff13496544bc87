"""Ditto (Li et al. 2021): a model of each client's own, held near the shared one."""

from dataclasses import dataclass

from pfl_lib.errors import NOT_NEGATIVE, BadInput, check_settings, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.methods.fedavg import WEIGHTING, FedAvg
from pfl_lib.methods.fedprox import held_near
from pfl_lib.rows import Rows, copies, models_of, personal, personal_models, with_models


@dataclass(frozen=True)
class Ditto:
    """Ditto, Algorithm 1: beside FedAvg's model w, every client trains one of its own, v.

    client:  v <- v - lr (grad f(v) + lambda (v - w)), with w as received;  server:  FedAvg of the
    w's.   Served is v.

    * `strength` is lambda; 0 is local training.  The paper tunes it for each data set; 0.1 here.
    * v starts at the common initial model, and takes as many steps as w, on the same batches.
    * Only clients whose model is read keep and train a v.
    * `weighting` is FedAvg's.
    """

    strength: float = setting(0.1, *NOT_NEGATIVE)
    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "ditto", "Ditto", 1
    __post_init__ = check_settings

    def cost(self, passes: float, read: float) -> float:
        return passes * (1 + read)

    def start(self, fed: Federation) -> Rows:
        if fed.schedule.private:
            raise BadInput(f"{self.title} trains a client's two models on one noise: no DP-SGD")
        # Personal models are those of the evaluated clients, in their order.
        return fed.initial() | personal(copies(fed.initial(), len(fed.evaluated_clients)))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        shared, log = FedAvg(self.weighting).round(fed, state, r)
        there = set(fed.participants(r))
        place = {i: k for k, i in enumerate(fed.evaluated_clients) if i in there}
        own, before = list(place.values()), personal_models(state)
        step = held_near(state["theta"], self.strength)
        trained, _ = fed.train(models_of(before, own), r, list(place), step, uploaded=())
        return shared | personal(with_models(before, own, trained)), log

    def served(self, fed: Federation, state: Rows) -> Rows:
        return with_models(copies(state, len(fed)), fed.evaluated_clients, personal_models(state))
