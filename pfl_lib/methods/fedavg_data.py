"""FedAvg with shared data (Zhao et al. 2018): clients also train on a small pool of everybody's
examples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, choose, number
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.participation import round_half_up
from pfl_lib.randomness import generator
from pfl_lib.rows import Rows, average, copies, model, uniform, weights_of_all


@dataclass(frozen=True)
class FedAvgData:
    """FedAvg (McMahan et al. 2017, Algorithm 1) whose clients train on their own examples and on
    those that the others have put into a common pool.

    * `share` is the pool's size over the clients' mean number of training examples: 0.05 in
      FedFomo ("the 5% data-sharing strategy"), so each client's data grow by about 5 %; 0 is
      FedAvg.
    * The pool is drawn once: each client gives floor(n_i share / N) of its n_i examples at random,
      and clients drawn at random one more each until the pool is full.  FedFomo's released code has
      each give n_i share / N; a whole number of it would be none with its 100 clients.
    * No client gets its own examples twice.  Shared examples keep their giver's labels.
    * `weighting` is as in FedAvg; "size" counts shared examples too, being what a client trains on.
    * Zhao et al. hold a separate global set of examples, and train on it before the first round
      ("warm-up"); FedFomo does neither.  The pool's transfer is not counted in models.
    """

    share: float = 0.05
    weighting: str = "size"

    name: ClassVar[str] = "fedavg_data"
    title: ClassVar[str] = "FedAvg + Data"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        number("share", self.share, "a share from 0 to 1", lambda v: 0 <= v <= 1)
        choose("weighting", self.weighting, ("size", "uniform"))

    def cost(self, passes: float, read: float) -> float:
        return passes * (1 + self.share)

    def start(self, fed: Federation) -> dict[str, Tensor]:
        """BadInput where the pool would be empty although the share is not 0."""
        sizes = fed.sizes().tolist()
        if self.share and not pool_size(sizes, self.share):
            raise BadInput(
                f"share {self.share!r} of {sum(sizes) / len(sizes):g} training examples a client is"
                " no whole example: give a larger share, or 0 for FedAvg"
            )
        return fed.initial()

    def round(
        self, fed: Federation, state: dict[str, Tensor], r: int
    ) -> tuple[dict[str, Tensor], dict]:
        clients = fed.participants(r)
        given = gifts(fed.sizes().tolist(), self.share, fed.seed)
        trained, _ = fed.train(copies(state, len(clients)), r, clients, shared=given)
        pool = sum(map(len, given.values()))
        sizes = fed.sizes(clients) + torch.tensor([pool - len(given.get(i, ())) for i in clients])
        weights = sizes / sizes.sum() if self.weighting == "size" else uniform(len(clients))
        log = {
            "weights": weights_of_all(weights, clients, len(fed)),
            "models_up": len(clients),
            "models_down": len(clients),
        }
        return average(weights, trained), log

    def served(self, fed: Federation, state: dict[str, Tensor]) -> Rows:
        return model(state)


def pool_size(sizes: Sequence[float], share: float) -> int:
    """How many examples are shared by clients with so many training examples each."""
    return round_half_up(share * sum(sizes) / len(sizes))


def gifts(sizes: Sequence[float], share: float, seed: int) -> dict[int, Tensor]:
    """What the clients put into the pool: {client: positions among its training examples}, without
    those that give nothing.  Drawn by (seed, "shared data").
    """
    counts = [math.floor(size * share / len(sizes)) for size in sizes]
    random = generator(seed, "shared data")
    more = torch.randperm(len(sizes), generator=random)[: pool_size(sizes, share) - sum(counts)]
    for client in more.tolist():
        counts[client] += 1
    return {
        client: torch.randperm(int(size), generator=generator(seed, "shared data", client))[:count]
        for client, (size, count) in enumerate(zip(sizes, counts, strict=True))
        if count
    }
