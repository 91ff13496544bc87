"""Where results live: one folder a run, written whole or not at all, checked when read."""

import contextlib
import hashlib
import io
import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pfl_lib.errors import BadInput, path_of
from pfl_lib.progress import tell
from pfl_lib.results.files import BAD_FILE, read, write
from pfl_lib.results.published import Published
from pfl_lib.results.result import Result
from pfl_lib.results.writing import check_writable, replacing

PUBLISHED = Path(__file__).resolve().parents[2] / "reports" / "published"
"""Results that come with the checkout; read after the user's own, never written by a run."""

SLUG = re.compile(r".+-seed-?\d+-[0-9a-f]{10}")
"""The names of entries, as `RunSpec.slug` makes them."""
TEMPORARY = re.compile(r"\.[a-z0-9_]{8}")
"""The names of the folders in which files are written before they go to their place."""
LEFT_BEHIND = "left behind by a process that was killed"


class NotStored(BadInput):
    """A result that could not be written, as on a full disk; `result` is the result itself."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class Store:
    """A results folder; below it, read-only, the published ones (PFL_IGNORE_PUBLISHED: none)."""

    def __init__(
        self, results_dir: str | os.PathLike | None = None, published: Path | None = PUBLISHED
    ) -> None:
        given = path_of("results_dir", "" if results_dir is None else results_dir)
        self.root = given.expanduser().absolute() if results_dir else default_results_dir()
        if self.root.is_file():
            raise BadInput(f"results folder {self.root} is a file, not a folder: give another")
        self._cells, self._checkpoints = self.root / "cells", self.root / "checkpoints"
        ignored = published is PUBLISHED and (os.environ.get("PFL_IGNORE_PUBLISHED") or "0") != "0"
        self.published = None if ignored else published
        self._published = Published(self.published)

    def folder(self, spec) -> Path:
        """Where one's own result of the spec lies or will lie."""
        return self._cells / spec.slug

    def find(self, spec, with_model: bool = False) -> Result | None:
        """The spec's result; None if there is none or it is damaged, as a line says (then it is
        run again).

        `with_model`: only a result that carries its model, as few published ones do.  Raises
        BadInput where the source of a user's own method, partition or model has changed since and
        its version has not.
        """
        slug, key = spec.slug, spec.key
        found = read(self._cells / slug, key)
        if found is None or (with_model and not found.model):
            found = self._published.find(slug, key)
            found = None if found and with_model and not found.model else found
            if found is None and _is_damaged(self.folder(spec), read):
                tell(f"{self.folder(spec)} is damaged and counts as not run")
        if found and spec.source and found.config.get("source", spec.source) != spec.source:
            what = " or ".join(n if n != "data" else "the federation" for n in found.config["own"])
            cure = f"raise the version of {what}, or remove {self._cells / slug}"
            raise BadInput(f"{slug} was stored with another source of the same version: {cure}")
        return found

    def has(self, spec, with_model: bool = False) -> bool:
        """Whether there is a result that `find` would read, by its place and its line's checksum:
        far cheaper for a published one, and no word on a source of one's own that has changed.
        """
        own = read(self._cells / spec.slug, spec.key)
        if own and (own.model or not with_model):
            return True
        return self._published.has(spec.slug, with_model)

    def save(self, spec, result: Result) -> None:
        """Write a result, all of it or nothing; NotStored, which holds it, where that fails."""
        try:
            self.check_writable()
        except BadInput as error:
            raise NotStored(str(error), result) from None
        self._put(spec.slug, result)
        self.checkpoint_path(spec).unlink(missing_ok=True)

    def _put(self, slug: str, result: Result) -> None:
        try:
            with tempfile.TemporaryDirectory(dir=self._cells, prefix=".") as temporary:
                new, target = Path(temporary) / "spec", self._cells / slug
                write(result, new)
                for _ in range(2):
                    # The place may be taken: by another process, with the same bits, or by an entry
                    # that is damaged or has no model where this one has: that goes.
                    with contextlib.suppress(OSError):
                        new.rename(target)
                    there = read(target, result.config["key"])
                    if there and (there.model or not result.model):
                        break
                    with contextlib.suppress(OSError):
                        target.rename(Path(temporary) / "worse")
                else:
                    new.rename(target)
        except OSError as error:
            told = f"{slug} could not be stored in {self.root} ({error.strerror})"
            cure = "make room there, or give another results_dir (--results-dir)"
            raise NotStored(f"{told}: {cure}", result) from None

    def publish(self, spec, with_model: bool = False) -> bool:
        """Copy a stored result into the published ones; False if it is there or not stored."""
        result = read(self.folder(spec), spec.key)
        return result is not None and self._published.put(spec.slug, result, with_model)

    def results(self) -> Iterator[Result]:
        """All results, the user's own first."""
        own = (read(entry.parent) for entry in sorted(self._cells.glob("*/config.json")))
        published = map(self._published.find, sorted(self._published.places()))
        seen = set()
        for result in itertools.chain(own, published):
            if result is not None and result.config["key"] not in seen:
                seen.add(result.config["key"])
                yield result

    def named(self, name: str) -> tuple[Path, Result]:
        """The one entry of that name, or whose key begins so (four digits or more), the user's own
        first; else BadInput.  Its path: a folder, or the file that holds a published one.

        As in `find`, one's own that is damaged gives way to the published one.
        """
        own = {path.name: path for path in self._cells.glob("[!.]*")}
        published = self._published.places()
        paths = published | own
        names = {name} & paths.keys()
        if re.fullmatch("[0-9a-f]{4,64}", name):
            # Pages show more digits of a key than the ten that a name ends with.
            names |= {slug for slug in paths if slug.rpartition("-")[2].startswith(name[:10])}
        if len(names) != 1:
            beside = "and not published" if self.published else "(published ones are not read)"
            none = f"is no result in {self.root} {beside}"
            what = f"fits {len(names)} results" if names else none
            cure = "give the name of one that 'pfl-lib results list' shows, or its key"
            raise BadInput(f"{name!r} {what}: {cure}, four digits or more")
        (slug,) = names
        if slug in own and (result := read(own[slug])):
            return own[slug], result
        if result := self._published.find(slug):
            return published[slug], result
        pruned = "'pfl-lib results prune' removes it, and then it will be run again"
        cure = pruned if slug in own else "restore it from the checkout"
        raise BadInput(f"{paths[slug]} is damaged: {cure}")

    def merge(self, other: Path) -> dict[str, str]:
        """Take over what another results folder has and this one lacks; what became of each entry
        there, by name.

        What is here is never replaced, unless it is damaged.  Raises BadInput if there is no such
        folder, or this one cannot be written.
        """
        if not (other / "cells").is_dir():
            raise BadInput(f"{other} is no results folder: give one that holds 'cells'")
        self.check_writable()
        became = {}
        for entry in sorted((other / "cells").glob("[!.]*")):
            result = read(entry)
            if result is None or not entry.name.endswith(result.config["key"][:10]):
                became[entry.name] = "damaged"
            elif read(self._cells / entry.name, result.config["key"]):
                became[entry.name] = "here already"
            else:
                self._put(entry.name, result)
                became[entry.name] = "taken"
        return became

    def prune(self, checkpoints: bool = False) -> dict[Path, str]:
        """Remove what no run will read; returns what was removed, and why.  Results stay.

        So do the checkpoints of unfinished runs, unless `checkpoints` are to go as well, and what
        was written in the last hour under a temporary name: a run may be at it.  Raises BadInput
        where something cannot be removed.
        """
        removed = {}
        for path, why in self._useless(checkpoints):
            try:
                if why == LEFT_BEHIND and time.time() - path.stat().st_mtime < 3600:
                    continue
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            except FileNotFoundError:
                continue  # its run was still there, and has removed it itself
            except OSError as error:
                raise BadInput(f"{path} cannot be removed ({error.strerror})") from None
            removed[path] = why
        return removed

    def _useless(self, checkpoints: bool) -> Iterator[tuple[Path, str]]:
        """Only what bears a name that runs give: a folder may hold a user's own files too."""
        for path in sorted(self._cells.glob("*")):
            if TEMPORARY.fullmatch(path.name):
                yield path, LEFT_BEHIND
            elif SLUG.fullmatch(path.name) and _is_damaged(path, read):
                yield path, "damaged result"
        for path in sorted(self._checkpoints.glob("*")):
            if TEMPORARY.fullmatch(path.name):
                yield path, LEFT_BEHIND
            elif path.suffix != ".pt" or not SLUG.fullmatch(path.stem):
                continue
            elif _is_damaged(path, _checkpoint):
                yield path, "damaged checkpoint"
            elif read(self._cells / path.stem):
                yield path, "checkpoint of a finished run"
            elif checkpoints:
                yield path, "checkpoint of an unfinished run"

    def checkpoint_path(self, spec) -> Path:
        return self._checkpoints / f"{spec.slug}.pt"

    def save_checkpoint(self, spec, state: dict[str, Any]) -> None:
        path, content = self.checkpoint_path(spec), io.BytesIO()
        torch.save(state, content)
        with replacing(path) as new, new.open("wb") as file:
            # torch.load does not notice altered numbers, so their checksum goes first.
            file.write(hashlib.sha256(content.getbuffer()).digest())
            file.write(content.getbuffer())

    def load_checkpoint(self, spec) -> dict[str, Any] | None:
        """What was saved last; None for none or a damaged one: then start from round 1."""
        return _checkpoint(self.checkpoint_path(spec))

    def check_writable(self) -> None:
        """Make the folders; BadInput if that, or writing into them, fails."""
        places = self._cells.name, self._checkpoints.name
        check_writable("results folder", self.root, "results_dir (--results-dir)", *places)


def default_results_dir() -> Path:
    """PFL_RESULTS_DIR, else `results` in the checkout that is run, else `results` here."""
    if chosen := os.environ.get("PFL_RESULTS_DIR"):
        return Path(chosen).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[2]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "results"


def _is_damaged(path: Path, read) -> bool:
    """Whether a file, or all files of a folder, can be read and say nothing: what a disk or a
    permission withholds now is not damaged, nor what a run has just finished writing.
    """
    if read(path) is not None:
        return False
    try:
        for file in path.iterdir() if path.is_dir() else [path]:
            file.read_bytes()
    except OSError:
        return False
    return read(path) is None


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """What a checkpoint's file holds; None if there is none or it is damaged."""
    try:
        content = memoryview(path.read_bytes())
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        held = torch.load(io.BytesIO(content[32:]), map_location="cpu", weights_only=True)
        return held if isinstance(held, dict) else None
    except BAD_FILE:
        return None
