"""APFL (Deng et al. 2020): every client mixes a model of its own with the shared one, and learns
how much.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, number
from pfl_lib.federation.federation import Federation
from pfl_lib.rows import (
    Batch,
    Gradient,
    Rows,
    average,
    copies,
    descend,
    model,
    select_rows,
    uniform,
    weights_of_all,
    with_rows,
)


@dataclass(frozen=True)
class APFL:
    """APFL, Algorithm 1, with the adaptive mixture of its section 4.

    Each local step, with vbar = a v + (1 - a) w:
        v <- v - lr grad_v f(vbar) = v - lr a grad f(vbar);   w <- w - lr grad f(w)
    once a round, at its first step:  a <- clip(a - lr <v - w, grad f(vbar)>, 0, 1);   server: w <-
    mean of the clients' w. Served is a v + (1 - a) w with the freshly averaged w.

    * WAFFLE says only that the mixture is adapted; `alpha` 0.5 is where it starts (the default of
      FedTorch, APFL's official code, which adapts once a round too, and of Roschewitz's
      implementation, which WAFFLE's authors used); v starts at w, so round 1 leaves it.
    * `adaptive=False` keeps `alpha`: 1 is local training, 0 is FedAvg.
    * Only clients whose model is read keep and train a v: Alice alone, where she alone is read; the
      others are served w.
    * The average is uniform, as in WAFFLE's benchmark.
    """

    alpha: float = 0.5
    adaptive: bool = True

    name: ClassVar[str] = "apfl"
    title: ClassVar[str] = "APFL"
    version: ClassVar[int] = 1
    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number(
            "alpha",
            self.alpha,
            "a mixture from 0 (shared model) to 1 (own model)",
            lambda v: 0 <= v <= 1,
        )
        if not isinstance(self.adaptive, bool):
            raise BadInput(f"adaptive {self.adaptive!r}: give True or False")

    def start(self, fed: Federation) -> dict[str, Tensor]:
        own = copies(
            fed.initial(), len(fed.evaluated_clients)
        )  # "personal" rows are the evaluated_clients', in their order
        alpha = torch.full((len(fed), 1), self.alpha, device=fed.device, dtype=fed.dtype)
        return {
            **fed.initial(),
            "personal": own["theta"],
            "personal statistics": own["statistics"],
            "alpha": alpha,
        }

    def round(
        self, fed: Federation, state: dict[str, Tensor], r: int
    ) -> tuple[dict[str, Tensor], dict]:
        clients = fed.participants(r)
        row_of = {reader: k for k, reader in enumerate(fed.evaluated_clients)}
        mixing, sharing = (
            [i for i in clients if i in row_of],
            [i for i in clients if i not in row_of],
        )
        # Whose rows these are in the state's matrices.
        owners = {
            name: [row_of[i] for i in mixing] for name in ("personal", "personal statistics")
        } | {"alpha": mixing}
        rows = copies(state, len(mixing)) | {
            name: select_rows(state[name], of) for name, of in owners.items()
        }
        mixed, _ = fed.train(rows, r, mixing, self._step, trained=("theta", *owners))
        shared = model(mixed)
        if sharing:
            others, _ = fed.train(copies(state, len(sharing)), r, sharing)
            # Back in the clients' order, so that the average does not depend on who mixes.
            place = sorted(range(len(clients)), key=[*mixing, *sharing].__getitem__)
            shared = {name: torch.cat([shared[name], others[name]])[place] for name in shared}

        weights = uniform(len(clients))
        after = average(weights, shared) | {
            name: with_rows(state[name], of, mixed[name]) for name, of in owners.items()
        }
        log = {
            "weights": weights_of_all(weights, clients, len(fed)),
            "alpha": after["alpha"][:, 0].double().cpu(),
            "models_up": len(clients),
            "models_down": len(clients),
        }
        return after, log

    def served(self, fed: Federation, state: dict[str, Tensor]) -> Rows:
        alpha = state["alpha"][fed.evaluated_clients]

        def mixed(own: Tensor, shared: Tensor) -> Tensor:
            mixtures = (alpha * own).add_((1 - alpha) * shared)
            return with_rows(shared.expand(len(fed), -1), fed.evaluated_clients, mixtures)

        return {
            "theta": mixed(state["personal"], state["theta"]),
            "statistics": mixed(state["personal statistics"], state["statistics"]),
        }

    def _step(self, rows: Rows, gradient: Gradient, batch: Batch) -> None:
        w, v, alpha = rows["theta"], rows["personal"], rows["alpha"]
        at_mixture = gradient(alpha * v + (1 - alpha) * w, batch, rows["personal statistics"])
        at_shared = gradient(w, batch, rows["statistics"])
        slope = ((v - w) * at_mixture).sum(-1, keepdim=True)
        descend(rows, "personal", alpha * at_mixture, batch)
        descend(rows, "theta", at_shared, batch)
        if self.adaptive and self.by_step and batch.index == 0:
            alpha.sub_(batch.lr * slope).clamp_(0, 1)


@dataclass(frozen=True)
class APFLByRound(APFL):
    """APFL whose mixture moves once a round, after training, by all that training did: a <- clip(a
    + <v - w, v_after - v>, 0, 1).

    v and w are the models of the round's start.  This is how the implementation that WAFFLE's
    authors were given moves it (D. Roschewitz, iFedAvg; he also serves the mixture with a client's
    own w before averaging): a step of size lr a along the sum of a round's gradients, not the first
    one's.  On distribution C with all 60,000 images the mixture then reaches 1 in round 2, which is
    local training, and the paper's APFL and Local agree within 0.4 points on four of its five
    distributions.  On the fifth, A, it falls to 0 instead, which is averaging: neither rule gives
    the paper's value there.
    """

    name: ClassVar[str] = "apfl_by_round"
    title: ClassVar[str] = "APFL (by round)"
    version: ClassVar[int] = 1
    by_step: ClassVar[bool] = False

    def round(
        self, fed: Federation, state: dict[str, Tensor], r: int
    ) -> tuple[dict[str, Tensor], dict]:
        after, log = super().round(fed, state, r)
        if self.adaptive:
            v, w = state["personal"], state["theta"]
            moved = ((v - w) * (after["personal"] - v)).sum(-1, keepdim=True)
            after["alpha"] = state["alpha"].clone()
            after["alpha"][fed.evaluated_clients] = (
                state["alpha"][fed.evaluated_clients] + moved
            ).clamp_(0, 1)
            log["alpha"] = after["alpha"][:, 0].double().cpu()
        return after, log
