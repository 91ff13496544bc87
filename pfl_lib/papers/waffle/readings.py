"""What WAFFLE's paper leaves open, measured: the server's control variate, APFL's mixture, and
which images Alice is tested on.

Alice is tested on fewer than a thousand images, the same for all seeds, by the authors as by us;
the standard deviation over seeds that the paper prints leaves their choice out.
"""

import math
from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from pfl_lib import models, partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display.tables import by_round
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation import clients as client_data
from pfl_lib.papers import values, waffle
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.waffle import READ_ON, READINGS, RUNS
from pfl_lib.randomness import generator

DRAWS = 1_000


def accuracies(profile: Profile, store, distributions: Sequence[str] = READ_ON) -> pd.DataFrame:
    """Every reading's accuracy for the profile's first seed.

    Columns distribution, reading, paper, best round, last round (percent), difference (best round
    less paper; none for the quick profile, whose data are not the paper's) and status ("ran", "not
    run" or where it diverged); numbers of runs that diverged or are missing are nan.
    """
    lines = RUNS.only(distributions, READINGS).frame(profile.with_seeds(1), store.find)
    place = ["setting", "method", "status", "protocol"]
    read = lines.set_index(place)["value"].unstack(sort=False).reset_index()
    paper = pd.Series(map(printed, read["setting"], read["method"]))
    columns = {"distribution": read["setting"], "reading": read["method"], "paper": paper}
    columns |= {"best round": read["best"], "last round": read["last"]}
    difference = math.nan if profile.name == "quick" else read["best"] - paper
    return profile.table(columns | {"difference": difference, "status": read["status"]})


def mixtures(profile: Profile, store, distribution: str) -> pd.DataFrame:
    """Alice's mixture (0: the shared model, 1: her own) by round, a column for each reading of APFL
    that was run (`tables.by_round`).
    """
    found = waffle.results(store, profile.with_seeds(1), distribution, READINGS[2:])
    first = {name: results[0] for name, results in found.items()}
    # A run that diverged in round 1 has no metrics at all.
    alphas = {
        name: result.metrics.set_index("round").reindex(columns=["alpha"])["alpha"]
        for name, result in first.items()
    }
    return by_round(
        alphas,
        {name: result.diverged for name, result in first.items() if result.diverged is not None},
    )


def other_test_images(
    profile: Profile,
    store,
    dataset: Dataset,
    distribution: str,
    methods: Sequence[str] = (*waffle.METHODS, READINGS[-1]),
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
                    "paper": printed(distribution, method),
                }
            )
    return profile.table(rows)


def printed(distribution: str, method: str) -> float:
    """The paper's accuracy on MNIST, in percent, of a method or of the method that a reading is
    of.
    """
    place = (waffle.PAPER, "table1", "MNIST", distribution, method.partition(",")[0])
    return values.value(*place).value


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
