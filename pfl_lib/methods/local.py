"""Local training: every client alone, the baseline that collaboration has to beat."""

from dataclasses import dataclass

import torch

from pfl_lib.federation.federation import Federation
from pfl_lib.rows import Rows, as_kept, copies, models_of, weights_of_all, with_models


@dataclass(frozen=True)
class Local:
    """Each client trains its own model on its own data, for as many rounds and local epochs.

    WAFFLE, section 3: "local training using only Alice's dataset".  Where only Alice's model
    is read, she alone is trained.
    """

    name, title, version = "local", "Local", 1
    look = ("#949494", "x", ":")
    served = as_kept

    def cost(self, passes: float, read: float) -> float:
        return passes * read

    def start(self, fed: Federation) -> Rows:
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        evaluated_clients = set(fed.evaluated_clients)
        clients = [i for i in fed.participants(r) if i in evaluated_clients]
        trained, _ = fed.train(models_of(state, clients), r, clients, uploaded=())
        log = {"models_up": 0, "models_down": 0}
        if fed.alice is not None:
            log["weights"] = weights_of_all(torch.ones(1), [fed.alice], len(fed))
        return with_models(state, clients, trained), log
