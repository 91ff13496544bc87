"""Results may change only together with a version number: four rounds of each method on the digits against recorded numbers.

Stored results are found by a key that holds these numbers; results that change while the number stays would be mixed with older
ones, silently.  After raising one, record anew: `python tests/methods/test_goldens.py`.
"""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from pfl_lib import Schedule, data, engine
from pfl_lib.methods import METHODS, named
from pfl_lib.partition import PARTITIONS
from pfl_lib.store import Result, Store
from pfl_lib.study import Cell, run_cell

FILE = Path(__file__).with_name("goldens.json")
NAMES = ("local", "fedavg", "scaffold", "weight_erosion", "waffle", "apfl")


def played(name: str, folder: str | Path) -> Result:
    cell = Cell(named(name), Schedule(4), dataset="digits", clients=4, alice=1)
    return run_cell(cell, Store(folder, published=None), device="cpu", engine="loop")


def versions(name: str) -> dict[str, int | str]:
    """All version numbers that a result of this method carries in its key."""
    return {
        "method": METHODS[name].version,
        "engine": engine.VERSION,
        "partition": PARTITIONS["C"].version,
        "data": data.fingerprint("digits"),
    }


def numbers(result: Result) -> dict[str, list]:
    return {
        "loss": result.metrics["loss"].tolist(),
        "accuracy": result.metrics["accuracy"].tolist(),
        "weights": result.weights.reshape(-1).tolist(),
        "sizes": [float(value.double().norm()) for value in result.model.values()],
    }


def close(recorded: dict[str, list]) -> dict[str, object]:
    """Other processors round otherwise: 1e-3 of each number, and two of Alice's 34 test images."""
    tolerances = {"accuracy": {"abs": 0.06}, "weights": {"abs": 1e-3}}
    return {part: pytest.approx(values, **tolerances.get(part, {"rel": 1e-3})) for part, values in recorded.items()}


@pytest.mark.parametrize("name", NAMES)
def test_results_are_the_recorded_ones_of_this_version(name, tmp_path):
    golden = json.loads(FILE.read_text())[name]
    assert versions(name) == golden["versions"], (
        "a version was raised: record anew with python tests/methods/test_goldens.py"
    )
    found = numbers(played(name, tmp_path))
    assert found == close(golden["numbers"]), (
        "results changed: raise the version number, so that old ones are not mixed in"
    )


def record() -> None:
    """Record the methods whose versions were raised; refuse where numbers changed and no version did."""
    old = json.loads(FILE.read_text()) if FILE.is_file() else {}
    new = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            new[name] = {"versions": versions(name), "numbers": numbers(played(name, folder))}
            if name in old and old[name]["versions"] == new[name]["versions"]:
                if new[name]["numbers"] != close(old[name]["numbers"]):
                    sys.exit(f"{name}: results changed, but no version number did; raise it first")
                new[name] = old[name]
    FILE.write_text(json.dumps(new, indent=1) + "\n")


if __name__ == "__main__":
    record()
