"""What the tests of experiments share: short descriptions of short runs, and equal bits."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pfl_lib import Federation, Schedule
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.experiments.training import Run
from pfl_lib.methods import FedAvg
from pfl_lib.partitions import Partition
from pfl_lib.results.result import Result
from tests.results.common import assert_same

FILE = """
from dataclasses import dataclass

FACTOR = {factor}


def halved(theta):
    return theta * FACTOR  # {comment}


@dataclass(frozen=True)
class Shrunk:
    '''A method in a file.'''

    times: int = 1
    name, title, version = "shrunk", "Shrunk", {version}

    def start(self, fed):
        return fed.initial()

    def round(self, fed, state, r):
        return {{"theta": halved(state["theta"]), "statistics": state["statistics"]}}, {{}}

    def served(self, fed, state):
        return state
"""


@dataclass(frozen=True)
class Read:
    """Who holds what is read from a file, which its source does not show."""

    path: str
    name, title, version, default_clients = "read", "Read", 1, 2

    def split(self, dataset, clients, seed, alice=None):
        first = int(Path(self.path).read_text())
        own = torch.arange(first, first + 60).chunk(clients)
        return Partition("read", own, own)


def spec(method=None, rounds: int = 2, clients: int = 2, lr: float = 0.1, **settings) -> RunSpec:
    """A run on the digits: LeNet-5, two clients with 140 images each."""
    schedule = Schedule(rounds, lr=lr, **settings.pop("schedule", {}))
    return RunSpec(
        method or FedAvg(), schedule, **{"dataset": "digits", "clients": clients, **settings}
    )


def drawn(clients: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Six random examples of four numbers for each client, of three labels."""
    random, data = torch.Generator().manual_seed(0), []
    for _ in range(clients):
        x = torch.randn(6, 4, generator=random)
        data.append((x, torch.randint(3, (6,), generator=random)))
    return data


def with_lost(*lost: int, clients: int = 4, since: int = 2, alice: int | None = 0) -> Federation:
    """Eight rounds; the `lost` come in round `since`, with inputs whose gradients overflow."""
    data = drawn(clients)
    train = [(x * 1e37 if i in lost else x, y) for i, (x, y) in enumerate(data)]
    schedule = Schedule(8, batch_size=2, lr=0.2, availability=tuple((i, since, 8) for i in lost))
    given = {"alice": alice, "device": "cpu"}
    return Federation.from_arrays(train, data, lambda: torch.nn.Linear(4, 3), schedule, **given)


def finished(run: Run) -> Run:
    """The run after its last round."""
    assert list(run.rounds())[-1] == run.done
    return run


def same_bits(one: Result, other: Result) -> bool:
    """Whether two results are equal to the last bit, with what they say of themselves but when."""
    told = (json.loads(json.dumps({**result.config, "finished": ""})) for result in (one, other))
    assert_same(*(replace(r, config=c, seconds=0) for r, c in zip((one, other), told, strict=True)))
    assert one.model.keys() == other.model.keys()
    return all(torch.equal(one.model[name], other.model[name]) for name in one.model)


def method_file(folder: Path, factor: float = 0.5, version: int = 1, comment: str = "half") -> str:
    """A file with a method in it; returns what names the method."""
    path = folder / f"method_{factor}_{version}_{comment}.py"
    path.write_text(FILE.format(factor=factor, version=version, comment=comment))
    return f"{path}:Shrunk"
