"""A queue of runs: a YAML file of pages and, of each, which runs, such as `reports/queue.yaml`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from pfl_lib.errors import BadInput, choose
from pfl_lib.experiments.spec import RunSpec

FIELDS: dict[str, Callable[[RunSpec], Any]] = {
    "datasets": lambda spec: spec.dataset,
    "clients": lambda spec: spec.clients,
    "methods": lambda spec: spec.method.name,
    "partitions": lambda spec: spec.config()["partition"]["name"],
    "seeds": lambda spec: spec.seed,
}
"""What an entry may name beside its page, each as a list."""


def queued(
    path: Path, profile: str, runs_of: Callable[[str], Sequence[RunSpec]]
) -> list[RunSpec] | None:
    """The runs of a queue, entry by entry, in each by seed and then short ones first, each once;
    None where there is no such file, or it is of another profile.

    `runs_of` gives the runs of a page by the page's name.  Raises BadInput, one line, for a file
    that is no queue, and for an unknown page, field or value.
    """
    if not path.is_file():
        return None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    fields = content.keys() if isinstance(content, dict) else ()
    if set(fields) != {"profile", "runs"} or not isinstance(content["runs"], list):
        raise BadInput(f"{path}: give 'profile', a profile's name, and 'runs', a list of entries")
    if content["profile"] != profile:
        return None
    runs = {}
    for place, entry in enumerate(content["runs"], 1):
        try:
            named = _named(entry, runs_of)
        except BadInput as error:
            raise BadInput(f"{path}, entry {place}: {error}") from None
        runs |= dict.fromkeys(sorted(named, key=lambda spec: (spec.seed, spec.examples())))
    return list(runs)


def _named(entry: Any, runs_of: Callable[[str], Sequence[RunSpec]]) -> list[RunSpec]:
    """The runs that an entry names."""
    if not isinstance(entry, dict) or "page" not in entry:
        raise BadInput(f"{entry!r} names no page: give page: waffle-table1, or another")
    page = entry["page"]
    every = named = runs_of(page)
    for field in (field for field in entry if field != "page"):
        of, values = FIELDS[choose("field", field, ("page", *FIELDS))], entry[field]
        if not isinstance(values, list):
            raise BadInput(f"{field} {values!r}: give a list")
        known = sorted({of(spec) for spec in every})
        for value in values:
            choose(f"{page}, {field}", value, known)
        named = [spec for spec in named if of(spec) in values]
    return list(named)
