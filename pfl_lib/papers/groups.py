"""Groups of clients: whether affinities tell the latent ones, and when CFL splits."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.participation import all_met
from pfl_lib.methods import CFL
from pfl_lib.papers.runs import IN_TABLE, Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.partitions import Latent
from pfl_lib.partitions.latent import group_of, targets
from pfl_lib.results.result import Result, status

SPLITS = [  # the columns of `splits`
    *(*IN_TABLE, "seed", "clusters", "splits", "FedAvg until", "may split from"),
    *("lowest |mean u|", "highest |mean u|", "epsilon_1", "longest update", "epsilon_2"),
]


def truth_of(setting: Setting) -> np.ndarray | None:
    """The latent group of each client, [N]; None under a partition that has no groups."""
    if not isinstance(setting.partition, Latent):
        return None
    return np.array(group_of(setting.clients, setting.partition.groups))


def targets_of(setting: Setting, seed: int) -> np.ndarray | None:
    """The latent group on which each client is tested, [N]: its own, or with shuffled targets that
    of another client; None under a partition that has no groups.
    """
    truth = truth_of(setting)
    if truth is None or not setting.partition.shuffled_targets:
        return truth
    return truth[targets(setting.clients, seed)]


def recovery(affinity: np.ndarray, rounds: Sequence[int], truth: np.ndarray) -> pd.DataFrame:
    """How well P tells the latent groups.  `affinity` [rounds, N, N], `truth` [N].

    Columns round, within and across (mean P for other clients of the same group, and of others),
    clients (how many of those that share their group have a higher mean P for it than for the
    others), of (how many share it) and Rand index (adjusted, of the groups that P gives, both ways
    averaged, by average linkage against the true ones: 1 where they are the same, about 0 where
    they have nothing to do with them).
    """
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import adjusted_rand_score

    count = len(np.unique(truth))
    clusters = AgglomerativeClustering(count, metric="precomputed", linkage="average")
    same = truth[:, None] == truth[None]
    own = np.eye(len(truth), dtype=bool)
    lines = []
    for r, p in zip(rounds, np.asarray(affinity, dtype=float), strict=True):
        means = (np.ma.array(p, mask=~where).mean(axis=1) for where in (same & ~own, ~same))
        inside, outside = (mean.filled(np.nan) for mean in means)
        shares = ~np.isnan(inside)
        apart = (p + p.T).max() - (p + p.T)
        np.fill_diagonal(apart, 0)
        lines.append(
            {
                "round": int(r),
                "within": float(p[same & ~own].mean()),
                "across": float(p[~same].mean()),
                "clients": int((inside[shares] > outside[shares]).sum()),
                "of": int(shares.sum()),
                "Rand index": float(adjusted_rand_score(truth, clusters.fit_predict(apart))),
            }
        )
    return pd.DataFrame(lines)


def recoveries(runs: Runs) -> pd.DataFrame:
    """`recovery` of every stored run that keeps affinities, under latent groups: dataset, setting,
    method and seed before its columns.  A run that stands at several places counts once.
    """
    frames, each = [], {}
    for run in runs.planned:
        each.setdefault(run.spec, run)
    for run in each.values():
        result, truth = runs.find(run.spec), truth_of(run.row.at)
        if result is not None and truth is not None and "affinity" in result.matrices:
            found = recovery(result.matrices["affinity"], result.matrices_rounds, truth)
            frame = found.assign(**run.place, seed=run.spec.seed)
            frames.append(frame[[*IN_TABLE, "seed", *found]])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def splits(runs: Runs) -> pd.DataFrame:
    """When CFL splits its clusters, a line for each of its runs.

    Columns dataset, setting, method, seed, clusters (at the end; missing where nothing was run),
    splits ("round 5 into 2, 6 into 4", "never", or what became of the run), FedAvg until (the round
    before the first split: up to there CFL is FedAvg with uniform weights), may split from (the
    round from which a split is not ruled out, by `start_round` and by clients that have not taken
    part yet; missing where the run ends before), then lowest and highest |mean u| (of a cluster of
    more than two clients from that round on; NaN where there is none), epsilon_1, below which the
    lowest has to fall, longest update (of a client in such a cluster) and epsilon_2, which it has
    to exceed.
    All are norms, or where the method's `relative` holds in units of round 1.
    """
    lines = [
        run.place | {"seed": run.spec.seed} | _splits_of(run.spec, runs.find(run.spec))
        for run in runs.planned
        if isinstance(run.spec.method, CFL)
    ]
    whole = dict.fromkeys(("clusters", "FedAvg until", "may split from"), "Int64")
    return pd.DataFrame(lines, columns=SPLITS).astype(whole)


def degenerate(runs: Runs) -> pd.DataFrame:
    """Where a method comes to another one: a line for each such place of a table.

    CFL is FedAvg with uniform weights where no run of it splits a cluster.  MOCHA with its default
    coefficient is local training, its penalty being 1e-5 or less for networks of a thousand
    parameters or more.  LG-FedAvg is FedAvg where every client has its accuracy in every round, as
    with a network of one layer.  Columns dataset, setting, method, mark ("*" or "†") and comes to.
    """
    lines = []
    for place, of in splits(runs).dropna(subset="clusters").groupby(IN_TABLE, sort=False):
        if of["splits"].str.startswith("never").all():
            lines.append((*place, " *", "FedAvg with uniform weights: no cluster splits"))
    methods = {run.column.name: run.spec.method for run in runs.planned}
    for (dataset, setting), of in runs.frame.groupby(IN_TABLE[:2], sort=False):
        by_method = of.pivot_table("accuracy", ["seed", "round", "client"], "method")
        for name, other in itertools.permutations(by_method, 2):
            apart = (by_method[name] - by_method[other]).abs().dropna()
            twins = methods[name].name, methods[other].name
            if twins == ("mocha", "local") and methods[name].coefficient <= 1 and len(apart):
                words = f"{other} and a tiny penalty: {apart.mean():.2f} points a client apart"
                lines.append((dataset, setting, name, " †", words))
            if twins == ("lg_fedavg", "fedavg") and len(apart) and not apart.any():
                words = f"{other}: the same accuracy of each client in each round"
                lines.append((dataset, setting, name, " †", words))
    found = pd.DataFrame(lines, columns=[*IN_TABLE, "mark", "comes to"], dtype=object)
    return found.drop_duplicates(IN_TABLE, ignore_index=True)  # of two twins the first


def _splits_of(run: RunSpec, result: Result | None) -> dict[str, object]:
    drawn = all_met(run.schedule, run.clients, run.alice, run.seed)
    first = math.inf if drawn is None else max(drawn, run.method.start_round)
    line: dict[str, object] = {"splits": status(result)}
    means, longest = [], []
    whole = run.alice is None and run.evaluate_every == 1  # else some splits are not seen
    if whole and result is not None and "cluster" in result.metrics:
        by_round, norms, largest = (
            result.by_round(name) for name in ("cluster", "mean_update_norm", "max_update_norm")
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
        for r in by_round.index[by_round.index >= first]:
            sizes = before.loc[r].map(before.loc[r].value_counts())
            means += norms.loc[r][sizes > 2].tolist()
            longest += largest.loc[r][sizes > 2].tolist()
    return line | {
        "may split from": None if first > run.schedule.rounds else first,
        "lowest |mean u|": min(means, default=math.nan),
        "highest |mean u|": max(means, default=math.nan),
        "epsilon_1": run.method.epsilon_1,
        "longest update": max(longest, default=math.nan),
        "epsilon_2": run.method.epsilon_2,
    }
