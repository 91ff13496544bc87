"""WAFFLE's concept shift: what an average of models is worth to Alice depends on which names the other agents happen to draw.

Under A* and B* every agent but Alice permutes the labels.  A model that all train together learns, of each class, the label that most
examples carry, so Alice is served well just where that label is hers.  Counting examples therefore says beforehand about
what FedAvg reaches, and that one draw differs from another by more than the paper's five seeds do.
"""

import math

import pandas as pd
import torch
from torch import LongTensor, Tensor

from pfl_lib import partition
from pfl_lib.data import Dataset
from pfl_lib.papers import values, waffle
from pfl_lib.papers.profiles import Profile
from pfl_lib.verdicts import status

DRAWS = 1_000
LEVEL = 0.95  # of the most examples: labels with at least so many share a class


def vote(held: Tensor, names: LongTensor, tested: Tensor, alice: int = 0) -> float:
    """The share of Alice's test images whose class carries her label, where each class has the label of most examples.

    `held` [N, classes]: training examples of each agent and class; `names` [N, classes]: the label an agent gives to a class; `tested`
    [classes]: Alice's test images.  Labels that are about level (`LEVEL`) share a class equally.
    """
    counted = torch.zeros(held.shape[1], held.shape[1], dtype=torch.float64)
    for of_agent, named in zip(held.double(), names, strict=True):
        counted[torch.arange(len(named)), named] += of_agent
    wins = (counted >= LEVEL * counted.max(1, keepdim=True).values).double()
    hers = wins[torch.arange(len(wins)), names[alice]] / wins.sum(1)
    return float((hers * tested).sum() / tested.sum())


def draws(dataset: Dataset, profile: Profile, distribution: str, seeds: range) -> list[float]:
    """`vote` in percent for the permutations that each of the seeds draws."""
    split = partition.make(distribution, dataset, profile.clients, seeds[0], waffle.ALICE)
    held = torch.stack([torch.bincount(dataset.train_y[own], minlength=dataset.classes) for own in split.train])
    tested = torch.bincount(dataset.test_y[split.test[waffle.ALICE]], minlength=dataset.classes)
    named = (partition.shifted_labels(dataset.classes, profile.clients, seed) for seed in seeds)
    return [100 * vote(held, names, tested, waffle.ALICE) for names in named]


def by_seed(dataset: Dataset, profile: Profile, store) -> pd.DataFrame:
    """FedAvg beside the vote, a row for each distribution and draw.

    Columns distribution, seed, vote, mean of later rounds (the second half of the run), best round (percent), status.
    """
    rows = []
    for distribution in waffle.SHIFTED:
        for seed, expected in enumerate(draws(dataset, profile, distribution, range(1, waffle.SHIFTS + 1)), start=1):
            result = store.find(waffle.cell("FedAvg", distribution, profile, seed))
            later = best = math.nan
            if result is not None and result.diverged is None:
                accuracy = 100 * result.accuracy_by_round()
                later, best = accuracy.iloc[len(accuracy) // 2 :].mean(), accuracy.max()
            row = {"distribution": distribution, "seed": seed, "vote": expected}
            rows.append(row | {"mean of later rounds": later, "best round": best, "status": status(result)})
    return _with_banner(rows, profile)


def over_draws(dataset: Dataset, profile: Profile) -> pd.DataFrame:
    """The vote over `DRAWS` draws beside what the paper prints for FedAvg.

    Columns distribution, draws, mean, std, 10 %, 90 % (of the draws), paper, paper std: percent.
    """
    rows = []
    for distribution in waffle.SHIFTED:
        drawn = pd.Series(draws(dataset, profile, distribution, range(1, DRAWS + 1)))
        printed = values.value(waffle.PAPER, "table1", "MNIST", distribution, "FedAvg", "accuracy_percent")
        rows.append(
            {
                "distribution": distribution,
                "draws": len(drawn),
                "mean": drawn.mean(),
                "std": drawn.std(),
                "10 %": drawn.quantile(0.1),
                "90 %": drawn.quantile(0.9),
                "paper": printed.value,
                "paper std": printed.std,
            }
        )
    return _with_banner(rows, profile)


def _with_banner(rows: list[dict], profile: Profile) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame.attrs["banner"] = profile.with_seeds(waffle.SHIFTS).banner
    return frame
