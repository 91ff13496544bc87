"""What FedFomo's figures show, as numbers: whom clients listen to, and whether the affinities P
tell the latent groups.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table
from pfl_lib.partitions.latent import group_of

if TYPE_CHECKING:  # annotations only
    from pfl_lib.papers.settings import Setting


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
