"""What a table prints: which number of a result, in which unit, how near is near enough."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from pfl_lib.errors import BadInput
from pfl_lib.federation.privacy import epsilons
from pfl_lib.results.result import Result

Read = Callable[[Result, str, str, str], float]
"""(result, protocol, over, model), the words of `Result.value`, to a number; NaN for none."""


@dataclass(frozen=True)
class Metric:
    """A metric of printed values: `name` as in `paper_values.csv`, its unit and its tolerances.

    In `unit`: a difference up to `floor` is none; on one seed a difference up to `near` decides
    nothing; no spread of the paper's reproduces a value that is further than `cap` away.  `read`
    gives our number in `unit`.
    """

    name: str
    unit: str
    floor: float
    near: float
    read: Read
    higher_is_better: bool = True
    cap: float = 3.0


def column(name: str, scale: float = 1.0) -> Read:
    """Reads a column of `Result.metrics`, times `scale`; NaN of a method that has none."""

    def read(result: Result, protocol: str, over: str, model: str) -> float:
        if name not in result.metrics and name != "bytes":
            return math.nan
        return scale * result.value(name, protocol, over, model)

    return read


ACCURACY = Metric("accuracy_percent", "%", 0.4, 2.0, column("accuracy", 100))
MEGABYTES = Metric(  # what all clients sent and received in all rounds
    "communication_MB", "MB", 0.05, 1.0, column("bytes", 2**-20), higher_is_better=False
)
DELTA = 1e-5  # of every printed epsilon (FedFomo, section 4)


def _epsilon(result: Result, protocol: str, over: str, model: str) -> float:
    """The mean over clients, by Opacus' accountant; NaN where it, or what it needs, is missing."""
    private = result.config["schedule"].get("private")
    if private is None or not private["noise"]:
        return math.inf
    if find_spec("opacus") is None or private["sampling"] != "poisson":
        return math.nan
    try:
        return float(epsilons(result, DELTA).mean())
    except BadInput:  # not all of its steps are in the result
        return math.nan


EPSILON = Metric("epsilon", "", 0.05, 0.1, _epsilon, higher_is_better=False, cap=0.5)
