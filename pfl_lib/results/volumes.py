"""Published results in few text files: one for each method and data set, a line a run.

A line holds the very files that `files.write` makes of a result, tables compressed (they are most
of it: a row a client and round), all but config.json in base 85, and ends with a checksum of its
own.  Lines are sorted by the runs' names, so that git shows which runs were added.
"""

import base64
import hashlib
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pfl_lib.errors import BadInput
from pfl_lib.results.writing import replacing

CONFIG, TABLE, COMPRESSED = "config.json", ".csv", ".zlib"
CHECKSUM = b', "sha256": "'


class Volumes:
    """The volumes of one folder.  A volume is read once and again where its file has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, tuple[tuple[int, int], dict[str, str], list[str]]] = {}

    def path(self, slug: str) -> Path:
        """The volume in which a run of that name belongs: "fedavg-mnist.jsonl"."""
        return self.folder / ("-".join(slug.split("-")[:2]) + ".jsonl")

    def names(self) -> Iterator[str]:
        """The names of all runs, volume by volume."""
        for path in sorted(self.folder.glob("[!.]*.jsonl")):
            yield from self._lines(path)[0]

    def line(self, slug: str) -> str | None:
        """A run's line, the same object as long as its volume stays as it is; None where there is
        no such run.
        """
        return self._lines(self.path(slug))[0].get(slug)

    def files(self, slug: str) -> dict[str, bytes] | None:
        """A run's files by name; None where there is no such run, or its line is damaged."""
        line = self.line(slug)
        if line is None:
            return None
        try:
            of_run = json.loads(line)
            config = of_run.pop(CONFIG)
            del of_run["run"], of_run["sha256"]
            files = dict(_file(name, text) for name, text in of_run.items())
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return None
        return {CONFIG: json.dumps(config).encode(), **files}

    def put(self, slug: str, files: Mapping[str, bytes]) -> None:
        """Add a run or replace it; readers see the volume before or after.

        Raises OSError, and BadInput for a volume with a damaged line, which writing would lose.
        """
        path = self.path(slug)
        of_run = {"run": slug, CONFIG: json.loads(files[CONFIG])}
        of_run |= dict(_entry(name, files[name]) for name in sorted(files) if name != CONFIG)
        lines, damaged = self._lines(path)
        if damaged:
            raise BadInput(f"{damaged[0]}: restore it (git checkout), then publish")
        lines = lines | {slug: signed(json.dumps(of_run))}
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new:
            new.write_text("".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")

    def _lines(self, path: Path) -> tuple[dict[str, str], list[str]]:
        """A volume's whole lines by the names of their runs, each as it stands there, and what is
        damaged, which is told once.
        """
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if path in self._read and self._read[path][0] == stamp:
                return self._read[path][1:]
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return {}, []
        except OSError as error:
            return {}, [f"{path} cannot be read ({error.strerror})"]
        lines, damaged = {}, []
        for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
            text, _, checksum = line.rpartition(CHECKSUM)
            if checksum == f'{_digest(text)}"}}'.encode():
                lines[json.loads(line)["run"]] = line.decode()
            elif content:
                damaged.append(f"{path}, line {number} is damaged")
        if damaged:
            further = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
            print(f"{damaged[0]}{further}: its run counts as not run", file=sys.stderr)
        self._read[path] = stamp, lines, damaged
        return lines, damaged


def signed(line: str) -> str:
    """A run's line, a JSON object, with its checksum as the last entry."""
    text = line.removesuffix("}")
    return f'{text}{CHECKSUM.decode()}{_digest(text.encode())}"}}'


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _entry(name: str, content: bytes) -> tuple[str, str]:
    """A file as a line holds it: its name there, and its text."""
    if name.endswith(TABLE):
        name, content = name + COMPRESSED, zlib.compress(content, 9)
    return name, base64.b85encode(content).decode()


def _file(name: str, text: str) -> tuple[str, bytes]:
    """The file of an entry."""
    content = base64.b85decode(text)
    if name.endswith(COMPRESSED):
        return name.removesuffix(COMPRESSED), zlib.decompress(content)
    return name, content
