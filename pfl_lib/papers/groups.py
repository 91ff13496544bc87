"""Groups of clients, as numbers: whom clients listen to, whether affinities tell the latent groups,
and when CFL splits its clusters.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.federation.participation import all_met
from pfl_lib.methods import CFL
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.table import Find, Table
from pfl_lib.partitions.latent import group_of
from pfl_lib.results.summary import status

if TYPE_CHECKING:  # annotations only
    from pfl_lib.experiments.spec import RunSpec
    from pfl_lib.papers.settings import Setting
    from pfl_lib.results.result import Result


def truth_of(setting: "Setting") -> np.ndarray:
    """The latent group of each client, [N]."""
    return np.array(group_of(setting.clients, setting.partition.groups))


def groups_found(affinity: np.ndarray, groups: int) -> np.ndarray:
    """Clients put into so many groups by their affinities [N, N], both ways averaged: always the
    two groups are joined whose clients are nearest on average (average linkage).  Labels [N].
    """
    from sklearn.cluster import AgglomerativeClustering

    near = (affinity + affinity.T) / 2
    apart = near.max() - near
    np.fill_diagonal(apart, 0)
    clusters = AgglomerativeClustering(groups, metric="precomputed", linkage="average")
    return clusters.fit_predict(apart)


def recovery(affinity: np.ndarray, rounds: Sequence[int], truth: np.ndarray) -> pd.DataFrame:
    """How well P tells the latent groups.  `affinity` [rounds, N, N], `truth` [N].

    Columns round, within and across (mean P for other clients of the same group, and of others),
    clients (how many of those that share their group have a higher mean P for it than for the
    others), of (how many share it) and Rand index (adjusted, of the groups that P gives against
    the true ones: 1 where they are the same, about 0 where they have nothing to do with them).
    """
    from sklearn.metrics import adjusted_rand_score

    same = truth[:, None] == truth[None]
    own = np.eye(len(truth), dtype=bool)
    lines = []
    for r, p in zip(rounds, np.asarray(affinity, dtype=float), strict=True):
        inside = _row_means(p, same & ~own)
        outside = _row_means(p, ~same)
        shares = ~np.isnan(inside)
        found = groups_found(p, len(np.unique(truth)))
        lines.append(
            {
                "round": int(r),
                "within": float(p[same & ~own].mean()),
                "across": float(p[~same].mean()),
                "clients": int((inside[shares] > outside[shares]).sum()),
                "of": int(shares.sum()),
                "Rand index": float(adjusted_rand_score(truth, found)),
            }
        )
    return pd.DataFrame(lines)


def recoveries(table: Table, profile: Profile, find: Find) -> dict[str, pd.DataFrame]:
    """`recovery` of each setting of a figure with one column, for the profile's first seed; those
    that were not run are left out.
    """
    found = {}
    for row in table.run_in(profile).rows:
        result = find(table.spec(row.setting, table.columns[0].name, profile, profile.seeds[0]))
        if result is not None and len(result.matrices_rounds):
            truth = truth_of(profile.make(row.at))
            found[row.setting] = recovery(
                result.matrices["affinity"], result.matrices_rounds, truth
            )
    return found


def listened_to(weights: np.ndarray, rounds: Sequence[int], truth: np.ndarray) -> pd.DataFrame:
    """How much weight clients give, in percent, means over clients.  `weights` [rounds, N, N].

    Columns round, own model, same group (other clients of it), other groups, and stopped (percent
    of clients that gave no weight at all and went back to their model before local training).
    """
    same = truth[:, None] == truth[None]
    own = np.eye(len(truth), dtype=bool)
    lines = []
    for r, w in zip(rounds, np.asarray(weights, dtype=float), strict=True):
        lines.append(
            {
                "round": int(r),
                "own model": 100 * float(w[own].mean()),
                "same group": 100 * float((w * (same & ~own)).sum(1).mean()),
                "other groups": 100 * float((w * ~same).sum(1).mean()),
                "stopped": 100 * float((w.sum(1) == 0).mean()),
            }
        )
    return pd.DataFrame(lines)


def _row_means(matrix: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The mean of each row where `where` holds, [N]; NaN where it never does."""
    count = where.sum(1)
    return np.where(count > 0, (matrix * where).sum(1) / np.maximum(count, 1), np.nan)


def splits(runs: Runs) -> pd.DataFrame:
    """When CFL splits its clusters, a line for each of its runs.

    Columns dataset, setting, seed, clusters (at the end; missing where nothing was run), splits
    ("round 5 into 2, 6 into 4", "never", or what became of the run), FedAvg until (the round before
    the first split: up to there CFL is FedAvg with uniform weights), may split from (the round from
    which a split is not ruled out, by `start_round` and by clients that have not taken part yet;
    missing where the run ends before), then lowest and highest |mean u| (of a cluster of more than
    two clients from that round on; NaN where there is none), epsilon_1, below which the lowest has
    to fall, longest update (of a client in such a cluster) and epsilon_2, which it has to exceed.
    All are norms, or where the method's `relative` holds in units of round 1.
    """
    lines = [
        {"dataset": run.row.dataset, "setting": run.row.setting, "seed": run.spec.seed}
        | _splits_of(run.spec, runs.find(run.spec))
        for run in runs.planned
        if isinstance(run.spec.method, CFL)
    ]
    whole = dict.fromkeys(("clusters", "FedAvg until", "may split from"), "Int64")
    return pd.DataFrame(lines).astype(whole) if lines else pd.DataFrame()


def _splits_of(run: "RunSpec", result: "Result | None") -> dict[str, object]:
    drawn = all_met(run.schedule, run.clients, run.alice, run.seed)
    first = None if drawn is None else max(drawn, run.method.start_round)
    first = None if first is None or first > run.schedule.rounds else first
    line = {"clusters": None, "splits": status(result), "FedAvg until": None}
    means, longest = [], []
    if result is not None and "cluster" in result.metrics:
        by_round = result.metrics.pivot(index="round", columns="client", values="cluster")
        norms, largest = (
            result.metrics.pivot(index="round", columns="client", values=f"{what}_update_norm")
            for what in ("mean", "max")
        )
        count = by_round.nunique(axis=1)
        apart = count[count > count.shift(fill_value=1)]
        told = f"round {', '.join(f'{r} into {n}' for r, n in apart.items())}"
        lost = "" if result.diverged is None else f"; {status(result)}"
        line = {
            "clusters": count.iloc[-1],
            "splits": (told if len(apart) else "never") + lost,
            "FedAvg until": apart.index[0] - 1 if len(apart) else count.index[-1],
        }
        before = by_round.shift(fill_value=0)
        for r in by_round.index[by_round.index >= (first or math.inf)]:
            sizes = before.loc[r].map(before.loc[r].value_counts())
            means += norms.loc[r][sizes > 2].tolist()
            longest += largest.loc[r][sizes > 2].tolist()
    return line | {
        "may split from": first,
        "lowest |mean u|": min(means, default=math.nan),
        "highest |mean u|": max(means, default=math.nan),
        "epsilon_1": run.method.epsilon_1,
        "longest update": max(longest, default=math.nan),
        "epsilon_2": run.method.epsilon_2,
    }
