"""The results that come with the checkout: few text files (`volumes`), or a folder a run as in
one's own results folder.
"""

import copy
import dataclasses
import os
import tempfile
from pathlib import Path

import numpy as np

from pfl_lib.errors import BadInput
from pfl_lib.results.files import read, result_in, write
from pfl_lib.results.result import Result
from pfl_lib.results.volumes import Volumes

MOST_NUMBERS = 16_000
"""Of a run's weights, or of one of its matrices, by client and client: 64 kB as float32."""
SMALL_MODEL = 1_000
"""Numbers of a model that is published where a page shows it."""


class Published:
    """The published results of one folder; of none, there are none."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._volumes = None if folder is None else Volumes(folder)
        self._read: dict[str, tuple[str, Result | None]] = {}

    def find(self, slug: str, key: str | None = None) -> Result | None:
        """The result of that name; None if there is none, or it is damaged, or has another key."""
        if self.folder is None:
            return None
        if found := read(self.folder / slug, key):
            return found
        line = self._volumes.line(slug)
        if line is None:
            return None
        if slug not in self._read or self._read[slug][0] is not line:
            # Pages ask for the same runs again and again, and reading one takes ten milliseconds.
            files = self._volumes.files(slug)
            self._read[slug] = line, result_in(files.__getitem__) if files else None
        result = self._read[slug][1]
        of_key = result is not None and key in (None, result.config["key"])
        return copy.deepcopy(result) if of_key else None

    def places(self) -> dict[str, Path]:
        """Every run's name, and the folder or the file that holds it."""
        if self.folder is None:
            return {}
        folders = {path.name: path for path in self.folder.glob("[!.]*") if path.is_dir()}
        return {slug: self._volumes.path(slug) for slug in self._volumes.names()} | folders

    def put(self, slug: str, result: Result, with_model: bool = False) -> bool:
        """Add a result; False where it is there already, with its model if that is to come along.

        It comes without its model, unless `with_model` and that has at most `SMALL_MODEL` numbers.
        Of weights and matrices by client and client `MOST_NUMBERS` are kept at most: of evenly
        spaced ones of their rounds, two at least, the first and the last among them.  Raises
        BadInput where the folder cannot be written.
        """
        if self.folder is None:
            return False
        small = sum(tensor.numel() for tensor in (result.model or {}).values()) <= SMALL_MODEL
        model = result.model if with_model and small else None
        there = self.find(slug, result.config["key"])
        if there and (there.model or not model):
            return False
        try:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) / "run"
                write(dataclasses.replace(thinned(result), model=model), folder)
                files = {path.name: path.read_bytes() for path in folder.iterdir()}
            self._volumes.put(slug, files)
        except OSError as error:
            raise BadInput(
                f"{slug} cannot be published in {self.folder}"
                f" ({error.strerror or os.strerror(error.errno)})"
            ) from None
        return True


def thinned(result: Result) -> Result:
    """The result with at most `MOST_NUMBERS` numbers of weights and of each matrix by client and
    client, of evenly spaced rounds, the first and the last among them; each kept number as it is.
    """
    weights, rounds, matrices, at = (
        result.weights,
        result.weights_rounds,
        result.matrices,
        result.matrices_rounds,
    )
    if weights is not None and weights.ndim > 2:
        kept = _evenly(len(weights), weights[0].size)
        weights, rounds = weights[kept], np.asarray(rounds)[kept]
    if matrices:
        kept = _evenly(len(at), max(matrix[0].size for matrix in matrices.values()))
        matrices = {name: matrix[kept] for name, matrix in matrices.items()}
        at = np.asarray(at)[kept]
    return dataclasses.replace(
        result, weights=weights, weights_rounds=rounds, matrices=matrices, matrices_rounds=at
    )


def _evenly(rounds: int, numbers: int) -> np.ndarray:
    most = min(rounds, max(2, MOST_NUMBERS // max(1, numbers)))
    return np.unique(np.linspace(0, rounds - 1, most).round().astype(int))
