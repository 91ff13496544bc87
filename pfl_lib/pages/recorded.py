"""The numbers of the notebooks' own tests, compared with recorded ones to a tolerance.

The last bits of a result differ from machine to machine, and training carries them into digits that
can be seen.  A check cell therefore prints how many values agree, never the values, which stand in
`recorded/<page>.json`.  After a change that is meant to change them, record anew: `make record`.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pfl_lib.errors import BadInput
from pfl_lib.pages.parameters import Settings
from pfl_lib.results.files import sha256

RECORD = "PFL_RECORD"  # set in the environment: write what would otherwise be compared
AGREE = "values as recorded"
OWN = "parameters of this notebook alone"
RUNS = "runs"  # the name under which the digest of a page's run keys stands
FOLDER = Path(__file__).with_name("recorded")


def compare_with_recorded(
    page: str,
    settings: Settings,
    what: str,
    values: Mapping[str, object],
    within: float = 0.0,
    relative: float = 0.0,
    runs: str = "",
) -> None:
    """Assert that `values` (numbers and words, in mappings and lists) are those recorded for a page
    under the name `what`, and print how many they are.

    Words and nan have to be the same; numbers, counts too, differ by at most `within`, or by the
    share `relative` of the recorded one.  Only the quick profile, complete, with the shipped
    parameters and `runs` (keys, and the source of the reader's own classes) is compared; else a
    line says why not.  Raises AssertionError that names the first value that differs, BadInput
    where nothing is recorded.
    """
    own = settings.model_dump(exclude={*Settings.model_fields})
    file = FOLDER / f"{page}.json"
    recorded = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    runs = sha256(runs.encode())[:16]
    found = dict(_leaves(values))
    recording = bool(os.environ.get(RECORD))
    other = ["seeds"] * bool(settings.seeds)
    if not recording:
        other += [name for name, value in recorded.get(OWN, own).items() if own.get(name) != value]
    for applies, reason in (
        (settings.profile != "quick", "those are the quick profile's"),
        (settings.plots_only, "runs may be missing"),
        (other, f"those are for other {', '.join(other)}"),
        (not recording and runs != recorded.get(RUNS, runs), "changed: other runs or rows"),
    ):
        if applies:
            print(f"{what}: not compared with recorded values ({reason})")
            return
    if recording:
        # Six digits: many more than any tolerance asks for, and few enough to be read.
        kept = {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in found.items()}
        recorded |= {RUNS: runs, OWN: own, what: kept}
        text = json.dumps(recorded, indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")
    if what not in recorded:
        raise BadInput(f"nothing is recorded for {what!r} of {page}: run make record")
    known = recorded[what]
    names = f"{what}: recorded are {', '.join(known)}; found {', '.join(found)}"
    assert found.keys() == known.keys(), names
    apart = [
        f"{name} is {value}, recorded {known[name]}"
        for name, value in found.items()
        if not _agree(value, known[name], within, relative)
    ]
    assert not apart, f"{what}, {len(apart)} of {len(found)} values differ: {apart[0]}"
    limit = f" to within {within:g}" if within else f" to within {relative:.0%}" if relative else ""
    print(f"{what}: {len(found)} {AGREE}{limit}")


def _leaves(values: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    if isinstance(values, list | tuple):
        values = dict(enumerate(values))
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _leaves(value, (*path, str(name)))
    else:
        value = values.item() if hasattr(values, "item") else values  # numpy's and torch's numbers
        yield ": ".join(path), "nan" if isinstance(value, float) and math.isnan(value) else value


def _agree(value: object, known: object, within: float, relative: float) -> bool:
    numbers = all(isinstance(one, int | float) for one in (value, known))
    near = numbers and abs(value - known) <= max(within, relative * abs(known))
    return near or value == known
