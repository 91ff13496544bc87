"""Whether a page made earlier still is what would be made now, so that a repeated `reproduce` does
not execute it again.

A page follows from its notebook, its parameters, the package, the libraries that compute and draw,
and the stored runs behind it (whose keys say everything their numbers depend on).  Their digest is
kept with the page.
"""

import functools
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

LIBRARIES = ("torch", "numpy", "pandas", "matplotlib", "seaborn", "nbconvert", "scikit-learn")


def made_from(notebook: Path, parameters: Mapping[str, object], specs: Iterable, store) -> str:
    """The digest of everything a page is made from: 16 hex digits."""
    runs = sorted(_stored(store, spec) for spec in specs)
    # How many processes train side by side changes nothing that a page shows; nor does plots_only,
    # where nothing is left to train.
    aside = {"jobs", "plots_only"} if all(ran for _, ran, _ in runs) else {"jobs"}
    shown = {name: value for name, value in parameters.items() if name not in aside}
    facts = [_sha256(notebook.read_bytes()), shown, runs, _package(), _versions()]
    return _sha256(json.dumps(facts, sort_keys=True, default=str).encode())[:16]


def _stored(store, spec) -> tuple[str, bool, bool]:
    """A spec's key, whether it was run, and whether its model is there, which a page may show and
    published results come without.
    """
    result = store.find(spec)
    model = result is not None and bool(result.model or store.find(spec, with_model=True))
    return spec.key, result is not None, model


@functools.cache
def _package() -> str:
    root = Path(__file__).resolve().parents[1]
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    lines = [f"{path.relative_to(root)} {_sha256(path.read_bytes())}" for path in files]
    return _sha256("\n".join(lines).encode())


@functools.cache
def _versions() -> list[str]:
    return [platform.python_version(), *(f"{name} {metadata.version(name)}" for name in LIBRARIES)]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
