"""WAFFLE: Weighted Averaging for Personalized Federated Learning (Beaussart, Grimberg, Hartley,
Jaggi; 2021).

Its Table 1 on MNIST, which most of its runs belong to, with every hyper-parameter of the benchmark.
Ten clients, of whom Alice is client 0, all take part in every round with one local epoch; MNIST
with plain SGD at rate 0.1 and batches of 32 (section 3).

Settled here where the paper is silent: LeNet-5 has tanh units, as LeCun's has (with ReLU, control
variates diverge); Weight Erosion's p_s is 0, because Eq. 5 taken literally counts a batch a round,
no whole pass over 6,000 images within 100 rounds; the five seeds are 1 to 5.
"""

import statistics
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import (
    APFL,
    Ditto,
    FedAvg,
    FineTuned,
    Local,
    Scaffold,
    Waffle,
    WeightErosion,
)
from pfl_lib.papers import values
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile, only, smaller
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.papers.verdicts import Printed
from pfl_lib.results.result import Result

PAPER = "waffle"
ALICE = 0
ROUNDS = 100
SLOPE = (
    3.2  # dOmega: "a fixed default value" (section 6), Table 3's for every distribution of MNIST
)
DISTRIBUTIONS = ("A", "B", "C", "A*", "B*")
SHIFTED = ("A*", "B*")  # where clients label the classes otherwise than Alice
GLOBAL = ("FedAvg", "SCAFFOLD")  # one model for all clients
WEIGHTED = ("WE", "WAFFLE")  # those that weigh clients, Figure 3


def printed_setting(distribution: str, method: str, name: str) -> float:
    """What Table 3 prints for MNIST: "p_d" of WE, "dOmega" of WAFFLE."""
    return values.value(PAPER, "table3", "MNIST", distribution, method, name).value


def p_d(distribution: str, rounds: int = ROUNDS) -> float:
    """Weight Erosion's distance penalty on MNIST: Table 3's times 100 / `rounds`.

    Weights then vanish at the same fraction of the run: a weight falls by p_d times its relative
    distance a round (Weight Erosion, Eq. 5), so half the rounds need twice the penalty.  A
    partition that Table 3 does not have gets the median of those it has.
    """
    known = distribution if distribution in DISTRIBUTIONS else None
    printed = [
        printed_setting(name, "WE", "p_d") for name in DISTRIBUTIONS if known in (None, name)
    ]
    return statistics.median(printed) * (ROUNDS / rounds)


def _erosion(setting: Setting) -> WeightErosion:
    return WeightErosion(p_d=p_d(setting.partition, setting.schedule.rounds), p_s=0.0)


def _waffle(setting: Setting) -> Waffle:
    return Waffle(slope=SLOPE)


COLUMNS = (
    Column("Local", Local()),
    Column("FedAvg", FedAvg(weighting="uniform")),
    Column("SCAFFOLD", Scaffold()),
    Column("WE", _erosion),
    Column("WAFFLE", _waffle),
    Column("APFL", APFL()),
)
METHODS = tuple(column.name for column in COLUMNS)
OTHER_READINGS = (
    Column("WAFFLE, c as printed", lambda setting: replace(_waffle(setting), control="literal")),
    Column("APFL, by round", APFL(mixture_step="round")),
    Column("SCAFFOLD, option I", Scaffold(option="I")),
    Column("WAFFLE, option I", lambda setting: replace(_waffle(setting), option="I")),
)
"""Named after the column of Table 1 that they read otherwise."""

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
    # One model for clients who label the classes differently: the labels that are drawn decide part
    # of its level.
    explained_by=dict.fromkeys(product(["MNIST"], SHIFTED, GLOBAL), "waffle-shift"),
)
BASELINES = Table(
    PAPER,
    "baselines",
    rows=TABLE1.rows,
    columns=(
        Column("FedAvg, fine-tuned", FineTuned(weighting="uniform")),
        Column("Ditto", Ditto(weighting="uniform")),
    ),
    values={},
)
"""Two baselines that Table 1 does not have: FedAvg's model after one more local epoch of Alice's,
which every personalised method should beat, and Ditto, which the paper names as future work.
"""
RUNS = replace(TABLE1.only(datasets=["MNIST"]), columns=COLUMNS + OTHER_READINGS)
"""Every run of the benchmark: Table 1 on MNIST, and the other readings of its methods."""

