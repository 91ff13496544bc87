"""A run on a federation of a user's own that has a name: what it is stored under."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from pfl_lib import engine
from pfl_lib.errors import BadInput
from pfl_lib.experiments import own
from pfl_lib.experiments.spec import (
    built_in,
    check_storable,
    described,
    folder_name,
    inner,
    versions_of,
)
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Method
from pfl_lib.results.files import key_of


@dataclass(frozen=True, eq=False)
class FederationRun:
    """A method on a federation that has a name; `Store` reads and writes it as it does a `RunSpec`.

    The key follows from the federation's name and version, from all of its data and the model every
    client starts from, with its settings, from schedule, seed and Alice, and from the method.
    Raises BadInput for a method that does not say what its results are to be stored under.
    """

    method: Method
    federation: Federation
    measures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.federation.name is None:
            raise BadInput("a federation without a name is not stored: give it name='patients'")
        check_storable(self.method)

    @property
    def schedule(self) -> Schedule:
        return self.federation.schedule

    @cached_property
    def _config(self) -> dict[str, Any]:
        fed, method = self.federation, self.method
        versions = versions_of(method, fed.schedule, fed.layout.S > 0)
        versions = {name: version for name, version in versions.items() if version != 1}
        return {
            "method": described(method),
            "dataset": fed.name,
            # What a data set's fingerprint is to the package's own.
            "fingerprint": data_checksum(fed, *fed.initial().values()),
            "images": None,
            "partition": {"name": "own data", "version": fed.version},
            "model": " ".join(repr(fed.module).split()),
            "clients": len(fed),
            "schedule": described(fed.schedule),
            "seed": fed.seed,
            "alice": fed.alice,
            "loss": fed.loss,
            "dtype": str(fed.dtype).removeprefix("torch."),
            "engine": engine.VERSION,
            **({"versions": versions} if versions else {}),
            **({"measures": list(self.measures)} if self.measures else {}),
            **({"model settings": fed.model_settings} if fed.model_settings else {}),
            "own": {**check_storable(method), "data": {}},
        }

    def config(self) -> dict[str, Any]:
        """Everything the numbers depend on, as JSON has it."""
        return dict(self._config)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of `config()`."""
        return key_of(self._config)

    @property
    def slug(self) -> str:
        """A readable folder name that is unique."""
        return folder_name(self._config)

    @cached_property
    def source(self) -> str:
        """`own.source_of` the classes of method and model that are a user's own, "" for none."""
        parts = dict.fromkeys(type(part) for part in self.federation.module.modules())
        kinds = [] if built_in(self.method) else [type(inner(self.method))]
        kinds += [k for k in parts if k.__module__.split(".")[0] not in ("torch", "pfl_lib")]
        return own.source_of(*kinds) if kinds else ""


def data_checksum(fed: Federation, *rows: Tensor) -> str:
    """16 hex digits over every client's examples and labels in each split, and over `rows`."""
    digest = hashlib.sha256()
    for name, split in sorted(fed.clients.splits.items()):
        for index, labels in zip(split.index, split.labels, strict=True):
            digest.update(f"{name} {len(index)}\n".encode())
            for part in (split.pool.inputs(index), labels):
                digest.update(part.cpu().contiguous().numpy().tobytes())
    for row in rows:
        digest.update(row.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
