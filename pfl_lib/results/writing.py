"""Files that are there whole or not at all, also on a full disk."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pfl_lib.errors import BadInput, path_of


def check_writable(what: str, root: Path, cure: str, *folders: str) -> None:
    """Make `folders` of a folder; BadInput, with a cure, where that or writing into them fails."""
    try:
        for folder in folders:
            (root / folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root / folder):
                pass
    except OSError as error:
        told = f"{what} {root} cannot be written ({error.strerror}): give another {cure}"
        raise BadInput(told) from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file's path; what is written there replaces `path` in one step, or not at all."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as temporary:
        new = Path(temporary) / path.name
        yield new
        new.replace(path)


def written(what: str, path: object, content: bytes) -> Path:
    """Write a file that a user has asked for; BadInput, with a cure, where that fails."""
    path = path_of(what, path).expanduser()
    try:
        with replacing(path) as new:
            new.write_bytes(content)
    except OSError as error:
        cure = "give a file in a folder that exists and has room"
        raise BadInput(f"{what} {path} could not be written ({error.strerror}): {cure}") from None
    return path


def content_of(write: Callable[[io.BytesIO], object]) -> bytes:
    """What a function writes into a file."""
    write(file := io.BytesIO())
    return file.getvalue()
