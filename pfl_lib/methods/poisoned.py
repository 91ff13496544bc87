"""Any method among clients of whom some cheat: by random labels, or by what they send."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, choose, number
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Method
from pfl_lib.randomness import generator
from pfl_lib.rows import Rows


@dataclass(frozen=True)
class Poisoned:
    """`method`, where the clients named in `clients` cheat; whether it resists is WAFFLE's open
    question (appendix A).

    * `attack` "labels": their training labels are drawn anew, uniformly and once for the run, by
      seed and client.  All else they do honestly.
    * `attack` "update": they send x + `scale` (y - x) where they have trained from x to y.  -1
      reverses the update, -10 makes it ten times as long too.  Control variates stay as they are.
      All that is trained as "theta" is sent so: also what a method keeps with the client, such as
      Ditto's own model, and in each of FedRep's two parts.

    Give it to `pfl_lib.run`, or as any method's to a `RunSpec`.
    """

    method: Method
    clients: tuple[int, ...]
    attack: str = "labels"
    scale: float = -1.0

    name: ClassVar[str] = "poisoned"
    title: ClassVar[str] = "with poisoned clients"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        choose("attack", self.attack, ("labels", "update"))
        number("scale", self.scale, "a finite number", lambda v: abs(v) < float("inf"))
        if not isinstance(self.clients, tuple) or any(type(i) is not int for i in self.clients):
            raise BadInput(f"clients {self.clients!r}: give a tuple of clients' numbers")

    def cost(self, passes: float, read: float) -> float:
        """What the method costs."""
        return self.method.cost(passes, read) if hasattr(self.method, "cost") else passes

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        """The method's own versions under some settings."""
        own = getattr(self.method, "versions", lambda *_: {})
        return own(schedule, statistics)

    def start(self, fed: Federation) -> dict[str, Tensor]:
        for client in self.clients:
            if client == fed.alice:
                raise BadInput(f"client {client} is Alice, who is honest: leave her out")
            if not 0 <= client < len(fed):
                raise BadInput(
                    f"client {client} is poisoned, and the clients are 0 to {len(fed) - 1}"
                )
        return self.method.start(fed)

    def round(
        self, fed: Federation, state: dict[str, Tensor], r: int
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.method.round(self._attacked(fed), state, r)

    def served(self, fed: Federation, state: dict[str, Tensor]) -> Rows:
        return self.method.served(fed, state)

    def _attacked(self, fed: Federation) -> Federation:
        """The federation as the server meets it."""
        if self.attack == "labels":
            return fed.with_training_labels({i: random_labels(fed, i) for i in self.clients})
        attacked, train = copy.copy(fed), fed.train

        def sent(rows: Rows, r: int, clients, *args, **settings) -> tuple[Rows, Tensor]:
            trained, steps = train(rows, r, clients, *args, **settings)
            if "theta" in trained:
                false = [k for k, i in enumerate(clients) if i in self.clients]
                before = rows["theta"][false]
                trained["theta"][false] = before + self.scale * (trained["theta"][false] - before)
            return trained, steps

        attacked.train = sent
        return attacked


def random_labels(fed: Federation, client: int) -> Tensor:
    """Uniform labels [n] for a client's training examples, by seed and client."""
    size, classes = int(fed.sizes([client])), fed.clients.classes
    return torch.randint(classes, (size,), generator=generator(fed.seed, "poisoned labels", client))
