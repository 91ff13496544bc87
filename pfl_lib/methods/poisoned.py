"""Any method among clients of whom some cheat: by random labels, or by what they send."""

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, check_settings, choose, number, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Ditto, FedBN, FedRep, LGFedAvg, Local, Method, check_method
from pfl_lib.randomness import generator
from pfl_lib.rows import Rows, finite_rows

ENDLESS = {"nan": math.nan, "infinite": math.inf}
ATTACKS = ("labels", "flipped", "update", "noise", *ENDLESS)
KEEPING = (Local, Ditto, FedRep, LGFedAvg, FedBN)  # methods that keep some of what they train


@dataclass(frozen=True)
class Poisoned:
    """`method`, where `clients` cheat; whether it resists is WAFFLE's open question (appendix A).

    * `attack` "labels": their training labels are drawn anew, uniformly and once for the run, by
      seed and client; "flipped": label y becomes the last label less y.  All else is honest,
      what `start` trains (FedFomo's warm-up) too.
    * `attack` "update": they send x + `scale` (y - x) where they have trained from x to y.  -1
      reverses the update, -10 makes it ten times as long too.  "noise": they send y and Gaussian
      noise that is `scale` times as long as the whole update, drawn by (seed, round, client).
      "nan", "infinite": they send NaN, or the update times infinity.  Control variates stay as they
      are.  Of what APFL's averaged="mixtures" sends, a v + (1 - a) w, w alone is attacked.
      What stays with a client stays honest: Ditto's own model, local training's, the head of
      FedRep, the layers that LG-FedAvg and FedBN keep.  Where one model is both sent and kept
      (MOCHA), the client goes on from what it sent.

    Give it to `pfl_lib.run`, or as any method's to a `RunSpec`.
    """

    method: Method
    clients: tuple[int, ...]
    attack: str = setting("labels", choose, ATTACKS)
    scale: float = setting(-1.0, number, "a finite number", math.isfinite)

    name, title, version = "poisoned", "with poisoned clients", 1

    def __post_init__(self) -> None:
        if isinstance(self.method, str):
            raise BadInput(f"method {self.method!r}: give a method, such as FedAvg()")
        check_method(self.method)
        check_settings(self)
        if not isinstance(self.clients, tuple) or any(type(i) is not int for i in self.clients):
            raise BadInput(f"clients {self.clients!r}: give a tuple of clients' numbers")

    def cost(self, passes: float, read: float) -> float:
        return self.method.cost(passes, read) if hasattr(self.method, "cost") else passes

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        own = getattr(self.method, "versions", lambda *_: {})
        # What stays with a client was once changed too.
        kept = self.attack == "update" and isinstance(self.method, KEEPING)
        told = own(schedule, statistics) | {"what is uploaded": 2 if kept else 1}
        # An outer attack once changed what an inner method keeps.
        return told | ({"attacks nest": 2} if isinstance(self.method, Poisoned) else {})

    def start(self, fed: Federation) -> Rows:
        for i in self.clients:
            if i == fed.alice:
                raise BadInput(f"client {i} is Alice, who is honest: leave her out")
            if not 0 <= i < len(fed):
                raise BadInput(f"client {i} is poisoned, and the clients are 0 to {len(fed) - 1}")
        return self.method.start(fed)

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        return self.method.round(self._attacked(fed), state, r)

    def served(self, fed: Federation, state: Rows) -> Rows:
        # What is served may be trained too: on the labels that the client has.
        of_labels = self.attack in ("labels", "flipped")
        return self.method.served(self._attacked(fed) if of_labels else fed, state)

    def _attacked(self, fed: Federation) -> Federation:
        """The federation as the server meets it."""
        if self.attack == "labels":
            return fed.with_training_labels({i: random_labels(fed, i) for i in self.clients})
        if self.attack == "flipped":
            labels, last = fed.clients.splits["train"].labels, fed.clients.classes - 1
            return fed.with_training_labels({i: last - labels[i] for i in self.clients})
        attacked, train = copy.copy(fed), fed.train

        def sent(rows: Rows, round: int, clients, *args, uploaded=None, **settings) -> tuple:
            trained, steps = train(rows, round, clients, *args, uploaded=uploaded, **settings)
            layers = fed.layout.layers if uploaded is None else uploaded
            false = [k for k, i in enumerate(clients) if i in self.clients]
            if "theta" not in trained or not false:
                return trained, steps
            after, before = trained["theta"], rows["theta"][false]
            other = self._sent(before, after[false], fed, round, [clients[k] for k in false])
            for columns in (slice(layer.start, layer.stop) for layer in layers):
                after[false, columns] = other[:, columns]
            fed.non_finite.update(clients[k] for k in false if not finite_rows(after[[k]]))
            return trained, steps

        attacked.train = sent
        return attacked

    def _sent(
        self, before: Tensor, after: Tensor, fed: Federation, r: int, clients: list[int]
    ) -> Tensor:
        """What these clients send, [n, P], in place of what they have trained."""
        if self.attack != "noise":
            return before + ENDLESS.get(self.attack, self.scale) * (after - before)
        draws = [generator(fed.seed, "poisoned noise", r, client) for client in clients]
        width, how = fed.layout.P, {"dtype": torch.float32}
        noise = torch.stack([torch.randn(width, generator=draw, **how) for draw in draws])
        noise = torch.nn.functional.normalize(noise.double()).to(after)
        return after + self.scale * (after - before).norm(dim=1, keepdim=True) * noise


def random_labels(fed: Federation, client: int) -> Tensor:
    """Uniform labels [n] for a client's training examples, by seed and client."""
    size, classes = int(fed.sizes([client])), fed.clients.classes
    return torch.randint(classes, (size,), generator=generator(fed.seed, "poisoned labels", client))
