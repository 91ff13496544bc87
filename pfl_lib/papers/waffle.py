"""WAFFLE: Weighted Averaging for Personalized Federated Learning (Beaussart, Grimberg, Hartley,
Jaggi; 2021).

Its Table 1 on MNIST, which most of its runs belong to, with every hyper-parameter of the benchmark,
and what is counted under concept shift.  CIFAR10 and the size-penalty study are in
`waffle_studies`.  Ten clients, of whom Alice is client 0, all take part in every round with one
local epoch; MNIST with plain SGD at rate 0.1 and batches of 32 (section 3).

Settled here where the paper is silent: LeNet-5 has tanh units, as LeCun's has (with ReLU, control
variates diverge); Weight Erosion's p_s is 0, because Eq. 5 taken literally counts a batch a round,
no whole pass over 6,000 images within 100 rounds; the five seeds are 1 to 5.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import LongTensor, Tensor

from pfl_lib.data.source import Dataset
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import APFL, FedAvg, Local, Scaffold, Waffle, WeightErosion
from pfl_lib.papers import values
from pfl_lib.papers.profiles import Profile, only, sizes, smaller
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.partitions import Partition
from pfl_lib.partitions.label_skew import shifted_labels

PAPER = "waffle"
ALICE = 0
ROUNDS = 100
SLOPE = (
    3.2  # dOmega: "a fixed default value" (section 6), Table 3's for every distribution of MNIST
)
DISTRIBUTIONS = ("A", "B", "C", "A*", "B*")
SHIFTED = ("A*", "B*")  # where clients label the classes otherwise than Alice
WEIGHTED = ("WE", "WAFFLE")  # those that weigh clients, Figure 3


def p_d(distribution: str, rounds: int = ROUNDS) -> float:
    """Weight Erosion's distance penalty on MNIST: Table 3's times 100 / `rounds`.

    Weights then vanish at the same fraction of the run: a weight falls by p_d times its relative
    distance a round (Weight Erosion, Eq. 5), so half the rounds need twice the penalty.  A
    partition that Table 3 does not have gets the median of those it has.
    """
    names = [distribution] if distribution in DISTRIBUTIONS else DISTRIBUTIONS
    table3 = values.of_table(PAPER, "table3")
    printed = [table3["MNIST", name, "WE", "p_d"].value for name in names]
    return statistics.median(printed) * (ROUNDS / rounds)


def erosion(setting: Setting) -> WeightErosion:
    """Weight Erosion as the benchmark runs it in a setting."""
    return WeightErosion(p_d=p_d(setting.partition, setting.schedule.rounds), p_s=0.0)


COLUMNS = (
    Column("Local", Local()),
    Column("FedAvg", FedAvg(weighting="uniform")),
    Column("SCAFFOLD", Scaffold()),
    Column("WE", erosion),
    Column("WAFFLE", Waffle(slope=SLOPE)),
    Column("APFL", APFL()),
)
METHODS = tuple(column.name for column in COLUMNS)
MNIST = Setting(
    dataset="mnist",
    partition="C",
    model="lenet5",
    schedule=Schedule(rounds=ROUNDS, local_epochs=1, batch_size=32, lr=0.1),
    alice=ALICE,
)
TABLE1 = Table(
    PAPER,
    "table1",
    rows=tuple(Row("MNIST", name, replace(MNIST, partition=name)) for name in DISTRIBUTIONS),
    columns=COLUMNS,
    protocol="best",
    over="alice",
)
QUICK_ON = ("C", "A*")  # a label skew and a concept shift; for the first two clients as Alice


def is_quick(setting: Setting) -> bool:
    """Whether the quick profile runs a setting."""
    return setting.partition in QUICK_ON and setting.alice < 2


def _sizes(quick_rounds: int, seeds: tuple[int, int, int] = (1, 1, 5)) -> dict[str, Profile]:
    # One FedAvg run of the small profile trains 25 x 12,000 examples; Table 1 costs about 26 such
    # runs, a quarter of an hour on two slow cores.
    quick = only(is_quick, smaller(quick_rounds, dataset="digits"))
    note = "LeNet-5 has tanh units, our choice: the paper does not say which."
    return sizes(TABLE1.settings, quick, smaller(25, images=12_000), seeds, 5, note)


ALL_PROFILES = _sizes(10)
QUICK, SMALL, FULL = ALL_PROFILES.values()
ONE_SEED = _sizes(10, seeds=(1, 1, 1))
"""For pages that show a single seed's weights in every profile."""
MANY_RUNS = _sizes(5)
"""For pages with dozens of runs."""


def several(profile: Profile) -> tuple[int, ...]:
    """The seeds of a spread: the paper's five at least; two in the quick profile."""
    least = 2 if profile.name == "quick" else profile.paper_seeds
    return profile.with_seeds(max(least, len(profile.seeds))).seeds


# --- what pages count ---

LEVEL = 0.95  # of the most examples: labels with at least so many share a class


def vote(held: Tensor, given: LongTensor, tested: Tensor, alice: int = ALICE) -> float:
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


def votes(dataset: Dataset, split: Partition, seeds: Iterable[int]) -> list[float]:
    """`vote` in percent for each seed's shifted labels; NaN where the partition shifts none."""
    if split.relabel is None:
        return [math.nan for _ in seeds]
    classes = dataset.classes
    held = [torch.bincount(dataset.train_y[own], minlength=classes) for own in split.train]
    tested = torch.bincount(dataset.test_y[split.test[ALICE]], minlength=classes)
    given = (shifted_labels(classes, len(held), seed) for seed in seeds)
    return [100 * vote(torch.stack(held), labels, tested) for labels in given]
