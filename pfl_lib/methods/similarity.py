"""Averages that weigh clients by how near their updates are (pFedLA's Figure 1)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.engine.layout import Layer
from pfl_lib.errors import A_SHARE, check_settings, choose, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods.local import Local
from pfl_lib.methods.pfedla import mixed_models
from pfl_lib.rows import Rows, as_kept, distances, models_of, with_models

FINDING = 60  # halvings of the interval in which the temperature is looked for
WIDEST = 1e9  # it reaches from the mean distance over this to the mean distance times this


@dataclass(frozen=True)
class Similarity:
    """Each client is served the average of all models, the nearer ones heavier (pFedLA, Figure 1):

        Delta_i = theta_i - thetabar_i,  d_ij = |Delta_i - Delta_j|,
        w_ij = softmax over j of -d_ij / T,  thetabar_i <- sum_j w_ij theta_j.

    The figure's text says "similarity between layers" and "between models": this reading is ours.

    * `by`: "model" takes distances of whole updates; "layer" those of a layer for its weights.
    * T is found anew in each round, one for all clients and layers: weights have on average, over
      both, so much `entropy` as a share of ln n, that of equal weights.  Two runs that differ in
      `by` alone share equally much.  Layers in which clients hardly differ are shared more.
    * `entropy` 1 is FedAvg with equal weights, 0 is Local where no two updates are the same.
    * Of n participants, each is served a mixture of these n; the others keep theirs.
    * A norm's running statistics are mixed as the layer before it (`pfedla.mixed_models`).
    """

    by: str = setting("layer", choose, ("layer", "model"))
    entropy: float = setting(0.75, *A_SHARE)

    name, title, version = "similarity", "Average by similarity", 1
    start, served = Local.start, as_kept
    __post_init__ = check_settings

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        """Layers of running statistics alone once had a part in T; few networks have such."""
        return {"layers without parameters": 1 + (statistics and self.by == "layer")}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients, layers = fed.participants(r), fed.layout.layers
        given = models_of(state, clients)
        trained, _ = fed.train(given, r, clients)

        parts = layers if self.by == "layer" else None
        apart = update_distances(trained["theta"] - given["theta"], parts)
        sized = torch.tensor([layer.size > 0 for layer in parts or ()] or [True])
        weights = weights_at(apart, temperature(apart[sized], self.entropy))
        by_layer = weights.expand(len(layers), -1, -1).transpose(0, 1).to(trained["theta"])
        mixed = mixed_models(by_layer, trained, layers)

        shown = torch.zeros(len(weights), len(fed), len(fed), dtype=torch.float64)
        shown[:, torch.tensor(clients)[:, None], torch.tensor(clients)] = weights
        shown = shown if self.by == "layer" else shown[0]
        log = {"weights": shown, "models_up": len(clients), "models_down": len(clients)}
        return with_models(state, clients, mixed), log


def update_distances(updates: Tensor, layers: tuple[Layer, ...] | None) -> Tensor:
    """Euclidean distances of updates [n, P] to each other, layer by layer [L, n, n] or, without
    layers, as a whole [1, n, n]; float64, on the CPU.
    """
    parts = [updates] if layers is None else [updates[:, of.start : of.stop] for of in layers]
    return torch.stack([torch.stack([distances(part, row) for row in part]) for part in parts])


def weights_at(apart: Tensor, temperature: float) -> Tensor:
    """softmax(-d / T) over the last dimension of distances; T infinite gives equal weights."""
    return (-apart / temperature).softmax(-1)


def mean_entropy(weights: Tensor) -> float:
    """The entropy of weights [..., n] over the last dimension, as a share of ln n; its mean."""
    return (-torch.xlogy(weights, weights).sum(-1) / math.log(weights.shape[-1])).mean().item()


def temperature(apart: Tensor, entropy: float) -> float:
    """The T at which weights from distances [L, n, n] have this mean entropy, a share of ln n.

    The entropy grows with T, so halving an interval finds it.  Clients at distance 0 share at any
    T; where that alone is more than `entropy`, T is the smallest that is looked at.
    """
    scale = apart.mean().item()
    if entropy == 1 or not scale > 0:
        return math.inf
    low, high = -math.log(WIDEST), math.log(WIDEST)
    for _ in range(FINDING):
        middle = (low + high) / 2
        if mean_entropy(weights_at(apart, scale * math.exp(middle))) < entropy:
            low = middle
        else:
            high = middle
    return scale * math.exp(high)
