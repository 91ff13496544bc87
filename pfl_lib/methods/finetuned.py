"""FedAvg whose model each client trains on before use: what a personalised method should beat."""

from dataclasses import dataclass

import torch

from pfl_lib.errors import check_settings, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import MOST
from pfl_lib.methods.fedavg import WEIGHTING, FedAvg
from pfl_lib.rows import Rows, copies, model, with_models


@dataclass(frozen=True)
class FineTuned:
    """FedAvg; served is its model after `epochs` passes over the client's own data.

    * The passes are those with which the client would begin the next round: the same learning rate,
      momentum and weight decay, and, where local work is counted in epochs, the same batches.  They
      are lost again: FedAvg's own rounds are as without them.
    * `epochs` 0 is FedAvg.  `weighting` is FedAvg's.
    """

    epochs: int = setting(1, whole, 0, MOST)
    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "finetuned", "FedAvg, fine-tuned", 1
    __post_init__ = check_settings

    def cost(self, passes: float, read: float) -> float:
        """With a model served after every round."""
        return passes + self.epochs * read

    def start(self, fed: Federation) -> Rows:
        return {**fed.initial(), "next round": torch.tensor(1)}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        shared, log = FedAvg(self.weighting).round(fed, state, r)
        return {**shared, "next round": torch.tensor(r + 1)}, log

    def served(self, fed: Federation, state: Rows) -> Rows:
        if not self.epochs:
            return model(state)
        clients, r = fed.evaluated_clients, int(state["next round"])
        tuned, _ = fed.train(copies(state, len(clients)), r, clients, epochs=self.epochs)
        return with_models(copies(state, len(fed)), clients, tuned)
