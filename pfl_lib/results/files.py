"""A result and the files it is kept in: checked when they are read."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pfl_lib.results.result import Result

LISTED = {"method", "dataset", "images", "partition", "schedule", "seed"}
"""What every stored configuration says, and `pfl-lib results list` shows."""


def write(result: Result, folder: Path) -> None:
    """Write a result's files into a new folder; config.json, which holds the others' checksums and
    its own, comes last.
    """
    folder.mkdir(parents=True)
    result.metrics.to_csv(folder / "metrics.csv", index=False)
    shape = None
    if result.weights is not None:
        shape = list(result.weights.shape)
        np.savetxt(
            folder / "weights.csv", result.weights.reshape(shape[0], -1), fmt="%.17g", delimiter=","
        )
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
    """The result in a folder; None if there is none, or it is damaged, or has another key than
    this.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
        # Results stored before config.json had a checksum of its own have none.
        if "checksum" in config and config.pop("checksum") != _checksum(config):
            return None
        files = config.pop("files")
        _, _, rounds = (
            config["method"]["name"],
            config["partition"]["name"],
            config["schedule"]["rounds"],
        )
        if not (
            isinstance(config["key"], str) and isinstance(rounds, int) and LISTED <= config.keys()
        ):
            return None
        if config["key"] != (key or config["key"]):
            return None
        if any(_sha256(folder / name) != digest for name, digest in files.items()):
            return None
        # As text first: not every version of pandas reads a float back to its last bit.
        metrics = pd.read_csv(folder / "metrics.csv", dtype=str)
        metrics = metrics.astype(
            {name: int if name in ("round", "client") else float for name in metrics.columns}
        )
        shape, weights = config.pop("weights_shape"), None
        if shape is not None:
            weights = np.loadtxt(folder / "weights.csv", delimiter=",", ndmin=2).reshape(shape)
        model = torch.load(folder / "model.pt", weights_only=True) if "model.pt" in files else None
        return Result(
            config, metrics, weights, config.pop("diverged"), config.pop("seconds"), model
        )
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError):
        return None


def _checksum(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
