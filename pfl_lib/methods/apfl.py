"""APFL (Deng et al. 2020): every client learns how to mix its own model with the shared one."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, check_settings, choose, flag, number, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.rows import (
    Batch,
    Gradient,
    Rows,
    average,
    copies,
    descend,
    each_sends_a_model,
    model,
    models_of,
    personal,
    personal_models,
    select_rows,
    uniform,
    with_models,
    with_rows,
)

MIXTURE = (number, "a mixture from 0 (shared model) to 1 (own model)", lambda v: 0 <= v <= 1)


@dataclass(frozen=True)
class APFL:
    """APFL, Algorithm 1, with the adaptive mixture of its section 4.

    Each local step, with vbar = a v + (1 - a) w:
        v <- v - lr grad_v f(vbar) = v - lr a grad f(vbar);   w <- w - lr grad f(w)
    once a round, at its first step:  a <- clip(a - lr <v - w, grad f(vbar)>, 0, 1)
    server:  w <- mean of the clients' w.   Served is a v + (1 - a) w with the new w.

    * WAFFLE says only that the mixture is adapted.  `alpha` 0.5 is where it starts: the default of
      FedTorch, APFL's official code, and of iFedAvg by D. Roschewitz, whom WAFFLE's authors thank
      for an implementation.  From v = w, a mixture that moves once a round does not in round 1.
    * `adaptive=False` keeps `alpha`: 1 is local training, 0 is FedAvg("uniform").
    * `mixture_step`: "first batch" moves the mixture once a round, as FedTorch does; "every batch"
      at each local step; "round" after training, by all that it did, as iFedAvg does:
      a <- clip(a + <v - w, v_after - v>, 0, 1) with the round's first v and w, a step of size lr a
      along the sum of the round's gradients.
    * Clients whose model is not read keep no v: they train w alone and are served w.
    * The average is uniform, as in WAFFLE's benchmark.

    iFedAvg differs in three more points, each with a name here:

    * `own_start="random"`: v starts at a random model of the client's own, not at w.
    * `averaged="mixtures"`: the server averages the clients' a v + (1 - a) w, so that all keep a v.
      (iFedAvg also tests each with the client's own w, before averaging; here with the new one.)
    * `own_gradient="outputs"`: the loss of v mixes log-probabilities, a log p_v + (1 - a) log p_w,
      whose gradient is a grad f(v); a mixture that moves then moves by the round.

    * BatchNorm's statistics belong to the mixture and are measured at it, in the row "personal
      statistics"; at a mixture of 0 the client is served the shared model, statistics included, and
      the shared model's statistics before it has trained (at a mixture of 1 its own).
    """

    alpha: float = setting(0.5, *MIXTURE)
    adaptive: bool = setting(True, flag)
    mixture_step: str = setting("first batch", choose, ("first batch", "every batch", "round"))
    own_start: str = setting("shared", choose, ("shared", "random"))
    averaged: str = setting("shared", choose, ("shared", "mixtures"))
    own_gradient: str = setting("mixture", choose, ("mixture", "outputs"))

    name, title, version = "apfl", "APFL", 1
    later = ("mixture_step", "own_start", "averaged", "own_gradient")
    look = ("#cc78bc", "v", "--")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.own_gradient == "outputs" and self.adaptive and self.mixture_step != "round":
            raise BadInput(
                f"mixture_step {self.mixture_step!r} needs the gradient at the mixture, which"
                " own_gradient 'outputs' does not compute: give mixture_step='round' or"
                " adaptive=False"
            )

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        """Running statistics of the mixture were once mixed with the shared model's; later clients
        that had not trained were served those of the initial model.
        """
        measured = 2 if schedule.all_take_part else 3
        return {"statistics of the mixture": measured if statistics else 1}

    def cost(self, passes: float, read: float) -> float:
        return passes * (2 if self.averaged == "mixtures" else 1 + read)

    def _mixing(self, fed: Federation) -> list[int]:
        """The clients that keep a v, in the order of the state's rows "personal ..."."""
        return list(range(len(fed))) if self.averaged == "mixtures" else fed.evaluated_clients

    def start(self, fed: Federation) -> Rows:
        if fed.layout.S and self.own_gradient == "outputs":
            why = "own_gradient 'outputs' measures no running statistics at the mixture"
            raise BadInput(f"{why}: give own_gradient='mixture', or a model without BatchNorm")
        mixing = self._mixing(fed)
        at_random = self.own_start == "random"
        own = fed.initial_each(mixing) if at_random else copies(fed.initial(), len(mixing))
        alpha = torch.full((len(fed), 1), self.alpha, device=fed.device, dtype=fed.dtype)
        return {**fed.initial(), **personal(own), "alpha": alpha}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        row_of = {client: k for k, client in enumerate(self._mixing(fed))}
        mixing = [i for i in clients if i in row_of]
        sharing = [i for i in clients if i not in row_of]
        # Which rows of the state's matrices belong to the mixing clients.
        own = [row_of[i] for i in mixing]
        places = {"personal": own, "personal statistics": own, "alpha": mixing}
        before = copies(state, len(mixing))
        before |= {name: select_rows(state[name], rows) for name, rows in places.items()}
        mixed, _ = fed.train(before, r, mixing, self._step, trained=("theta", *places))
        if self.adaptive and self.mixture_step == "round":
            v, w = before["personal"], before["theta"]
            moved = ((v - w) * (mixed["personal"] - v)).sum(-1, keepdim=True)
            mixed["alpha"] = (before["alpha"] + moved).clamp_(0, 1)
        shared = mixture(mixed) if self.averaged == "mixtures" else model(mixed)
        if sharing:
            others, _ = fed.train(copies(state, len(sharing)), r, sharing)
            # Back in the clients' order, so that the average does not depend on who mixes.
            order = sorted(range(len(clients)), key=[*mixing, *sharing].__getitem__)
            shared = {name: torch.cat([shared[name], others[name]])[order] for name in shared}

        weights = uniform(len(clients))
        after = average(weights, shared)
        after |= {name: with_rows(state[name], rows, mixed[name]) for name, rows in places.items()}
        log = each_sends_a_model(weights, clients, len(fed))
        return after, log | {"alpha": after["alpha"][:, 0].double().cpu()}

    def served(self, fed: Federation, state: Rows) -> Rows:
        mixing, evaluated = self._mixing(fed), fed.evaluated_clients
        own = models_of(personal_models(state), [mixing.index(i) for i in evaluated])
        alpha, unmeasured = state["alpha"][evaluated], fed.initial()["statistics"]
        measured = (own["statistics"] != unmeasured).any(-1, keepdim=True) | (alpha == 1)
        own["statistics"] = own["statistics"].where(measured, state["statistics"])
        mixed = mixture(state | personal(own) | {"alpha": alpha})
        return with_models(copies(state, len(fed)), evaluated, mixed)

    def _step(self, rows: Rows, gradient: Gradient, batch: Batch) -> None:
        w, v, alpha = rows["theta"], rows["personal"], rows["alpha"]
        if self.own_gradient == "outputs":
            of_own = gradient(v, batch)
        else:
            of_own = gradient(between(alpha, v, w), batch, rows["personal statistics"])
        at_shared = gradient(w, batch, rows["statistics"])
        slope = ((v - w) * of_own).sum(-1, keepdim=True)
        descend(rows, "personal", alpha * of_own, batch)
        descend(rows, "theta", at_shared, batch)
        first = self.mixture_step == "first batch" and batch.index == 0
        if self.adaptive and (first or self.mixture_step == "every batch"):
            alpha.sub_(batch.lr * slope).clamp_(0, 1)


def between(alpha: Tensor, own: Tensor, shared: Tensor) -> Tensor:
    """a v + (1 - a) w, [n, P] or [P]; v itself at a = 1, whatever w has become."""
    return torch.where(alpha == 1, own, alpha * own + (1 - alpha) * shared)


def mixture(rows: Rows) -> Rows:
    """The models a v + (1 - a) w, [n, P], with the statistics measured at them, [n, S]."""
    alpha, shared = rows["alpha"], rows["statistics"]
    return {
        "theta": between(alpha, rows["personal"], rows["theta"]),
        "statistics": torch.where(alpha == 0, shared, rows["personal statistics"]),
    }
