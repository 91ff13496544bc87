"""A result and the files it is kept in: checked when they are read."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfl_lib.errors import BadInput

LISTED = {"method", "dataset", "images", "partition", "schedule", "seed"}
"""What every stored configuration says, and `pfl-lib results list` shows."""


@dataclass(repr=False)
class Result:
    """What one cell gave.

    `metrics`: tidy, one row per evaluated round and client whose model is read: round, client, accuracy (0 to 1), loss, and what the
    method logs (models_up, models_down: vectors of P numbers sent by and to all clients; alpha for APFL).  `weights`: the server's weights,
    [rounds, N], or [rounds, N, N] when every client has its own.  `diverged`: the round at which the loss became NaN or infinite; the
    run stopped there.  `seconds`: training and evaluation, over all sessions of a resumed run.  `model`: tensors of the served model by
    name, [readers, ...], or [1, ...] where it is the same for all; None for published results, which carry no model.
    """

    config: dict[str, Any]
    metrics: pd.DataFrame
    weights: np.ndarray | None
    diverged: int | None
    seconds: float
    model: dict[str, Tensor] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        method, rounds = self.config["method"]["name"], self.metrics["round"].max() if len(self.metrics) else 0
        end = f"diverged in round {self.diverged}" if self.diverged is not None else f"last {self.last_accuracy:.2%}"
        return f"<Result of {method}: {rounds} rounds, accuracy best {self.best_accuracy:.2%}, {end}; .metrics, .weights, .plot()>"

    def accuracy_by_round(self) -> pd.Series:
        """Test accuracy (0 to 1) by round: Alice's where there is an Alice, else the mean over clients."""
        return self.metrics.groupby("round")["accuracy"].mean()

    @property
    def best_accuracy(self) -> float:
        """The best round's accuracy (0 to 1), as the WAFFLE paper reports it; nan if no round was evaluated."""
        return float(self.accuracy_by_round().max())

    @property
    def last_accuracy(self) -> float:
        """The last round's accuracy (0 to 1); nan if no round was evaluated."""
        accuracy = self.accuracy_by_round()
        return float(accuracy.iloc[-1]) if len(accuracy) else float("nan")

    def plot(self):
        """Draw accuracy by round, and the weights where there are any; returns the matplotlib figure."""
        from pfl_lib import figures

        figure, alt = figures.result_plot(self)
        figures.show(figure, alt)
        return figure

    def save_model(self, path: str | os.PathLike, client: int | None = None) -> Path:
        """Write the served model's state dict (torch.save) for a client whose model was read (default: Alice, or the only one)."""
        readers = sorted(int(c) for c in self.metrics["client"].unique())
        if self.model is None:
            raise BadInput(
                "this published result carries no model: ask for one that does with pfl_lib.run(..., with_model=True), "
                "which trains it here"
            )
        if client is None and len(readers) == 1:
            client = readers[0]
        if client not in readers:
            raise BadInput(f"client {client!r} has no served model here: give one of {', '.join(map(str, readers))}")
        one_for_all = all(len(value) == 1 for value in self.model.values())
        row = 0 if one_for_all else readers.index(client)
        path = Path(path)
        if not path.parent.is_dir() or path.is_dir():
            raise BadInput(f"model file {path}: give a file's name in a folder that exists")
        torch.save({name: value[row].clone() for name, value in self.model.items()}, path)
        return path


def write(result: Result, folder: Path) -> None:
    """Write a result's files into a new folder; config.json, which holds the others' checksums and its own, comes last."""
    folder.mkdir(parents=True)
    result.metrics.to_csv(folder / "metrics.csv", index=False)
    shape = None
    if result.weights is not None:
        shape = list(result.weights.shape)
        np.savetxt(folder / "weights.csv", result.weights.reshape(shape[0], -1), fmt="%.17g", delimiter=",")
    if result.model is not None:
        torch.save(result.model, folder / "model.pt")
    config = {
        **result.config,
        "diverged": result.diverged,
        "seconds": round(result.seconds, 3),
        "weights_shape": shape,
        "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
    }
    config["checksum"] = _checksum(config)
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def read(folder: Path, key: str | None = None) -> Result | None:
    """The result in a folder; None if there is none, or it is damaged, or has another key than this."""
    try:
        config = json.loads((folder / "config.json").read_text())
        # Results stored before config.json had a checksum of its own have none.
        if "checksum" in config and config.pop("checksum") != _checksum(config):
            return None
        files = config.pop("files")
        _, _, rounds = config["method"]["name"], config["partition"]["name"], config["schedule"]["rounds"]
        if not (isinstance(config["key"], str) and isinstance(rounds, int) and LISTED <= config.keys()):
            return None
        if config["key"] != (key or config["key"]):
            return None
        if any(_sha256(folder / name) != digest for name, digest in files.items()):
            return None
        # As text first: not every version of pandas reads a float back to its last bit.
        metrics = pd.read_csv(folder / "metrics.csv", dtype=str)
        metrics = metrics.astype({name: int if name in ("round", "client") else float for name in metrics.columns})
        shape, weights = config.pop("weights_shape"), None
        if shape is not None:
            weights = np.loadtxt(folder / "weights.csv", delimiter=",", ndmin=2).reshape(shape)
        model = torch.load(folder / "model.pt", weights_only=True) if "model.pt" in files else None
        return Result(config, metrics, weights, config.pop("diverged"), config.pop("seconds"), model)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError):
        return None


def _checksum(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
