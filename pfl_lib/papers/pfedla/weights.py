"""What pFedLA's weights say of its clients and layers: the numbers behind Figures 5, 6 and 7."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.data import DATASETS
from pfl_lib.display.matrices import Matrices, matrices
from pfl_lib.display.table_format import run_on
from pfl_lib.papers.pfedla.costs import layers_of
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table
from pfl_lib.partitions import Neighbours

if TYPE_CHECKING:  # annotations only
    from pfl_lib.results.result import Result

EQUAL = 1e-6  # weights are kept in single precision: closer ones are the same
PERIODS = {"prior": 0.0, "middle": 0.5, "last": 1.0}  # Figure 5, as a share of the run
TARGET, SAME, SIMILAR = 0, 1, 2  # the clients of `partitions.Relatives`
PAPERS_LARGEST = {"CIFAR10": "fc1", "EMNIST": "fc3"}
"""Figure 7: on CIFAR10 "the first fully-connected layer", on EMNIST "the classifier layer"."""


def results(table: Table, profile: Profile, find: Find) -> dict[str, "Result"]:
    """The first seed's run of each row that has weights, by data set.  `table`: one column."""
    found = {}
    for row in table.rows:
        part = table.only(datasets=[row.dataset])
        of_column = part.results(find, replace(profile, seeds=profile.seeds[:1]))
        for several in of_column.values():
            if several[0].weights is not None and len(several[0].weights):
                found[row.dataset] = several[0]
    return found


def layers(result: "Result") -> list[str]:
    """The layers of a run's network, in the order of its weights."""
    return layers_of(result.config["model"])


def on(dataset: str, result: "Result") -> str:
    """The paper's data set, and the run's own where another stands in: "EMNIST (run on mnist)"."""
    return dataset + run_on(dataset, result.config["dataset"])


def explorer(result: "Result", dataset: str) -> Matrices:
    """A run's weights, a heat map for each layer, by round."""
    title = f"pFedLA's aggregation weights on {on(dataset, result)}, layer by layer"
    return matrices(result.weights, result.weights_rounds, layers(result), "weight", title)


def self_weights(result: "Result") -> pd.DataFrame:
    """How much of each layer is a client's own: the mean over clients, by round (the index) and
    layer.
    """
    own = np.diagonal(result.weights, axis1=2, axis2=3).mean(-1)
    index = pd.Index(result.weights_rounds, name="round")
    return pd.DataFrame(own, index=index, columns=layers(result))


def without_norms(by_layer: pd.Series) -> pd.Series:
    """The layers that the paper counts: numbers by layer, those of norms left out."""
    return by_layer[[name for name in by_layer.index if not name.startswith("norm")]]


