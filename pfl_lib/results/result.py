"""What one run gave."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfl_lib.errors import BadInput


@dataclass(repr=False)
class Result:
    """What one spec gave.

    `metrics`: tidy, one row per evaluated round and client whose model is read: round, client,
    accuracy (0 to 1), loss, and what the method logs (models_up, models_down: vectors of P numbers
    sent by and to all clients; alpha for APFL).  `weights`: the server's weights, [rounds, N], or
    [rounds, N, N] when every client has its own.  `diverged`: the round at which the loss became
    NaN or infinite; the run stopped there.  `seconds`: training and evaluation, over all sessions
    of a resumed run.  `model`: tensors of the served model by name, [evaluated_clients, ...], or
    [1, ...] where it is the same for all; None for published results, which carry no model.
    """

    config: dict[str, Any]
    metrics: pd.DataFrame
    weights: np.ndarray | None
    diverged: int | None
    seconds: float
    model: dict[str, Tensor] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        method, rounds = (
            self.config["method"]["name"],
            self.metrics["round"].max() if len(self.metrics) else 0,
        )
        end = (
            f"diverged in round {self.diverged}"
            if self.diverged is not None
            else f"last {self.last_accuracy:.2%}"
        )
        return (
            f"<Result of {method}: {rounds} rounds, accuracy best {self.best_accuracy:.2%}, {end};"
            " .metrics, .weights, .plot()>"
        )

    def accuracy_by_round(self) -> pd.Series:
        """Test accuracy (0 to 1) by round: Alice's where there is an Alice, else the mean over
        clients.
        """
        return self.metrics.groupby("round")["accuracy"].mean()

    @property
    def best_accuracy(self) -> float:
        """The best round's accuracy (0 to 1), as the WAFFLE paper reports it; nan if no round was
        evaluated.
        """
        return float(self.accuracy_by_round().max())

    @property
    def last_accuracy(self) -> float:
        """The last round's accuracy (0 to 1); nan if no round was evaluated."""
        accuracy = self.accuracy_by_round()
        return float(accuracy.iloc[-1]) if len(accuracy) else float("nan")

    def plot(self):
        """Draw accuracy by round, and the weights where there are any; returns the matplotlib
        figure.
        """
        from pfl_lib.display import figures

        figure, alt = figures.result_plot(self)
        figures.show(figure, alt)
        return figure

    def save_model(self, path: str | os.PathLike, client: int | None = None) -> Path:
        """Write the served model's state dict (torch.save) for a client whose model was read
        (default: Alice, or the only one).
        """
        evaluated_clients = sorted(int(c) for c in self.metrics["client"].unique())
        if self.model is None:
            raise BadInput(
                "this published result carries no model: ask for one that does with"
                " pfl_lib.run(..., with_model=True), which trains it here"
            )
        if client is None and len(evaluated_clients) == 1:
            client = evaluated_clients[0]
        if client not in evaluated_clients:
            raise BadInput(
                f"client {client!r} has no served model here: give one of"
                f" {', '.join(map(str, evaluated_clients))}"
            )
        one_for_all = all(len(value) == 1 for value in self.model.values())
        row = 0 if one_for_all else evaluated_clients.index(client)
        path = Path(path)
        if not path.parent.is_dir() or path.is_dir():
            raise BadInput(f"model file {path}: give a file's name in a folder that exists")
        torch.save({name: value[row].clone() for name, value in self.model.items()}, path)
        return path
