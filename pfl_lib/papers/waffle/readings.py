"""What WAFFLE's paper leaves open, measured: the server's control variate, and which images Alice
is tested on.

Equation 1 can be read in two ways.  Both are SCAFFOLD while all weights are 1/N, and local training
where all weight is Alice's from the first round on; they differ once weights change.

Alice is tested on fewer than a thousand images, the same for all seeds; the standard deviation over
seeds that the paper prints leaves their choice out.  These are the images that the code of the
paper's precursor takes (Weight_Erosion_ML, loadTrainTest.py), whose printed accuracies are
multiples of 1/946 on C.  Another choice explains a difference only if WAFFLE's authors made one.
"""

import math
from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from pfl_lib import models, partitions
from pfl_lib.data.source import Dataset
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation import clients as client_data
from pfl_lib.papers import waffle
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import gathered
from pfl_lib.papers.verdicts import tolerance
from pfl_lib.papers.waffle import RUNS, several
from pfl_lib.randomness import generator

DRAWS = 1_000
READINGS = ("WAFFLE", "WAFFLE, c as printed")
DECIDED_ON = ("A*",)  # as printed, c keeps there what clients with other labels left
READ_ON = ("A", "C")


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """Both readings: on A*, where they lie apart, for several seeds, elsewhere for one."""
    apart = RUNS.only(DECIDED_ON, READINGS).runs(several(profile))
    return apart + RUNS.only(READ_ON, READINGS).runs(profile.with_seeds(1))


def accuracies(profile: Profile, store) -> pd.DataFrame:
    """Both readings' accuracy, read as Table 1 reads it: the best round, the mean over seeds.

    Columns distribution, reading, seeds (that ran), paper, best round, std, last round (percent),
    apart (of best round and paper) and allowed (how far apart a mean of so many seeds may lie to
    count as reproduced), both for the paper profile only, and status ("ran", "not run" or that runs
    diverged).
    """
    seeds = several(profile)
    frame = RUNS.only((*DECIDED_ON, *READ_ON), READINGS).frame(seeds, store.find)
    ours = gathered(frame, ["protocol", "setting", "method"])
    rows = []
    for (protocol, distribution, reading), found in ours.items():
        if protocol != "best":
            continue
        paper, apart, allowed = waffle.printed(distribution, reading), math.nan, math.nan
        if profile.name == "paper" and found.comparable:
            apart = abs(found.mean - paper.value)
            of_five = profile.paper_seeds
            allowed = tolerance({reading: paper}, reading, found.runs, of_five)
        rows.append(
            {
                "distribution": distribution,
                "reading": reading,
                "seeds": found.runs,
                "paper": paper.value,
                "best round": found.mean,
                "std": found.std,
                "last round": ours["last", distribution, reading].mean,
                "apart": apart,
                "allowed": allowed,
                "status": found.status,
            }
        )
    return seeds.table(rows)


def by_chance(
    profile: Profile,
    store,
    images: int,
    distribution: str,
    methods: Sequence[str] = waffle.METHODS,
) -> pd.DataFrame:
    """How far an accuracy may lie from another one for the choice of `images` test images alone.

    Columns method, seeds, paper, ours (best round, percent, mean over seeds), difference, and
    chance: the standard deviation sqrt(p (1 - p) / images) of a share p of right answers, in
    points, of images drawn independently, for p ours.
    """
    frame = RUNS.only([distribution], methods).frame(profile, store.find)
    ours = gathered(frame[frame["protocol"] == "best"])
    rows = []
    for method, found in ours.items():
        paper, right = waffle.printed(distribution, method).value, found.mean / 100
        rows.append(
            {
                "method": method,
                "seeds": len(found.seeds),
                "paper": paper,
                "ours": found.mean,
                "difference": found.mean - paper if profile.name == "paper" else math.nan,
                "chance": 100 * math.sqrt(right * (1 - right) / images),
            }
        )
    return profile.table(rows)


def other_test_images(
    profile: Profile,
    store,
    dataset: Dataset,
    distribution: str,
    methods: Sequence[str] = (*waffle.METHODS, "APFL, by round"),
) -> pd.DataFrame:
    """Every stored final model of Alice's on `DRAWS` draws of as many test images, with as many of
    each label, as she has.

    Columns method, seed, images, then in percent: her images (this model), as stored (the run's
    last round), drawn mean, drawn std, 2.5 %, 97.5 %, paper. Results without a model, as published
    ones are, and diverged ones give no row.
    """
    rows = []
    for method in methods:
        for seed in profile.seeds:
            spec = waffle.spec(method, distribution, profile, seed)
            result = store.find(spec, with_model=True)
            if result is None or result.diverged is not None:
                continue
            right, labels, own = _answers(spec, result.model, dataset)
            drawn = 100 * draws(right, labels, labels[own], DRAWS, seed)
            low, high = drawn.quantile(torch.tensor([0.025, 0.975]).to(drawn)).tolist()
            rows.append(
                {
                    "method": method,
                    "seed": seed,
                    "images": len(own),
                    "her images": 100 * right[own].mean().item(),
                    "as stored": 100 * result.last_accuracy,
                    "drawn mean": drawn.mean().item(),
                    "drawn std": drawn.std().item(),
                    "2.5 %": low,
                    "97.5 %": high,
                    "paper": waffle.printed(distribution, method).value,
                }
            )
    return profile.table(rows)


def draws(right: Tensor, labels: Tensor, own_labels: Tensor, times: int, seed: int) -> Tensor:
    """Accuracies [times] of one model on draws without replacement that hold as many of each label
    as `own_labels`.

    `right` [n] is 1 where the model is right about a test image, `labels` [n] are the images'
    labels.
    """
    random = generator(seed, "test images")
    total = torch.zeros(times, dtype=torch.float64)
    for label, count in zip(*own_labels.unique(return_counts=True), strict=True):
        there = right[labels == label].double()
        for k in range(times):
            total[k] += there[torch.randperm(len(there), generator=random)[:count]].sum()
    return total / len(own_labels)


@torch.no_grad()
def _answers(
    spec: RunSpec, model: dict[str, Tensor], dataset: Dataset
) -> tuple[Tensor, Tensor, Tensor]:
    """Whether a served model is right (1 or 0) about each test image of the data set [n], their
    labels [n], Alice's positions.
    """
    held = client_data.from_partition(
        dataset, partitions.make(spec.partition, dataset, spec.clients, spec.seed, spec.alice)
    )
    module = models.build(spec.model, held.input_shape, held.classes).eval()
    module.load_state_dict({name: value[0] for name, value in model.items()}, strict=False)
    test = held.splits["test"]
    pool = test.pool.to(torch.device("cpu"), torch.float32)
    parts = torch.arange(len(dataset.test_y)).split(1000)
    guessed = torch.cat([module(pool.inputs(part)).argmax(1) for part in parts])
    return (guessed == dataset.test_y).double(), dataset.test_y, test.index[spec.alice]
