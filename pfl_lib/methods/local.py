"""Local training: every client alone, the baseline that collaboration has to beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pfl_lib.federation import Federation
from pfl_lib.rows import Rows, copies, model


@dataclass(frozen=True)
class Local:
    """Each client trains its own model on its own data, with the same rounds and local epochs as everybody else.

    WAFFLE, section 3: "local training using only Alice's dataset".  Where one client's model is read, she alone is trained.
    """

    name: ClassVar[str] = "local"
    title: ClassVar[str] = "Local"
    version: ClassVar[int] = 1

    def start(self, fed: Federation) -> dict[str, Tensor]:
        return {name: matrix.clone() for name, matrix in copies(fed.initial(), len(fed)).items()}

    def round(self, fed: Federation, state: dict[str, Tensor], r: int) -> tuple[dict[str, Tensor], dict]:
        clients = [i for i in fed.participants(r) if i in fed.readers]
        trained, _ = fed.train({name: matrix[clients] for name, matrix in state.items()}, r, clients)
        after = {name: matrix.clone() for name, matrix in state.items()}
        for name, matrix in trained.items():
            after[name][clients] = matrix
        weights = torch.eye(len(fed), dtype=torch.float64)
        return after, {
            "weights": weights if fed.alice is None else weights[fed.alice],
            "models_up": 0,
            "models_down": 0,
        }

    def served(self, fed: Federation, state: dict[str, Tensor]) -> Rows:
        return model(state)
