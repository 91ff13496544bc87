"""Files that are there whole or not at all, also on a full disk."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file's path; what is written there takes the place of `path` in one step, unless an
    exception comes first.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as temporary:
        new = Path(temporary) / path.name
        yield new
        new.replace(path)
