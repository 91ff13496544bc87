"""WAFFLE's concept shift: what one model for all clients is worth to Alice depends on the labels
that the others happen to draw.

Under A* and B* every client but Alice permutes the labels.  A model that all train together is
pulled, on each class, towards the label that most examples carry; where that is Alice's own, it
helps her.  Counting examples therefore says before any training, roughly, about which level its
accuracy swings.  The paper does not say whether its five seeds share one draw.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import torch
from torch import LongTensor, Tensor

from pfl_lib import partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display.table_format import keep
from pfl_lib.papers import waffle
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.waffle import GLOBAL, RUNS, SHIFTED, SHIFTS, TABLE1
from pfl_lib.partitions.label_skew import shifted_labels
from pfl_lib.results.result import Result

DRAWS = 1_000
LEVEL = 0.95  # of the most examples: labels with at least so many share a class


def vote(held: Tensor, given: LongTensor, tested: Tensor, alice: int = 0) -> float:
    """The share of Alice's test images whose class carries her label, where each class has the
    label of most examples.

    `held` [N, classes]: training examples of each client and class; `given` [N, classes]: the label
    that a client gives to a class; `tested` [classes]: Alice's test images.  Labels that are about
    level (`LEVEL`) share a class equally.
    """
    counted = torch.zeros(held.shape[1], held.shape[1], dtype=torch.float64)
    for of_client, labels in zip(held.double(), given, strict=True):
        counted[torch.arange(len(labels)), labels] += of_client
    wins = (counted >= LEVEL * counted.max(1, keepdim=True).values).double()
    hers = wins[torch.arange(len(wins)), given[alice]] / wins.sum(1)
    return float((hers * tested).sum() / tested.sum())


def votes(
    dataset: Dataset, profile: Profile, distribution: str, seeds: Sequence[int]
) -> list[float]:
    """`vote` in percent for the labels that are drawn with each of the seeds."""
    split = partitions.make(distribution, dataset, profile.clients, seeds[0], waffle.ALICE)
    held = torch.stack(
        [torch.bincount(dataset.train_y[own], minlength=dataset.classes) for own in split.train]
    )
    tested = torch.bincount(dataset.test_y[split.test[waffle.ALICE]], minlength=dataset.classes)
    given = (shifted_labels(dataset.classes, profile.clients, seed) for seed in seeds)
    return [100 * vote(held, labels, tested, waffle.ALICE) for labels in given]


def _later(result: Result, *_) -> float:
    accuracy = result.accuracy_by_round()
    return 100 * accuracy.iloc[len(accuracy) // 2 :].mean()


def by_draw(dataset: Dataset | None, profile: Profile, store) -> pd.DataFrame:
    """The vote and what FedAvg and SCAFFOLD then reach, a row for each distribution, method and
    draw.

    Columns run ("A*, FedAvg"), seed, vote (nan without `dataset`), later rounds (the mean of the
    run's second half), best round, all in percent, and status.
    """
    draws = profile.with_seeds(SHIFTS)
    metrics = (replace(ACCURACY, name="best"), replace(ACCURACY, name="later", read=_later))
    frame = replace(RUNS.only(SHIFTED, GLOBAL), metrics=metrics).frame(draws, store.find)
    frame = frame[frame["protocol"] == "best"]
    frame["run"] = frame["setting"] + ", " + frame["method"]
    place = ["run", "setting", "seed", "status", "metric"]
    rows = frame.set_index(place)["value"].unstack(sort=False).reset_index()
    vote = {name: _votes(dataset, profile, name, draws.seeds) for name in SHIFTED}
    voted = [vote[name][seed - 1] for name, seed in zip(rows["setting"], rows["seed"], strict=True)]
    columns = {"run": rows["run"], "seed": rows["seed"].astype(int), "vote": voted}
    columns |= {"later rounds": rows["later"], "best round": rows["best"]}
    return draws.table(columns | {"status": rows["status"]})


def against_paper(by_draw: pd.DataFrame, dataset: Dataset | None, profile: Profile) -> pd.DataFrame:
    """How much the draw decides, a row for each distribution and method, from the rows of
    `by_draw`.

    Columns run, votes' mean and votes' std (over `DRAWS` draws; nan without `dataset`), draws run,
    correlation (of vote and later rounds, from three draws on), best round and best round's std
    (over the draws that ran), paper and paper's std (over its seeds); in percent, but for draws and
    correlation.
    """
    seeds = range(1, DRAWS + 1)
    many = {name: pd.Series(_votes(dataset, profile, name, seeds)) for name in SHIFTED}
    printed = TABLE1.printed()
    rows = []
    for run, drawn in by_draw.groupby("run", sort=False):
        distribution, method = run.split(", ")
        ran = drawn.dropna(subset="best round")
        paper = printed["MNIST", distribution, method, "accuracy_percent"]
        rows.append(
            {
                "run": run,
                "votes' mean": many[distribution].mean(),
                "votes' std": many[distribution].std(),
                "draws run": len(ran),
                "correlation": ran["vote"].corr(ran["later rounds"]) if len(ran) > 2 else math.nan,
                "best round": ran["best round"].mean(),
                "best round's std": ran["best round"].std(),
                "paper": paper.value,
                "paper's std": paper.std,
            }
        )
    return keep(by_draw, rows)


def _votes(
    dataset: Dataset | None, profile: Profile, distribution: str, seeds: Sequence[int]
) -> list:
    if dataset is None:
        return [math.nan] * len(seeds)
    return votes(dataset, profile, distribution, seeds)
