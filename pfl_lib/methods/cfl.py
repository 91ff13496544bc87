"""Clustered federated learning (Sattler et al. 2020): FedAvg in clusters, which may split."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import NOT_NEGATIVE, check_settings, flag, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.rows import Rows, as_kept, average, copies, models_of, uniform, with_models, with_rows


@dataclass(frozen=True)
class CFL:
    """One cluster of all clients at first; in each round every cluster averages its clients' models
    uniformly.  A cluster of more than two clients is split in two where, with u_i their updates,
        |mean u_i| < epsilon_1  and  max |u_i| > epsilon_2:
    the cluster's model stands still although its clients' losses still fall.

    * The two parts come from agglomerating clients by the cosine similarity of their updates until
      two groups are left, a group being as near as its farthest pair [complete linkage, as in the
      authors' code].  The parts average apart from this round on.
    * `epsilon_1` and `epsilon_2` are fractions of the mean norm of the clients' updates in round 1,
      so that they do not hang on model, learning rate and local epochs [our choice].  Measured on
      CIFAR-10, 15 clients in five groups of two classes, 120 images each, in units of round 1:
      |mean u_i| falls from 0.37 to 0.13 and max |u_i| from 1.5 to 0.6 by round 5; on
      FedFomo's five latent groups, 600 images a client, |mean u_i| falls from 0.41 to 0.27, seed 1.
      Neither is published.
    * With `relative=False` the epsilons are norms, which is the rule of the paper and of the
      authors' code (0.4 and 1.6; FedFomo's 0.42 and 1.6, which its tables take here).
    * Until the first split CFL is FedAvg with uniform weights, and `cluster` in the log is all 0.
    * No split before round `start_round`.  The authors' code waits for 20 rounds; in FedFomo's 20
      rounds it would never split, and its Table 1 shows that CFL did [our choice: 5].
    * With partial participation each client's last update counts, as in the authors' code; a
      cluster is split only when all its clients have taken part since it was made: about 50 rounds
      on average where a tenth of 100 clients is drawn.  A cluster without any keeps its model.
    """

    epsilon_1: float = setting(0.3, *NOT_NEGATIVE)
    epsilon_2: float = setting(0.4, *NOT_NEGATIVE)
    start_round: int = setting(5, whole, 1)
    relative: bool = setting(True, flag)

    name, title, version = "cfl", "CFL", 1
    served = as_kept
    __post_init__ = check_settings

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        """A cluster was once split by updates of before it was made."""
        return {"splits where clients are absent": 1 if schedule.all_take_part else 2}

    def start(self, fed: Federation) -> Rows:
        """`cluster` [N] numbers each client's cluster; `updates` [N, P] holds the clients' last
        ones, `met` [N] who has one since its cluster was made; `unit` [] is the epsilons' unit.
        """
        return {
            **copies(fed.initial(), len(fed)),
            "cluster": torch.zeros(len(fed), dtype=torch.int64),
            "updates": fed.zeros(1).expand(len(fed), -1),
            "met": torch.zeros(len(fed), dtype=torch.bool),
            "unit": torch.ones((), dtype=torch.float64),
        }

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        start = models_of(state, clients)
        trained, _ = fed.train(start, r, clients)
        updates = with_rows(state["updates"], clients, trained["theta"] - start["theta"])
        met = with_rows(state["met"], clients, torch.ones(len(clients), dtype=torch.bool))
        unit = state["unit"]
        if r == 1 and self.relative:
            unit = torch.linalg.vector_norm(updates[clients], dim=1).double().mean().cpu()

        before = state["cluster"]
        cluster, norms = self._split(before, updates, met, unit.item(), r)
        met = met & ~torch.isin(before, before[cluster != before])
        after, weights = state, torch.zeros(len(fed), len(fed), dtype=torch.float64)
        for number_ in cluster.unique().tolist():
            members = (cluster == number_).nonzero().flatten().tolist()
            there = [i for i in members if i in clients]
            if there:
                places = [clients.index(i) for i in there]
                mean = average(uniform(len(there)), models_of(trained, places))
                after = with_models(after, members, copies(mean, len(members)))
                weights[torch.tensor(members)[:, None], torch.tensor(there)] = 1 / len(there)
        log = {"weights": weights, "cluster": cluster.double(), **norms}
        log |= {"models_up": len(clients), "models_down": len(clients)}
        kept = {"cluster": cluster, "updates": updates, "met": met, "unit": unit}
        return {**after, **kept}, log

    def _split(
        self, before: Tensor, updates: Tensor, met: Tensor, unit: float, r: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Clusters [N] after round r; two norms [N], in the epsilons' unit, of the former ones."""
        after = before.clone()
        mean_norm, max_norm = (torch.zeros(len(before), dtype=torch.float64) for _ in range(2))
        for number_ in before.unique().tolist():
            members = (before == number_).nonzero().flatten()
            own = updates[members]
            mean_norm[members] = torch.linalg.vector_norm(own.mean(0)).double().cpu() / unit
            max_norm[members] = torch.linalg.vector_norm(own, dim=1).max().double().cpu() / unit
            still = mean_norm[members[0]] < self.epsilon_1
            apart = max_norm[members[0]] > self.epsilon_2
            if r >= self.start_round and len(members) > 2 and met[members].all() and still & apart:
                _, leaving = bipartition(similarities(own))
                after[members[leaving]] = after.max() + 1
        return after, {"mean_update_norm": mean_norm, "max_update_norm": max_norm}


def similarities(updates: Tensor) -> Tensor:
    """Cosine similarities [m, m], float64, of updates [m, P]; 0 beside an update of zero."""
    directions = torch.nn.functional.normalize(updates, eps=1e-30)
    return (directions @ directions.T).double().cpu()


def bipartition(similarity: Tensor) -> tuple[list[int], list[int]]:
    """Two groups of m clients from their similarities [m, m]: the two groups whose farthest pair is
    nearest become one until two are left.  Positions, ascending; 0 is in the first group.
    """
    n = len(similarity)
    group, between = torch.arange(n), similarity.clone().fill_diagonal_(-torch.inf)
    for _ in range(n - 2):
        one, other = sorted(divmod(int(between.argmax()), n))
        group[group == other] = one
        farthest = torch.minimum(between[one], between[other])
        between[one], between[:, one] = farthest, farthest
        between[other], between[:, other] = -torch.inf, -torch.inf
    first = group == group[0]
    return first.nonzero().flatten().tolist(), (~first).nonzero().flatten().tolist()