_SCALED = (
    "Weight Erosion's p_d is multiplied by {factor}, so that weights vanish at the same fraction of"
    " the run as in the paper."
)
FULL = Profile(
    name="paper",
    data="MNIST, all 60,000 training images, the paper's setting",
    seeds=(1, 2, 3, 4, 5),
    paper_seeds=5,
    settings=RUNS.settings,
)
QUICK_ON = ("C", "A*")  # a label skew and a concept shift; for the first two clients as Alice


def is_quick(setting: Setting) -> bool:
    """Whether the quick profile runs a setting."""
    return setting.partition in QUICK_ON and setting.alice < 2


QUICK = replace(
    FULL,
    name="quick",
    data="scikit-learn's 1,797 digits enlarged to 28x28 in place of the paper's MNIST",
    seeds=(1,),
    make=only(is_quick, smaller(rounds=10, dataset="digits")),
    differs=_SCALED.format(factor=10),
)
# One FedAvg run trains 25 x 12,000 examples; Table 1 costs about 26 such runs, a quarter of an hour
# on two slow cores.
SMALL = replace(
    FULL,
    name="small",
    data="MNIST, the first 12,000 of its 60,000 training images and all test images",
    seeds=(1,),
    make=smaller(rounds=25, images=12_000),
    differs=_SCALED.format(factor=4),
)
ALL_PROFILES = {profile.name: profile for profile in (QUICK, SMALL, FULL)}
ONE_SEED = {name: profile.with_seeds(1) for name, profile in ALL_PROFILES.items()}
"""For pages that show a single seed's weights in every profile."""
# For pages with dozens of runs
MANY_RUNS = ALL_PROFILES | {
    "quick": replace(
        QUICK,
        make=only(is_quick, smaller(rounds=5, dataset="digits")),
        differs=_SCALED.format(factor=20),
    )
}


def small_differs(profiles: dict[str, Profile], words: str) -> dict[str, Profile]:
    """The profiles of a page on whose small profile `words` say what differs beside its size."""
    return profiles | {"small": replace(profiles["small"], differs=words)}


def several(profile: Profile) -> Profile:
    """The profile with the seeds on which a spread is looked at: the paper's five at least; two in
    the quick profile, whose numbers answer nothing.
    """
    least = 2 if profile.name == "quick" else profile.paper_seeds
    return profile.with_seeds(max(least, len(profile.seeds)))


def run_on(profile: Profile, distributions: Iterable[str] = DISTRIBUTIONS) -> tuple[str, ...]:
    """Those of the distributions that the profile runs."""
    return tuple(row.setting for row in RUNS.only(distributions).run_in(profile).rows)


def spec(name: str, distribution: str, profile: Profile, seed: int) -> RunSpec:
    """One run of the benchmark: what Table 1 or `OTHER_READINGS` calls `name`."""
    return RUNS.spec(distribution, name, profile, seed)


def printed(distribution: str, name: str) -> Printed:
    """What Table 1 prints on MNIST for a method, or for the method that a reading is of."""
    return TABLE1.printed()["MNIST", distribution, name.partition(",")[0], ACCURACY.name]


def results(
    store, profile: Profile, distribution: str, methods: Iterable[str] = METHODS
) -> dict[str, list[Result]]:
    """What `store` has of a distribution: each method's results, one a seed; methods without any
    are left out.
    """
    return RUNS.only([distribution], methods).results(store.find, profile)


def quickstart(profile: Profile) -> tuple[RunSpec, ...]:
    """What the quickstart trains, for every seed: the run that the README shows, WAFFLE on
    distribution C, and two to compare.
    """
    (on_c,) = RUNS.only(["C"]).settings
    return tuple(
        profile.make(on_c).spec(method, seed)
        for seed in profile.seeds
        for method in (Waffle(), Local(), Waffle(slope=10))
    )
