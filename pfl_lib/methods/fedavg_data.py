"""FedAvg with shared data (Zhao et al. 2018): clients train on a small common pool too."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import A_SHARE, BadInput, check_settings, choose, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.participation import round_half_up
from pfl_lib.methods.fedavg import WEIGHTING, averaging_weights
from pfl_lib.randomness import permutation
from pfl_lib.rows import Rows, as_kept, average, copies, each_sends_a_model

CLIENTS = 15  # FedFomo's
POOLS = {"all": "all {total:g} training examples", "client": "{mean:g} training examples a client"}


@dataclass(frozen=True)
class FedAvgData:
    """FedAvg (McMahan et al. 2017, Algorithm 1) whose clients train on their own examples and on
    those that the others have put into a common pool.

    * `share` is the pool's size over what `pool` names: 0.05 in FedFomo ("the 5% data-sharing
      strategy"); 0 is FedAvg.
    * `pool` "all": a share of all N clients' training examples together [Zhao et al., whose beta is
      the shared data over all clients'], so that each client gives 5 % of its own and, with 15
      clients, trains on 1.7 times as many.  "client": a share of what one client has on average,
      N times less [FedFomo's released code], so that its data grow by about 5 %.
    * The pool is drawn once: of its n_i examples each client gives floor(n_i share) or
      floor(n_i share / N) at random, and clients drawn at random one more each until the pool is
      full.  A whole number of the released code's n_i share / N would be none with 100 clients.
    * No client gets its own examples twice.  Shared examples keep their giver's labels.
    * `weighting` is as in FedAvg; "size" counts shared examples too, being what a client trains on.
    * Zhao et al.'s pool is no client's own and also trains the first model ("warm-up"), and a
      client gets a part alpha of it; FedFomo speaks of none of this, and here alpha is 1.  The
      pool's transfer is not counted in models.
    """

    share: float = setting(0.05, *A_SHARE)
    weighting: str = setting("size", *WEIGHTING)
    pool: str = setting("all", choose, POOLS)

    name, title, version = "fedavg_data", "FedAvg + Data", 1
    one_model = True  # the same for all clients
    later = {"pool": "client"}
    served = as_kept
    __post_init__ = check_settings

    def cost(self, passes: float, read: float) -> float:
        """As with `CLIENTS` clients, where their number counts."""
        return passes * (1 + self.share * (1 if self.pool == "client" else CLIENTS - 1))

    def start(self, fed: Federation) -> Rows:
        """BadInput where the pool would be empty although the share is not 0."""
        sizes = fed.sizes().tolist()
        if self.share and not gifts(sizes, self.share, fed.seed, self.pool):
            of = POOLS[self.pool].format(total=sum(sizes), mean=sum(sizes) / len(sizes))
            more = "give a larger share, or 0 for FedAvg"
            raise BadInput(f"share {self.share!r} of {of} is no whole example: {more}")
        return fed.initial()

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        given = gifts(fed.sizes().tolist(), self.share, fed.seed, self.pool)
        trained, _ = fed.train(copies(state, len(clients)), r, clients, shared=given)
        pool = sum(map(len, given.values()))
        sizes = fed.sizes(clients) + torch.tensor([pool - len(given.get(i, ())) for i in clients])
        weights = averaging_weights(self.weighting, sizes)
        return average(weights, trained), each_sends_a_model(weights, clients, len(fed))


def gifts(sizes: Sequence[float], share: float, seed: int, pool: str) -> dict[int, Tensor]:
    """What the clients put into the pool: {client: positions among its training examples}, without
    those that give nothing.  Drawn by (seed, "shared data").
    """
    parts = 1 if pool == "all" else len(sizes)
    counts = [math.floor(size * share / parts) for size in sizes]
    missing = round_half_up(share * sum(sizes) / parts) - sum(counts)
    for client in permutation(len(sizes), seed, "shared data")[:missing].tolist():
        counts[client] += 1
    return {
        client: permutation(int(size), seed, "shared data", client)[:count]
        for client, (size, count) in enumerate(zip(sizes, counts, strict=True))
        if count
    }
