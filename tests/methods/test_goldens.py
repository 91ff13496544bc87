"""Results may change only together with a version number: four rounds of each method, and of each
kind of spec, against recorded numbers.

Stored results are found by a key that holds these numbers; results that change while the number
stays would be mixed with older ones, silently.  After raising one, record anew: `python
tests/methods/test_goldens.py`.
"""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from pfl_lib import DPSGD, Schedule
from pfl_lib import methods as m
from pfl_lib.experiments.runner import run_one
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import METHODS, make_method
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store

FILE = Path(__file__).with_name("goldens.json")
DIGITS = {"dataset": "digits", "clients": 4, "alice": 1}
# Weight Erosion's setting on a table that needs no download: linear model, one batch a round in
# fixed order, half the loss.
ONE_BATCH = Schedule(4, local_batches=1, order="fixed", batch_size=66, lr=1.0, weight_decay=1e-3)
TABLE = {"dataset": "breast_cancer", "model": "linear", "clients": 4, "alice": 0}
# Alice is tested on batches of 66 and 20, whose mean is not the mean over examples.
TABLE |= {"loss": "half_cross_entropy", "measures": ("start", "batch_accuracy")}
CELLS = {
    **{
        name: RunSpec(make_method(name), Schedule(4), **DIGITS)
        for name in METHODS
        if name not in ("broken_global", "fedfomo", "fedfomo_ma", "fedbn", "fedavg_data")
    },
    # At the usual learning rate normalised channels that are all but constant make of a last bit a
    # thousandth within a round, and a hundredth within four.
    "fedbn": RunSpec(make_method("fedbn"), Schedule(4, lr=0.01), model="pfedla_cnn-norm", **DIGITS),
    "fedfomo": RunSpec(m.FedFomo(n=3), Schedule(4), validation=0.2, **DIGITS),
    "fedfomo_ma": RunSpec(m.FedFomoMA(), Schedule(4), validation=0.2, **DIGITS),
    "fedavg, private": RunSpec(m.FedAvg(), Schedule(4, private=DPSGD(0.5, 1.0)), **DIGITS),
    "fedavg_data": RunSpec(m.FedAvgData(pool="client"), Schedule(4), **DIGITS),
    "fedavg_data, of all": RunSpec(m.FedAvgData(), Schedule(4), **DIGITS),
    "apfl, by round": RunSpec(m.APFL(mixture_step="round"), Schedule(4), **DIGITS),
    "other labels": RunSpec(make_method("fedavg"), Schedule(4), partition="B*", **DIGITS),
    "broken_global": RunSpec(m.BrokenGlobal(), ONE_BATCH, partition="radius_strict", **TABLE),
    "table, mixed": RunSpec(
        m.WeightErosion(counting="after"), ONE_BATCH, partition="radius_some", **TABLE
    ),
}


def played(name: str, folder: str | Path) -> Result:
    return run_one(CELLS[name], Store(folder, published=None), device="cpu", engine="loop")


def versions(name: str) -> dict[str, object]:
    """All version numbers that a result of this spec carries in its key."""
    config = CELLS[name].config()
    return {
        "method": config["method"]["version"],
        "engine": config["engine"],
        "partition": config["partition"]["version"],
        "data": config["fingerprint"],
        **config.get("versions", {}),
    }


def numbers(result: Result) -> dict[str, list]:
    columns = [name for name in ("loss", "accuracy", "batch_accuracy") if name in result.metrics]
    return {
        **{name: result.metrics[name].tolist() for name in columns},
        "weights": [] if result.weights is None else result.weights.reshape(-1).tolist(),
        "sizes": [float(value.double().norm()) for value in result.model.values()],
    }


def close(recorded: dict[str, list]) -> dict[str, object]:
    """Other processors round otherwise: 1e-3 of each number, and two of Alice's 34 test images."""
    share, weight, other = {"abs": 0.06}, {"abs": 1e-3}, {"rel": 1e-3}
    given = {"accuracy": share, "batch_accuracy": share, "weights": weight}
    return {part: pytest.approx(of, **given.get(part, other)) for part, of in recorded.items()}


@pytest.mark.parametrize("name", CELLS)
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
    """Record the specs whose versions were raised; refuse where numbers changed and none did."""
    old = json.loads(FILE.read_text()) if FILE.is_file() else {}
    new = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in CELLS:
            new[name] = {"versions": versions(name), "numbers": numbers(played(name, folder))}
            if name in old and old[name]["versions"] == new[name]["versions"]:
                if new[name]["numbers"] != close(old[name]["numbers"]):
                    sys.exit(f"{name}: results changed, but no version number did; raise it first")
                new[name] = old[name]
    FILE.write_text(json.dumps(new, indent=1) + "\n")


if __name__ == "__main__":
    record()
