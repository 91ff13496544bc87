"""A data set's files: whether they are there and intact, and how they are downloaded."""

import csv
import hashlib
import os
import tempfile
from importlib import resources
from pathlib import Path

from pfl_lib.data.source import Source
from pfl_lib.errors import BadInput


def checksums(folder: str) -> dict[str, str]:
    """The MD5 of each file of a torchvision-style folder, as the files lie there unpacked."""
    with resources.files("pfl_lib.data").joinpath("checksums.csv").open(encoding="utf-8") as file:
        return {row["file"]: row["md5"] for row in csv.DictReader(file) if row["folder"] == folder}


def ensure(name: str, source: Source, root: Path, may_download: bool) -> None:
    """Check that every file has the right MD5; download what is missing if that is allowed."""
    missing = missing_files(source, root)
    if missing and may_download and source.download is not None:
        _download(name, source, root)
    elif missing:
        raise absent(name, source, root, missing, ", or give neither to download the data")
    again = "replace it by an intact copy"
    if may_download:
        again = "delete it and run again to download it anew"
    for file, expected in source.files.items():
        path = root / source.folder / file
        try:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "md5").hexdigest()
        except OSError as error:
            raise BadInput(f"{path} cannot be read ({error.strerror}); {again}") from None
        if found != expected:
            held = f"{path.stat().st_size:,} bytes with MD5 {found}, expected {expected}"
            raise BadInput(f"{path} is damaged or altered: {held}; {again}")


def missing_files(source: Source, root: Path) -> list[str]:
    folder = root / source.folder
    missing = [file for file in source.files if not os.path.isfile(folder / file)]
    if source.any_of and not any(os.path.isfile(folder / file) for file in source.any_of):
        missing.append(" or ".join(source.any_of))
    return missing


def absent(name: str, source: Source, root: Path, missing: list[str], or_else: str) -> BadInput:
    return BadInput(
        f"{name}: {', '.join(missing)} missing in {root / source.folder}; point data_dir"
        f" (--data-dir, or PFL_DATA_DIR) at the folder that holds {source.folder}"
        + (or_else if source.download is not None else "")
    )


def _download(name: str, source: Source, root: Path) -> None:
    # Into a folder beside the final one, then renamed file by file: an interrupted download, or two
    # processes downloading at once, never leave half a file under the final name.
    folder = root / source.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=root) as temporary:
            source.download(Path(temporary))
            downloaded = Path(temporary) / source.folder
            for file in os.listdir(downloaded) if source.any_of else source.files:
                os.replace(downloaded / file, folder / file)
    except BadInput:
        raise
    # torchvision raises RuntimeError when every mirror failed, scikit-learn ValueError
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadInput(
            f"{name} could not be downloaded into {root} ({reason}); with a copy at hand, point"
            f" data_dir (--data-dir, or PFL_DATA_DIR) at the folder that holds {source.folder}"
        ) from None
