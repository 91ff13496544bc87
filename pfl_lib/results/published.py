"""The results that come with the checkout, in few text files: one for each method and data set, a
line a run.

A line holds the very files of a result (`files.files_of`), tables compressed (they are most of it:
a row a client and round), all but config.json in base 85, and ends with a checksum of its own.
Lines are sorted by the runs' names, so that git shows which runs were added.
"""

import base64
import copy
import dataclasses
import functools
import json
import os
import sys
import zlib
from pathlib import Path

import numpy as np
from filelock import FileLock

from pfl_lib.errors import BadInput
from pfl_lib.progress import tell
from pfl_lib.results.files import files_of, result_in, sha256
from pfl_lib.results.result import Result
from pfl_lib.results.writing import replacing

MOST_NUMBERS = 16_000
"""Of a run's weights, or of one of its matrices, by client and client: 64 kB as float32."""
SMALL_MODEL = 1_000  # numbers of a model that is published where a page shows it
CONFIG, MODEL, TABLE, COMPRESSED = "config.json", "model.pt", ".csv", ".zlib"
LOCK_SECONDS = 60  # to wait for another process that publishes
CHECKSUM = b', "sha256": "'


class Published:
    """The published results of one folder; of none, there are none."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def path(self, slug: str) -> Path:
        """The file to which a run of that name belongs: "fedavg-mnist.jsonl"."""
        return self.folder / ("-".join(slug.split("-")[:2]) + ".jsonl")

    def places(self) -> dict[str, Path]:
        """Every run's name and the file that holds it, file by file."""
        paths = sorted(self.folder.glob("[!.]*.jsonl")) if self.folder else ()
        return {slug: path for path in paths for slug in _lines(path)[0]}

    def has(self, slug: str, with_model: bool = False) -> bool:
        """Whether there is a result of that name; it is not read: its line has a checksum."""
        line = _lines(self.path(slug))[0].get(slug) if self.folder else None
        return line is not None and (not with_model or f'"{MODEL}"' in line)

    def find(self, slug: str, key: str | None = None) -> Result | None:
        """The result of that name; None if there is none, or it is damaged, or has another key."""
        line = _lines(self.path(slug))[0].get(slug) if self.folder else None
        result = None if line is None else _result(line)
        of_key = result is not None and key in (None, result.config["key"])
        return copy.deepcopy(result) if of_key else None

    def put(self, slug: str, result: Result, with_model: bool = False) -> bool:
        """Add a result; False where it is there already, with its model if that is to come along.

        It comes without its model, unless `with_model` and that has at most `SMALL_MODEL` numbers,
        and with its matrices as `thinned`.  Readers see the file before or after.  Raises BadInput
        where it cannot be written, or has a damaged line, which writing would lose.
        """
        if self.folder is None:
            return False
        small = sum(tensor.numel() for tensor in (result.model or {}).values()) <= SMALL_MODEL
        model = result.model if with_model and small else None
        there = self.find(slug, result.config["key"])
        if there and (there.model or not model):
            return False
        path = self.path(slug)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Another process may publish into it too.
            with FileLock(self.folder / ".lock", LOCK_SECONDS, mode=0o666):
                lines, damaged = _lines(path)
                if damaged:
                    raise BadInput(f"{damaged[0]}: restore it (git checkout), then publish")
                line = _line(slug, dataclasses.replace(thinned(result), model=model))
                with replacing(path) as new:
                    every = sorted((lines | {slug: line}).items())
                    new.write_text("".join(f"{text}\n" for _, text in every), encoding="utf-8")
        except OSError as error:
            why = error.strerror or (os.strerror(error.errno) if error.errno else error)
            raise BadInput(f"{slug} cannot be published in {self.folder} ({why})") from None
        return True


def _lines(path: Path) -> tuple[dict[str, str], list[str]]:
    """A file's whole lines by the names of their runs, and what is damaged, which is told once."""
    try:
        status = path.stat()
        return _lines_since(path, (status.st_mtime_ns, status.st_size))
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as error:
        told = f"{path} cannot be read ({error.strerror})"
        tell(f"{told}: its runs count as not run")
        return {}, [told]


@functools.cache  # pages ask for the same runs again and again
def _lines_since(path: Path, change: tuple[int, int]) -> tuple[dict[str, str], list[str]]:
    content = path.read_bytes()
    lines, damaged = {}, []
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
        text, _, checksum = line.rpartition(CHECKSUM)
        if checksum == f'{sha256(text)}"}}'.encode():
            lines[json.loads(line)["run"]] = line.decode()
        elif content:
            damaged.append(f"{path}, line {number} is damaged")
    if damaged:
        further = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        print(f"{damaged[0]}{further}: its run counts as not run", file=sys.stderr)
    return lines, damaged


def _line(slug: str, result: Result) -> str:
    """A run's line: its files by name, as text, and a checksum."""
    files = files_of(result)
    of_run = {"run": slug, CONFIG: json.loads(files.pop(CONFIG))}
    for name, content in sorted(files.items()):
        if name.endswith(TABLE):
            name, content = name + COMPRESSED, zlib.compress(content, 9)
        of_run[name] = base64.b85encode(content).decode()
    return signed(json.dumps(of_run))


def signed(line: str) -> str:
    """A run's line, a JSON object, with its checksum as the last entry."""
    text = line.removesuffix("}")
    return f'{text}{CHECKSUM.decode()}{sha256(text.encode())}"}}'


@functools.cache  # reading one takes ten milliseconds
def _result(line: str) -> Result | None:
    """The result of a line; None where it holds none."""
    try:
        of_run = json.loads(line)
        files = {CONFIG: json.dumps(of_run.pop(CONFIG)).encode()}
        del of_run["run"], of_run["sha256"]
        for name, text in of_run.items():
            content = base64.b85decode(text)
            if name.endswith(COMPRESSED):
                name, content = name.removesuffix(COMPRESSED), zlib.decompress(content)
            files[name] = content
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return None
    return result_in(files.__getitem__)


def thinned(result: Result) -> Result:
    """The result with at most `MOST_NUMBERS` numbers of weights and of each matrix by client and
    client, of evenly spaced rounds, two at least, the first and the last among them; each kept
    number as it is.
    """
    kept = {}
    if result.weights is not None and result.weights.ndim > 2:
        places = _evenly(len(result.weights), result.weights[0].size)
        kept["weights"] = result.weights[places]
        kept["weights_rounds"] = np.asarray(result.weights_rounds)[places]
    if result.matrices:
        largest = max(matrix[0].size for matrix in result.matrices.values())
        places = _evenly(len(result.matrices_rounds), largest)
        kept["matrices"] = {name: matrix[places] for name, matrix in result.matrices.items()}
        kept["matrices_rounds"] = np.asarray(result.matrices_rounds)[places]
    return dataclasses.replace(result, **kept)


def _evenly(rounds: int, numbers: int) -> np.ndarray:
    most = min(rounds, max(2, MOST_NUMBERS // max(1, numbers)))
    return np.unique(np.linspace(0, rounds - 1, most).round().astype(int))
