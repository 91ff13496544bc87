"""Local training: every client alone, the baseline that collaboration has to beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pfl_lib.federation import Federation
from pfl_lib.methods.fedavg import spread
from pfl_lib.rows import Rows, chosen, copies, model, replaced


@dataclass(frozen=True)
class Local:
    """Each client trains its own model on its own data, with the same rounds and local epochs as everybody else.

    WAFFLE, section 3: "local training using only Alice's dataset".  Where one client's model is read, she alone is trained.
    """

    name: ClassVar[str] = "local"
    title: ClassVar[str] = "Local"
    version: ClassVar[int] = 1

    def start(self, fed: Federation) -> dict[str, Tensor]:
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: dict[str, Tensor], r: int) -> tuple[dict[str, Tensor], dict]:
        readers = set(fed.readers)
        clients = [i for i in fed.participants(r) if i in readers]
        trained, _ = fed.train({name: chosen(matrix, clients) for name, matrix in state.items()}, r, clients)
        after = {name: replaced(state[name], clients, matrix) for name, matrix in trained.items()}
        log = {"models_up": 0, "models_down": 0}
        if fed.alice is not None:
            log["weights"] = spread(torch.ones(1), [fed.alice], len(fed))
        return after, log

    def served(self, fed: Federation, state: dict[str, Tensor]) -> Rows:
        return model(state)
