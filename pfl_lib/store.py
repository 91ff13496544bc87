"""Where results live: one folder a cell, written whole or not at all, checked when read."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfl_lib.errors import BadInput

PUBLISHED = Path(__file__).resolve().parent.parent / "reports" / "published"
"""Results that come with the checkout; read after the user's own, never written by a run."""


@dataclass
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
        torch.save({name: value[row].clone() for name, value in self.model.items()}, path)
        return Path(path)


class Store:
    """A results folder, and below it, read-only, the results published with the checkout."""

    def __init__(self, results_dir: str | os.PathLike | None = None, published: Path | None = PUBLISHED) -> None:
        self.root = Path(results_dir).expanduser().absolute() if results_dir else default_results_dir()
        self.published = published

    def find(self, cell, with_model: bool = False) -> Result | None:
        """The cell's result, or None if there is none or it is damaged (then it will be run again).

        `with_model`: only a result that carries its model, which published ones do not.
        """
        found = (_entry(folder, cell) for folder in self._folders())
        return next((result for result in found if result and (result.model or not with_model)), None)

    def save(self, cell, result: Result) -> None:
        """Write a result; a reader sees all of it or nothing.  Raises BadInput if the folder cannot be written."""
        self.check_writable()
        cells = self.root / "cells"
        with tempfile.TemporaryDirectory(dir=cells, prefix=".") as temporary:
            new, target = Path(temporary) / "cell", cells / cell.slug
            write(result, new)
            for _ in range(2):
                # The place may be taken: by another process, with the same bits, or by an entry that is damaged or has no model
                # where this one has: that goes.
                with contextlib.suppress(OSError):
                    new.rename(target)
                there = _entry(cells, cell)
                if there and (there.model or not result.model):
                    break
                with contextlib.suppress(OSError):
                    target.rename(Path(temporary) / "worse")
            else:
                new.rename(target)
        self.checkpoint_path(cell).unlink(missing_ok=True)

    def publish(self, cell) -> bool:
        """Copy a stored result, without its model, into the published folder; False if it is there already or not stored."""
        result = _entry(self.root / "cells", cell)
        if result is None or self.published is None or _entry(self.published, cell) is not None:
            return False
        try:
            self.published.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.published, prefix=".") as temporary:
                write(dataclasses.replace(result, model=None), Path(temporary) / "cell")
                (Path(temporary) / "cell").rename(self.published / cell.slug)
        except OSError as error:
            raise BadInput(f"{cell.slug} cannot be published in {self.published} ({error.strerror})") from None
        return True

    def cells(self) -> Iterator[dict[str, Any]]:
        """The configurations of all results, the user's own first."""
        seen = set()
        for folder in self._folders():
            for entry in sorted(folder.glob("*/config.json")):
                result = _read(entry.parent)
                if result is not None and result.config["key"] not in seen:
                    seen.add(result.config["key"])
                    yield result.config

    def checkpoint_path(self, cell) -> Path:
        return self.root / "checkpoints" / f"{cell.slug}.pt"

    def save_checkpoint(self, cell, state: dict[str, Any]) -> None:
        path, content = self.checkpoint_path(cell), io.BytesIO()
        torch.save(state, content)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as temporary:
            new = Path(temporary) / path.name
            with new.open("wb") as file:
                # torch.load does not notice altered numbers, so their checksum goes first.
                file.write(hashlib.sha256(content.getbuffer()).digest())
                file.write(content.getbuffer())
            new.replace(path)

    def load_checkpoint(self, cell) -> dict[str, Any] | None:
        """What was saved last, or None if there is none or it is damaged: then start from round 1."""
        try:
            content = memoryview(self.checkpoint_path(cell).read_bytes())
        except OSError:
            return None
        digest, content = content[:32], content[32:]
        if hashlib.sha256(content).digest() != digest:
            return None
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)

    def check_writable(self) -> None:
        """Make the folders; BadInput if that, or writing into them, fails."""
        try:
            for folder in ("cells", "checkpoints"):
                (self.root / folder).mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self.root / folder):
                    pass
        except OSError as error:
            raise BadInput(
                f"results folder {self.root} cannot be written ({error.strerror}): give another one with --results-dir"
            ) from None

    def _folders(self) -> list[Path]:
        return [self.root / "cells"] + ([self.published] if self.published else [])


def default_results_dir() -> Path:
    """PFL_RESULTS_DIR, else `results` in the checkout this package is run from, else `results` here."""
    chosen = os.environ.get("PFL_RESULTS_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    checkout = Path(__file__).resolve().parent.parent
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "results"


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


def _entry(folder: Path, cell) -> Result | None:
    result = _read(folder / cell.slug)
    return result if result is not None and result.config["key"] == cell.key else None


def _read(folder: Path) -> Result | None:
    try:
        config = json.loads((folder / "config.json").read_text())
        # Results stored before config.json had a checksum of its own have none.
        if "checksum" in config and config.pop("checksum") != _checksum(config):
            return None
        files = config.pop("files")
        if "key" not in config or any(_sha256(folder / name) != digest for name, digest in files.items()):
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
