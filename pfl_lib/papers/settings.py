"""A setting of a paper's table: everything that its runs have in common but method and seed."""

from dataclasses import dataclass, replace
from typing import Any

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Method
from pfl_lib.partitions import Recipe


@dataclass(frozen=True)
class Setting:
    """Data set, partition, clients, model and schedule of some runs; fields as of `RunSpec`.

    `alice`: the client whose model is read, None for all.  `validation`: the share of each client's
    training examples that is held out.
    """

    dataset: str
    partition: str | Recipe
    model: str
    schedule: Schedule
    clients: int = 10
    alice: int | None = 0
    images: int | None = None
    validation: float = 0.0
    loss: str = "cross_entropy"
    measures: tuple[str, ...] = ()
    evaluate_every: int = 1

    def spec(self, method: Method, seed: int) -> RunSpec:
        """The run of a method with a seed."""
        return RunSpec(method=method, seed=seed, **vars(self))

    def scheduled(self, **changes: Any) -> "Setting":
        """The same setting with some fields of its schedule changed."""
        return replace(self, schedule=replace(self.schedule, **changes))
