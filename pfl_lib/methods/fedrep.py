"""FedRep (Collins et al. 2021): every client keeps a head of its own on a shared body."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pfl_lib.engine.layout import Layer
from pfl_lib.errors import BadInput, check_settings, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import MOST
from pfl_lib.methods import partial
from pfl_lib.methods.fedavg import WEIGHTING
from pfl_lib.progress import tell
from pfl_lib.rows import Batch, Gradient, Rows, Step, as_kept, copies, descend, models_of


@dataclass(frozen=True)
class FedRep:
    """FedRep, Algorithm 1: a client trains its head on the received body, then the body under the
    new head; the server averages the bodies.

    * `head`: the layers that stay, by name; None: the last one, the classifier, as in the paper.
      () leaves no head, and all local epochs to the body: FedAvg.
    * `body_epochs` of the schedule's local epochs train the body, the rest the head: 9 and 1 of
      pFedLA's ten (our choice; the authors' CIFAR-10 runs train 10 and 1).  The head gets one at
      least, so that a schedule of one local epoch makes two passes: one for each part.
    * Momentum starts anew with each part.  Running statistics follow both, as in the authors' code.
    * `weighting`: "size" as the authors' code, or "uniform" (Algorithm 1).
    """

    head: tuple[str, ...] | None = setting(None, partial.check_names)
    body_epochs: int = setting(1, whole, 1, MOST)
    weighting: str = setting("size", *WEIGHTING)

    name, title, version = "fedrep", "FedRep", 1
    served = as_kept
    __post_init__ = check_settings

    def cost(self, passes: float, read: float) -> float:
        """Passes over the participants' data: those of head and body."""
        return passes if self.head == () else sum(self._epochs(passes))

    def start(self, fed: Federation) -> Rows:
        """All clients' models; BadInput where `head` names no layer, local work is not counted in
        epochs, or the body gets all of them.
        """
        head, work = self._head(fed), fed.schedule
        shared = partial.shared_layers(fed, head)
        if head and shared and work.local_epochs > 1 and self.body_epochs >= work.local_epochs:
            raise BadInput(
                f"body_epochs {self.body_epochs}: of {work.local_epochs} local epochs the head gets"
                f" one at least, so give at most {work.local_epochs - 1}"
            )
        if head and work.local_batches is not None:
            why = f"{self.title} divides local epochs between head and body"
            raise BadInput(f"local_batches {work.local_batches}: {why}; give local_epochs instead")
        if not shared:
            tell(f"{self.name} shares no layer of this network: it is local training")
        return copies(fed.initial(), len(fed))

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients, head = fed.participants(r), self._head(fed)
        shared = partial.shared_layers(fed, head)
        rows, body_epochs = models_of(state, clients), None
        if head:
            kept = [fed.layout.layer(name) for name in head]
            epochs, body_epochs = self._epochs(fed.schedule.local_epochs)
            epochs = epochs if shared else fed.schedule.local_epochs
            alone = {"epochs": epochs, "purpose": "batches of the head", "uploaded": ()}
            rows, _ = fed.train(rows, r, clients, only(kept, fed), **alone)
        if shared:
            step = only(shared, fed)
            rows, _ = fed.train(rows, r, clients, step, epochs=body_epochs, uploaded=shared)
        return partial.averaged(fed, state, clients, rows, shared, self.weighting)

    def _epochs(self, local: float) -> tuple[float, float]:
        """Epochs of the head and of the body out of the schedule's."""
        return max(1, local - self.body_epochs), self.body_epochs

    def _head(self, fed: Federation) -> tuple[str, ...]:
        return (fed.layout.layers[-1].name,) if self.head is None else self.head


def only(layers: Sequence[Layer], fed: Federation) -> Step:
    """A local step of SGD on these layers; the others stay, untouched by weight decay too."""
    moving = torch.zeros(fed.layout.P, dtype=torch.bool, device=fed.device)
    for layer in layers:
        moving[layer.start : layer.stop] = True

    def step(rows: Rows, gradient: Gradient, batch: Batch) -> None:
        theta = rows["theta"]
        before = theta.clone()
        descend(rows, "theta", gradient(theta, batch, rows["statistics"]), batch)
        theta.copy_(torch.where(moving, theta, before))

    return step
