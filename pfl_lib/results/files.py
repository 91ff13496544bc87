"""A result and the files it is kept in: checked when they are read."""

import csv
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
from pfl_lib.results.writing import content_of

LISTED = {"method", "dataset", "images", "partition", "schedule", "seed"}
"""What every stored configuration says, and `pfl-lib results list` shows."""

OUTCOME = {
    *("key", "device", "torch", "code", "processor", "finished", "source", "split"),
    *("data", "initial", "names", "diverged", "seconds", "weights_shape", "bytes", "non_finite"),
}
"""What config.json says of a run beside its description, which the key stands for."""
BAD_FILE = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError),
    *(csv.Error, pickle.UnpicklingError, zipfile.BadZipFile),
)
"""What reading a file raises that is cut, altered or not ours."""
# Names in matrices.npz
MATRIX, MATRICES_ROUNDS, WEIGHTS_ROUNDS = "matrix ", "matrices rounds", "weights rounds"


def write(result: Result, folder: Path) -> None:
    """Write a result's files into a new folder."""
    folder.mkdir(parents=True)
    for name, content in files_of(result).items():
        (folder / name).write_bytes(content)


def files_of(result: Result) -> dict[str, bytes]:
    """A result's files by name; config.json, with the others' checksums and its own, is last."""
    files = {"metrics.csv": result.metrics.to_csv(index=False).encode()}
    is_table = result.weights is not None and result.weights.ndim == 2
    if is_table:
        files["weights.csv"] = content_of(
            lambda file: np.savetxt(file, result.weights, fmt="%.17g", delimiter=",")
        )
    if arrays := _arrays(result):
        files["matrices.npz"] = content_of(lambda file: np.savez_compressed(file, **arrays))
    if result.model is not None:
        # Not into the file: torch tells of a full disk by no OSError.
        files["model.pt"] = content_of(lambda file: torch.save(result.model, file))
    non_finite = {str(client): round for client, round in result.non_finite.items()}
    config = {
        **result.config,
        "diverged": result.diverged,
        "seconds": round(result.seconds, 3),
        "weights_shape": list(result.weights.shape) if is_table else None,
        **({"bytes": list(result.bytes)} if result.bytes else {}),
        **({"non_finite": non_finite} if non_finite else {}),
        "files": {name: sha256(content) for name, content in files.items()},
    }
    config["checksum"] = _checksum(config)
    return files | {"config.json": json.dumps(config, indent=1, sort_keys=True).encode() + b"\n"}


def read(folder: Path, key: str | None = None) -> Result | None:
    """The result in a folder; None for none, a damaged one, or one with another key than this."""
    return result_in(lambda name: (folder / name).read_bytes(), key)


def result_in(content: Callable[[str], bytes], key: str | None = None) -> Result | None:
    """The same of files by name; `content` raises OSError or KeyError for one not there."""
    try:
        config = json.loads(content("config.json"))
        if config.pop("checksum") != _checksum(config):
            return None
        files = config.pop("files")
        if not _describes_a_run(config) or config["key"] != (key or config["key"]):
            return None
        held = {name: content(name) for name in files}
        if any(sha256(held[name]) != checksum for name, checksum in files.items()):
            return None
        arrays, model = {}, None
        if "matrices.npz" in held:
            with np.load(io.BytesIO(held["matrices.npz"]), allow_pickle=False) as stored:
                arrays = dict(stored)
        shape = config.pop("weights_shape")
        if shape is not None:
            text = io.BytesIO(held["weights.csv"])
            arrays["weights"] = np.loadtxt(text, delimiter=",", ndmin=2).reshape(shape)
        if "model.pt" in held:
            model = torch.load(io.BytesIO(held["model.pt"]), weights_only=True)
            if not all(isinstance(tensor, torch.Tensor) for tensor in model.values()):
                return None
        sent, non_finite = config.pop("bytes", None), config.pop("non_finite", {})
        return Result(
            config,
            _metrics(held["metrics.csv"]),
            arrays.pop("weights", None),
            config.pop("diverged"),
            config.pop("seconds"),
            model,
            arrays.pop(WEIGHTS_ROUNDS, None),
            matrices_rounds=arrays.pop(MATRICES_ROUNDS, np.zeros(0, dtype=int)),
            matrices={name.removeprefix(MATRIX): matrix for name, matrix in arrays.items()},
            bytes=None if sent is None else tuple(sent),
            non_finite={int(client): round for client, round in non_finite.items()},
        )
    except BAD_FILE:
        return None


def _describes_a_run(config: dict[str, Any]) -> bool:
    """Whether a stored configuration says all that is listed, under the key of its description."""
    named = (config["method"]["name"], config["partition"]["name"], config["schedule"]["rounds"])
    described = {name: value for name, value in config.items() if name not in OUTCOME}
    is_listed = isinstance(named[-1], int) and LISTED <= config.keys()
    return is_listed and config["key"] == key_of(described)


def _metrics(table: bytes) -> pd.DataFrame:
    """What metrics.csv holds: whole numbers by round and client, the others to their last bit."""
    # Not by pandas, which fills rows that are cut, and in some versions loses the last bit.
    names, *rows = csv.reader(table.decode().splitlines())
    columns = {}
    for name, *texts in zip(names, *rows, strict=True):
        kind = np.int64 if name in ("round", "client") else float
        columns[name] = np.array([text or "nan" for text in texts], str).astype(kind)
    frame = pd.DataFrame(columns)
    if not {"accuracy", "loss"} <= {*frame} or frame.duplicated(["round", "client"]).any():
        raise ValueError("no table of metrics")
    return frame


def key_of(description: dict[str, Any]) -> str:
    """A run's key: SHA-256 of its description as canonical JSON."""
    return sha256(json.dumps(description, sort_keys=True, separators=(",", ":")).encode())


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


def _checksum(config: dict[str, Any]) -> str:
    return sha256(json.dumps(config, sort_keys=True).encode())


def sha256(content: bytes) -> str:
    """The checksum of some bytes, in hex digits."""
    return hashlib.sha256(content).hexdigest()
