"""Published results in few text files: one for each method and data set, a line a run.

A line holds the very files that `files.write` makes of a result, with the checksums in its
config.json: tables compressed (they are most of it: a row a client and round), all but config.json
in base 85.  Lines are sorted by the runs' names, so that git shows which runs were added.
"""

import base64
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

CONFIG, TABLE, COMPRESSED = "config.json", ".csv", ".zlib"


class Volumes:
    """The volumes of one folder.  A volume is read once and again where its file has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, tuple[tuple[int, int], dict[str, str]]] = {}

    def path(self, slug: str) -> Path:
        """The volume in which a run of that name belongs: "fedavg-mnist.jsonl"."""
        return self.folder / ("-".join(slug.split("-")[:2]) + ".jsonl")

    def names(self) -> Iterator[str]:
        """The names of all runs, volume by volume."""
        for path in sorted(self.folder.glob("[!.]*.jsonl")):
            yield from self._lines(path)

    def line(self, slug: str) -> str | None:
        """A run's line, the same object as long as its volume stays as it is; None where there is
        no such run.
        """
        return self._lines(self.path(slug)).get(slug)

    def files(self, slug: str) -> dict[str, bytes] | None:
        """A run's files by name; None where there is no such run, or its line is damaged."""
        line = self.line(slug)
        if line is None:
            return None
        try:
            of_run = json.loads(line)
            config = of_run.pop(CONFIG)
            del of_run["run"]
            files = dict(_file(name, text) for name, text in of_run.items())
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return None
        return {CONFIG: json.dumps(config).encode(), **files}

    def put(self, slug: str, files: Mapping[str, bytes]) -> None:
        """Add a run or replace it; readers see the volume before or after.  Raises OSError."""
        path = self.path(slug)
        of_run = {"run": slug, CONFIG: json.loads(files[CONFIG])}
        of_run |= dict(_entry(name, files[name]) for name in sorted(files) if name != CONFIG)
        lines = self._lines(path) | {slug: json.dumps(of_run)}
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".") as temporary:
            new = Path(temporary) / path.name
            new.write_text("".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")
            os.replace(new, path)

    def _lines(self, path: Path) -> dict[str, str]:
        """A volume's lines by the names of their runs, each as it stands there."""
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if path in self._read and self._read[path][0] == stamp:
                return self._read[path][1]
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}
        lines = {}
        for line in text.splitlines():
            head, _, _ = line.removeprefix('{"run": "').partition('"')
            lines[head] = line
        self._read[path] = stamp, lines
        return lines


def _entry(name: str, content: bytes) -> tuple[str, str]:
    """A file as a line holds it: its name there, and its text."""
    if name.endswith(TABLE):
        name, content = name + COMPRESSED, zlib.compress(content, 9)
    return name, base64.b85encode(content).decode()


def _file(name: str, text: str) -> tuple[str, bytes]:
    """The file of an entry.  Older lines have their tables as text."""
    if name.endswith(TABLE):
        return name, text.encode()
    content = base64.b85decode(text)
    if name.endswith(COMPRESSED):
        return name.removesuffix(COMPRESSED), zlib.decompress(content)
    return name, content
