"""The files of a data set: whether they are there and whole, and how they come into the cache
folder.
"""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pfl_lib.errors import BadInput

if TYPE_CHECKING:  # annotations only
    from pfl_lib.data.source import Source


def ensure(name: str, source: "Source", root: Path, may_download: bool) -> None:
    """See that every file is there with the right MD5, downloading if it may; raises `BadInput`
    saying what to do.
    """
    missing = _missing(source, root)
    if missing and may_download and source.download is not None:
        _download(name, source, root)
    elif missing:
        raise _absent(name, source, root, missing, ", or give neither to download the data")
    again = (
        "delete it and run again to download it anew"
        if may_download
        else "replace it by an intact copy"
    )
    for file, expected in source.files.items():
        path = root / source.folder / file
        try:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "md5").hexdigest()
        except OSError as error:
            raise BadInput(f"{path} cannot be read ({error.strerror}); {again}") from None
        if found != expected:
            size = f"{path.stat().st_size:,} bytes"
            raise BadInput(
                f"{path} is damaged or altered: {size} with MD5 {found}, expected {expected};"
                f" {again}"
            )


def check_there(name: str, source: "Source", root: Path) -> None:
    """BadInput where a file is missing that may not be downloaded now."""
    if missing := _missing(source, root):
        raise _absent(
            name, source, root, missing, " (nothing is downloaded to draw what is stored)"
        )


def _missing(source: "Source", root: Path) -> list[str]:
    folder = root / source.folder
    missing = [file for file in source.files if not os.path.isfile(folder / file)]
    if source.any_of and not any(os.path.isfile(folder / file) for file in source.any_of):
        missing.append(" or ".join(source.any_of))
    return missing


def _absent(
    name: str, source: "Source", root: Path, missing: list[str], where_it_is_downloaded: str
) -> BadInput:
    return BadInput(
        f"{name}: {', '.join(missing)} missing in {root / source.folder}; point data_dir"
        f" (--data-dir, or PFL_DATA_DIR) at the folder that holds {source.folder}"
        + (where_it_is_downloaded if source.download is not None else "")
    )


def _download(name: str, source: "Source", root: Path) -> None:
    # Into a folder beside the final one, then renamed file by file: an interrupted download, or two
    # processes downloading at once, never leave half a file under the final name.
    try:
        (root / source.folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=root) as temporary:
            source.download(Path(temporary))
            for file in (
                os.listdir(Path(temporary) / source.folder) if source.any_of else source.files
            ):
                os.replace(Path(temporary) / source.folder / file, root / source.folder / file)
    except (
        OSError,
        RuntimeError,
    ) as error:  # torchvision raises RuntimeError when every mirror failed
        reason = " ".join(str(error).split())
        raise BadInput(
            f"{name} could not be downloaded into {root} ({reason}); with a copy at hand, point"
            f" data_dir (--data-dir, or PFL_DATA_DIR) at the folder that holds {source.folder}"
        ) from None