def unshared_classes(recipe: Neighbours, clients: int, classes: int) -> np.ndarray:
    """How many of client i's classes client j lacks, int [clients, clients] (Figure 6)."""
    held = [{(client + k) % classes for k in range(recipe.per_client)} for client in range(clients)]
    return np.array([[len(mine - other) for other in held] for mine in held])


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation of two arrays; not a number where one is constant."""
    ranks = [pd.Series(np.ravel(values)).rank() for values in (one, other)]
    return float(ranks[0].corr(ranks[1])) if all(r.nunique() > 1 for r in ranks) else float("nan")


def figure_6(found: Mapping[str, "Result"], table: Table, profile: Profile) -> pd.DataFrame:
    """Whether close clients weigh more, in the last round: columns dataset, layer, own weight
    highest ("8 of 8" clients whose own weight is above all others' in its row), rank correlation
    (weight with class distance, own weights left out), own weight, then the mean weight by the
    number of classes that two clients do not share.
    """
    rows = []
    for dataset, result in found.items():
        (row,) = table.only(datasets=[dataset]).rows
        made = profile.make(row.at)
        apart = unshared_classes(made.partition, made.clients, DATASETS[made.dataset].classes)
        others = ~np.eye(made.clients, dtype=bool)
        for name, matrix in zip(layers(result), np.float64(result.weights[-1]), strict=True):
            own = np.diagonal(matrix)
            highest = own > np.where(others, matrix, -np.inf).max(1) + EQUAL
            line = {
                "dataset": dataset,
                "layer": name,
                "own weight highest": f"{highest.sum()} of {len(own)}",
                "rank correlation": rank_correlation(np.round(matrix[others], 6), apart[others]),
                "own weight": own.mean(),
            }
            for distance in np.unique(apart[others]):
                line[f"{distance} apart"] = matrix[others & (apart == distance)].mean()
            rows.append(line)
    return profile.table(rows)


def figure_5(found: Mapping[str, "Result"], profile: Profile) -> pd.DataFrame:
    """The weights with which the target client is given each layer, by period: columns dataset,
    layer, period, round, own, same classes, similar classes, others (their mean).
    """
    rows = []
    for dataset, result in found.items():
        last = len(result.weights) - 1
        for place, name in enumerate(layers(result)):
            for period, share in PERIODS.items():
                at = round(share * last)
                given = np.float64(result.weights[at, place, TARGET])
                rows.append(
                    {
                        "dataset": dataset,
                        "layer": name,
                        "period": period,
                        "round": int(result.weights_rounds[at]),
                        "own": given[TARGET],
                        "same classes": given[SAME],
                        "similar classes": given[SIMILAR],
                        "others": given[SIMILAR + 1 :].mean(),
                    }
                )
    return profile.table(rows)


def figure_7(found: Mapping[str, "Result"], profile: Profile) -> pd.DataFrame:
    """The self-weight of each layer in the last round: columns dataset, layer, target client, all
    clients (the mean) and in the paper ("largest" for the layer that its text names).

    Norms are left out: the paper counts them to no layer.
    """
    rows = []
    for dataset, result in found.items():
        own = np.diagonal(np.float64(result.weights[-1]), axis1=1, axis2=2)
        for name, of_layer in zip(layers(result), own, strict=True):
            if not name.startswith("norm"):
                rows.append(
                    {
                        "dataset": dataset,
                        "layer": name,
                        "target client": of_layer[TARGET],
                        "all clients": of_layer.mean(),
                        "in the paper": "largest" if PAPERS_LARGEST.get(dataset) == name else "",
                    }
                )
    return profile.table(rows)


def largest_layers(table: pd.DataFrame) -> pd.DataFrame:
    """Figure 7 in brief: columns dataset, largest here ("fc1", or "none" where all are equal),
    largest in the paper and the same ("yes", "no").  `table`: `figure_7`.
    """
    rows = []
    for dataset, lines in table.groupby("dataset", sort=False):
        own = lines.set_index("layer")["all clients"]
        here = "none" if own.max() - own.min() <= EQUAL else own.idxmax()
        there = PAPERS_LARGEST[dataset]
        rows.append(
            {
                "dataset": dataset,
                "largest here": here,
                "largest in the paper": there,
                "the same": "yes" if here == there else "no",
            }
        )
    return pd.DataFrame(rows)


def nearest_first(table: pd.DataFrame) -> pd.DataFrame:
    """Figure 5 in brief, in the last period: columns dataset, layer and order ("same > similar >
    others" where that is the order of their weights, else the order found).
    """
    rows = []
    for line in table[table["period"] == "last"].to_dict("records"):
        weights = {name: line[f"{name} classes"] for name in ("same", "similar")}
        weights["others"] = line["others"]
        names = sorted(weights, key=lambda name: -weights[name])
        words = names[0]
        for before, name in zip(names, names[1:], strict=False):
            words += f" {'>' if weights[before] - weights[name] > EQUAL else '='} {name}"
        rows.append({"dataset": line["dataset"], "layer": line["layer"], "order": words})
    return pd.DataFrame(rows, columns=["dataset", "layer", "order"])
