"""A result and the files it is kept in: checked when they are read."""

import csv
import errno
import hashlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pfl_lib.results.result import Result

LISTED = {"method", "dataset", "images", "partition", "schedule", "seed"}
"""What every stored configuration says, and `pfl-lib results list` shows."""

OUTCOME = {
    *("key", "device", "torch", "code", "processor", "finished", "source"),
    *("diverged", "seconds", "weights_shape", "bytes", "non_finite"),
}
"""What config.json says of a run beside its description, which the key stands for."""
BAD_FILE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RuntimeError),
    *(csv.Error, pickle.UnpicklingError, zipfile.BadZipFile),
)
"""What reading a file raises that is cut, altered or not ours."""
# Names in matrices.npz
MATRIX, MATRICES_ROUNDS, WEIGHTS_ROUNDS = "matrix ", "matrices rounds", "weights rounds"


def write(result: Result, folder: Path) -> None:
    """Write a result's files into a new folder; config.json, which holds the others' checksums and
    its own, comes last.
    """
    folder.mkdir(parents=True)
    result.metrics.to_csv(folder / "metrics.csv", index=False)
    shape = None
    if result.weights is not None and result.weights.ndim == 2:
        shape = list(result.weights.shape)
        np.savetxt(folder / "weights.csv", result.weights, fmt="%.17g", delimiter=",")
    if arrays := _arrays(result):
        np.savez_compressed(folder / "matrices.npz", **arrays)
    if result.model is not None:
        try:
            torch.save(result.model, folder / "model.pt")
        except RuntimeError as error:  # what torch raises on a full disk
            raise OSError(errno.ENOSPC, "no room for its model") from error
    config = {
        **result.config,
        "diverged": result.diverged,
        "seconds": round(result.seconds, 3),
        "weights_shape": shape,
        **_told(result),
        "files": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
    }
    config["checksum"] = _checksum(config)
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def read(folder: Path, key: str | None = None) -> Result | None:
    """The result in a folder; None if there is none, or it is damaged, or has another key than
    this.
    """
    return result_in(lambda name: (folder / name).read_bytes(), key)


def result_in(content: Callable[[str], bytes], key: str | None = None) -> Result | None:
    """The same of files by name, wherever they are; `content` raises OSError or KeyError for one
    that is not there.
    """
    try:
        config = json.loads(content("config.json"))
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
        if config["key"] != (key or config["key"]) or config["key"] != _key_in(config):
            return None
        held = {name: content(name) for name in files}
        if any(_digest(held[name]) != digest for name, digest in files.items()):
            return None
        metrics = _metrics(held["metrics.csv"].decode())
        shape, weights, weights_rounds = config.pop("weights_shape"), None, None
        if shape is not None:  # results stored before there was matrices.npz have [R, N, N], too
            text = io.BytesIO(held["weights.csv"])
            weights = np.loadtxt(text, delimiter=",", ndmin=2).reshape(shape)
        arrays = {}
        if "matrices.npz" in files:
            with np.load(io.BytesIO(held["matrices.npz"]), allow_pickle=False) as stored:
                arrays = dict(stored)
        weights = arrays.pop("weights", weights)
        weights_rounds = arrays.pop(WEIGHTS_ROUNDS, None)
        matrices_rounds = arrays.pop(MATRICES_ROUNDS, np.zeros(0, dtype=int))
        model = None
        if "model.pt" in held:
            model = torch.load(io.BytesIO(held["model.pt"]), weights_only=True)
        sent, non_finite = config.pop("bytes", None), config.pop("non_finite", {})
        matrices = {name.removeprefix(MATRIX): matrix for name, matrix in arrays.items()}
        return Result(
            config,
            metrics,
            weights,
            config.pop("diverged"),
            config.pop("seconds"),
            model,
            weights_rounds,
            matrices,
            matrices_rounds,
            None if sent is None else tuple(sent),
            {int(client): round for client, round in non_finite.items()},
        )
    except BAD_FILE:
        return None


def _metrics(text: str) -> pd.DataFrame:
    """What metrics.csv holds: whole numbers by round and client, the others to their last bit, as
    not every version of pandas reads them.
    """
    names, *rows = csv.reader(text.splitlines())
    columns = zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True)
    return pd.DataFrame(
        {
            name: np.array([int(word) for word in words], dtype=np.int64)
            if name in ("round", "client")
            else np.array([float(word or "nan") for word in words], dtype=float)
            for name, words in columns
        }
    )


def key_of(description: dict[str, Any]) -> str:
    """A run's key: SHA-256 of its description as canonical JSON."""
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _key_in(config: dict[str, Any]) -> str:
    """The key of the description that a stored config holds, beside what came of the run."""
    return key_of({name: value for name, value in config.items() if name not in OUTCOME})


def _arrays(result: Result) -> dict[str, np.ndarray]:
    """What matrices.npz holds: weights by client and client (or by layer), further matrices, and
    the rounds of both; of weights [rounds, N], whose numbers are in weights.csv, only rounds that
    are not 1, 2, 3, ...
    """
    arrays = {MATRIX + name: matrix.astype(np.float32) for name, matrix in result.matrices.items()}
    if arrays:
        arrays[MATRICES_ROUNDS] = np.asarray(result.matrices_rounds)
    if result.weights is None:
        return arrays
    rounds = np.asarray(result.weights_rounds)
    if result.weights.ndim > 2:
        arrays["weights"] = result.weights.astype(np.float32)
    if result.weights.ndim > 2 or not np.array_equal(rounds, np.arange(1, len(rounds) + 1)):
        arrays[WEIGHTS_ROUNDS] = rounds
    return arrays


def _told(result: Result) -> dict[str, Any]:
    """What config.json says where there is anything to say."""
    told = {
        "bytes": None if result.bytes is None else list(result.bytes),
        "non_finite": {str(client): round for client, round in result.non_finite.items()},
    }
    return {name: value for name, value in told.items() if value}


def _checksum(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return _digest(path.read_bytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
