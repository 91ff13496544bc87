"""The numbers of the notebooks' own tests, compared with recorded ones to a tolerance.

Processors, thread counts and builds of the same version of torch sum in different orders, so the
last bits of a result differ from machine to machine; training carries them into digits that can be
seen.  A notebook's check cell therefore prints how many values agree, never the values, which stand
in `recorded/<page>.json`.  After a change that is meant to change them, record anew: `make record`.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pfl_lib.errors import BadInput

if TYPE_CHECKING:  # it needs pydantic, which a machine that only trains may lack
    from pfl_lib.pages.parameters import Settings

RECORD = "PFL_RECORD"  # set in the environment: write what would otherwise be compared
AGREE = "values as recorded"
OWN = "parameters of this notebook alone"


RUNS = "runs"  # the name under which the digest of a page's run keys stands


def compare(
    page: str,
    settings: "Settings",
    runs: str,
    what: str,
    values: Mapping[str, object],
    within: float = 0.0,
    relative: float = 0.0,
) -> None:
    """`compare_with_recorded`, as long as the page's runs (their keys, and the source of the
    reader's own classes) are those that were recorded.
    """
    digest = hashlib.sha256(runs.encode()).hexdigest()[:16]
    if os.environ.get(RECORD) and not _incomparable(page, settings):
        _write(page, _read(page) | {RUNS: digest})
    elif settings.profile == "quick" and _read(page).get(RUNS, digest) != digest:
        print(f"{what}: not compared with recorded values (changed: other runs)")
        return
    compare_with_recorded(page, settings, what, values, within, relative)


def compare_with_recorded(
    page: str,
    settings: "Settings",
    what: str,
    values: Mapping[str, object],
    within: float = 0.0,
    relative: float = 0.0,
) -> None:
    """Assert that `values` (numbers and words, in mappings and lists) are those recorded for a page
    under the name `what`, and print how many they are.

    Words, counts and nan have to be the same; numbers differ by at most `within`, or by the share
    `relative` of the recorded one.  Only the quick profile with the notebook's own parameters is
    compared, and only where nothing may be missing; otherwise the line says why it is not.  Raises
    AssertionError that names the first value that differs, BadInput where nothing is recorded.
    """
    reason = _incomparable(page, settings)
    if reason:
        print(f"{what}: not compared with recorded values ({reason})")
        return
    found = dict(_leaves(values))
    if os.environ.get(RECORD):
        _record(page, settings, what, found)
    recorded = _read(page)
    if what not in recorded:
        raise BadInput(f"nothing is recorded for {what!r} of {page}: run make record")
    known = recorded[what]
    assert found.keys() == known.keys(), (
        f"{what}: recorded are {', '.join(known)}; found {', '.join(found)}"
    )
    apart = [
        f"{name} is {value}, recorded {known[name]}"
        for name, value in found.items()
        if not _agree(value, known[name], within, relative)
    ]
    assert not apart, f"{what}, {len(apart)} of {len(found)} values differ: {apart[0]}"
    limit = f" to within {within:g}" if within else f" to within {relative:.0%}" if relative else ""
    print(f"{what}: {len(found)} {AGREE}{limit}")


def values_compared(printed: str) -> int:
    """How many values agree with recorded ones, by the lines that a notebook printed."""
    return sum(map(int, re.findall(rf"(\d+) {AGREE}", printed)))


def _incomparable(page: str, settings: "Settings") -> str:
    if settings.profile != "quick":
        return "those are the quick profile's"
    if settings.plots_only:
        return "runs may be missing"
    own = _own_parameters(settings)
    changed = ["seeds"] if settings.seeds else []
    if not os.environ.get(RECORD):
        changed += [name for name, value in _read(page).get(OWN, own).items() if own[name] != value]
    return f"those are for other {', '.join(changed)}" if changed else ""


def _own_parameters(settings: "Settings") -> dict[str, object]:
    """The parameters that this notebook alone has."""
    from pfl_lib.pages.parameters import Settings

    return {
        name: getattr(settings, name)
        for name in type(settings).model_fields
        if name not in Settings.model_fields
    }


def _leaves(values: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _leaves(value, (*path, str(name)))
    elif isinstance(values, list | tuple):
        for place, value in enumerate(values):
            yield from _leaves(value, (*path, str(place)))
    else:
        value = values.item() if hasattr(values, "item") else values  # numpy's and torch's numbers
        yield ": ".join(path), "nan" if isinstance(value, float) and math.isnan(value) else value


def _agree(value: object, known: object, within: float, relative: float) -> bool:
    numbers = all(isinstance(one, int | float) for one in (value, known))
    if not numbers or within == relative == 0:
        return value == known
    return abs(value - known) <= max(within, relative * abs(known))


def _record(page: str, settings: "Settings", what: str, found: dict[str, object]) -> None:
    # Six digits: many more than any tolerance asks for, and few enough to be read.
    kept = {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in found.items()
    }
    _write(page, _read(page) | {OWN: _own_parameters(settings), what: kept})


def _write(page: str, recorded: Mapping[str, object]) -> None:
    _file(page).parent.mkdir(exist_ok=True)
    text = json.dumps(recorded, indent=1, ensure_ascii=False)
    _file(page).write_text(text + "\n", encoding="utf-8")


def _read(page: str) -> dict[str, dict[str, object]]:
    file = _file(page)
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _file(page: str) -> Path:
    return Path(str(files("pfl_lib.pages") / "recorded")) / f"{page}.json"
