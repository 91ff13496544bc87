"""The study behind the last table of WAFFLE's appendix, which the paper prints without a word: does
Weight Erosion's size penalty p_s do what it is for, and what does it cost.

The table's label distributions A and C (the latter is B elsewhere in the paper) and size
distributions A, B and C are those of the authors' code (MartinBeaussart/Weight_Erosion_ML, branch
Martin, run_models.py).  Twenty clients, 30 rounds, one local epoch, batches of 32, rate 0.1; p_s is
0 with p_d 0.04, or 2 with p_d 0.005.  Its results are `AUTHORS`, one unseeded run each.

Decisions:

* Passes are counted as that code counts them (`WeightErosion(counting="batches")`): by passes that
  were really made, all clients are alike with one local epoch a round, and p_s is blind to sizes.
* LeNet-5 stands in for the code's network of three convolutions.
* With a share of the images, batches are so much fewer and passes so many more: p_s is multiplied
  by the share, so that the penalty grows as in the study.
"""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import torch

from pfl_lib.data import DATASETS
from pfl_lib.display.table_format import keep, written
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import WeightErosion
from pfl_lib.methods.weight_erosion import passes_in_batches
from pfl_lib.papers.profiles import Profile, only, smaller
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.papers.waffle import ALICE, PAPER
from pfl_lib.partitions import SizedSkew
from pfl_lib.results.result import Result
from pfl_lib.results.summary import LEFT_OUT, status

CLIENTS, ROUNDS, IMAGES = 20, 30, 60_000
LABELS = {"A": "A", "C": "B"}  # the study's letter to this package's
SIZES = {
    "A": (10, 10, 10, 10, 10, 10, 10, 10, 10, 10),
    "B": SizedSkew.sizes,
    "C": (10, 10, 10, 10, 20, 5, 5, 10, 10, 10),
}
"""The appendix's shares in percent; client i has that of i mod 10."""
PENALTIES = {"p_s = 0": (0.04, 0), "p_s = 2": (0.005, 2)}  # (p_d, p_s)
SHOWN = (10, 20, 30)

AUTHORS = {
    ("A", "A", "p_s = 0"): (98.09, 0.525, 0.053, 0.050),
    ("A", "A", "p_s = 2"): (98.80, 0.778, 0.056, 0.050),
    ("A", "B", "p_s = 0"): (98.90, 0.608, 0.128, 0.050),
    ("A", "B", "p_s = 2"): (98.59, 0.799, 0.221, 0.050),
    ("A", "C", "p_s = 0"): (98.69, 0.516, 0.051, 0.050),
    ("A", "C", "p_s = 2"): (98.49, 0.766, 0.115, 0.050),
    ("C", "A", "p_s = 0"): (99.52, 0.452, 0.050, 0.050),
    ("C", "A", "p_s = 2"): (99.71, 0.794, 0.100, 0.050),
    ("C", "B", "p_s = 0"): (99.61, 0.519, 0.082, 0.050),
    ("C", "B", "p_s = 2"): (99.71, 0.760, 0.143, 0.050),
    ("C", "C", "p_s = 0"): (99.52, 0.466, 0.050, 0.050),
    ("C", "C", "p_s = 2"): (99.42, 0.682, 0.050, 0.050),
}
"""(labels, sizes, penalty) to the authors' results, from their generated/pickles: best accuracy of
30 rounds in percent, and the mean of all 20 weights, Alice's included, in the rounds `SHOWN`.
"""


def setting_name(labels: str, sizes: str) -> str:
    """A row of the table: "labels A, sizes B"."""
    return f"labels {labels}, sizes {sizes}"


def _erosion(setting: Setting, p_d: float, p_s: float) -> WeightErosion:
    share = (setting.images or DATASETS[setting.dataset].examples) / IMAGES
    return WeightErosion(p_d=p_d, p_s=p_s * share, counting="batches")


def _at(labels: str, sizes: str) -> Setting:
    return Setting(
        dataset="mnist",
        partition=SizedSkew(LABELS[labels], SIZES[sizes]),
        model="lenet5",
        schedule=Schedule(rounds=ROUNDS, local_epochs=1, batch_size=32, lr=0.1),
        clients=CLIENTS,
        alice=ALICE,
    )


TABLE = Table(
    PAPER,
    "size_penalty",
    rows=tuple(
        Row("MNIST", setting_name(labels, sizes), _at(labels, sizes))
        for labels, sizes in product(LABELS, SIZES)
    ),
    columns=tuple(
        Column(name, partial(_erosion, p_d=p_d, p_s=p_s)) for name, (p_d, p_s) in PENALTIES.items()
    ),
    values={},
)

_NETWORK = "LeNet-5 stands in for the study's network of three convolutions."
_SCALED = f"{_NETWORK} p_s is multiplied by the share of the images, as batches are so much fewer."
FULL = Profile(
    name="paper",
    data="MNIST, all 60,000 training images, the study's setting",
    seeds=(1,),
    paper_seeds=1,
    settings=TABLE.settings,
    differs=_NETWORK,
)
SMALL = replace(
    FULL,
    name="small",
    data="MNIST, the first 12,000 of its 60,000 training images and all test images",
    make=smaller(images=12_000),
    differs=_SCALED,
)
QUICK = replace(
    FULL,
    name="quick",
    data="scikit-learn's 1,797 digits enlarged to 28x28 in place of MNIST",
    make=only(
        lambda setting: setting.partition == SizedSkew(LABELS["C"], SIZES["B"]),
        smaller(dataset="digits"),
    ),
    differs=_SCALED,
)
PROFILES = {profile.name: profile for profile in (QUICK, SMALL, FULL)}


# --- what is read of the runs ---

WITHOUT, WITH = PENALTIES
AUTHORS_TOO = "authors"


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """Every setting without and with the penalty, for the profile's first seed."""
    return TABLE.runs(profile.with_seeds(1))


def found(profile: Profile, store) -> dict[tuple[str, str, str], tuple[RunSpec | None, Result]]:
    """(labels, sizes, penalty) to the run, None where the profile leaves it out, and its result."""
    ran = {row.setting for row in TABLE.run_in(profile).rows}
    places = {}
    for labels, sizes, penalty in product(LABELS, SIZES, PENALTIES):
        name, spec = setting_name(labels, sizes), None
        if name in ran:
            spec = TABLE.spec(name, penalty, profile, 1)
        places[labels, sizes, penalty] = (spec, spec and store.find(spec))
    return places


def mean_weights(profile: Profile, store) -> dict[tuple[str, str, str], np.ndarray]:
    """(labels, sizes, penalty) to the mean of all weights by round, Alice's included, [rounds]."""
    return {
        place: result.weights.mean(axis=1)
        for place, (_, result) in found(profile, store).items()
        if result is not None
    }


def compare_with_authors(profile: Profile, store) -> pd.DataFrame:
    """A row for each setting and penalty: Alice's best accuracy in percent and the mean of all
    weights in the rounds `SHOWN`, each beside the authors' ("best accuracy, authors").

    Columns labels, sizes, penalty, those, and status ("ran", "not run", "left out" or where it
    diverged).
    """
    rows = []
    for place, (spec, result) in found(profile, store).items():
        word = LEFT_OUT if spec is None else status(result)
        ours = [np.nan] * (1 + len(SHOWN))
        if result is not None:
            means = result.weights.mean(axis=1)
            ours = [100 * result.value("accuracy", "best", "alice")]
            ours += [means[r - 1] if r <= len(means) else np.nan for r in SHOWN]
        row = dict(zip(("labels", "sizes", "penalty"), place, strict=True))
        names = ("best accuracy", *(f"weight, round {r}" for r in SHOWN))
        for name, value, authors in zip(names, ours, AUTHORS[place], strict=True):
            row |= {name: value, f"{name}, {AUTHORS_TOO}": authors}
        rows.append(row | {"status": word})
    return profile.with_seeds(1).table(rows)


def by_size(profile: Profile, store) -> pd.DataFrame:
    """The mean weight over all rounds of the clients of one size, Alice left out: a row for each
    setting with uneven sizes and each size.

    Columns labels, sizes, parts (the size, percent of ten clients' images), clients, and a column
    for each penalty; only settings of which both runs are there.
    """
    rows, places = [], found(profile, store)
    for labels, sizes in product(LABELS, SIZES):
        results = {penalty: places[labels, sizes, penalty][1] for penalty in PENALTIES}
        if len(set(SIZES[sizes])) == 1 or any(map(_lost, results.values())):
            continue
        parts = np.array([SIZES[sizes][i % len(SIZES[sizes])] for i in range(CLIENTS)])
        parts[ALICE] = 0
        for size in np.unique(parts[parts > 0]):
            of_size = parts == size
            means = {name: result.weights[:, of_size].mean() for name, result in results.items()}
            row = {"labels": labels, "sizes": sizes, "parts": int(size)}
            rows.append(row | {"clients": int(of_size.sum())} | means)
    columns = ["labels", "sizes", "parts", "clients", *PENALTIES]
    return keep(profile.with_seeds(1).table([]), pd.DataFrame(rows, columns=columns))


def _lost(result: Result | None) -> bool:
    return result is None or result.diverged is not None


def small_beside_large(sizes: pd.DataFrame) -> pd.DataFrame:
    """The mean weight of the clients with the least data as a share of that of the clients with the
    most, from `by_size`: a row for each setting, a column for each penalty, and whether the
    penalty makes small clients lose weight sooner: the share is below 1 and below what it is
    without it.

    Either alone would not tell.  A penalty that grows with the rounds and is blind to sizes brings
    clients' weights nearer together, and the share nearer to 1, from either side.
    """
    rows = []
    for (labels, name), of_setting in sizes.groupby(["labels", "sizes"], sort=False):
        ordered = of_setting.sort_values("parts")
        least, most = ordered.iloc[0], ordered.iloc[-1]
        row = {"labels": labels, "sizes": name, "least": least["parts"], "most": most["parts"]}
        row |= {penalty: least[penalty] / most[penalty] for penalty in PENALTIES}
        rows.append(row | {"sooner": "yes" if row[WITH] < min(1, row[WITHOUT]) else "no"})
    columns = ["labels", "sizes", "least", "most", *PENALTIES, "sooner"]
    return keep(sizes, pd.DataFrame(rows, columns=columns))


def passes(round: int = ROUNDS, batch_size: int = 32) -> pd.DataFrame:
    """How many passes p_s multiplies in a round of the study, by the three ways to count them: a
    row for each size of clients.  Images are those under labels A; under labels C some are
    nobody's, and a client has fewer.

    Columns parts, images, passes made, Eq. 5 as printed, in batches (the authors' code).
    """
    parts = sorted({size for sizes in SIZES.values() for size in sizes})
    images = torch.tensor([IMAGES * size * 10 // (100 * CLIENTS) for size in parts])
    counted = {
        "parts": parts,
        "images": images.tolist(),
        "passes made": [round - 1] * len(parts),
        "Eq. 5 as printed": [(round - 1) * batch_size // n for n in images.tolist()],
        "Eq. 5 in batches": passes_in_batches(round, images, batch_size).int().tolist(),
    }
    return pd.DataFrame(counted)


def answer(beside: pd.DataFrame, sizes: pd.DataFrame, profile: Profile) -> str:
    """What the penalty does to clients with little data, and to Alice's accuracy; from
    `compare_with_authors` and `by_size`.
    """
    shares = small_beside_large(sizes)
    if shares.empty:
        return "No setting with uneven sizes was run both without and with the penalty."
    sooner = int((shares["sooner"] == "yes").sum())
    told = [
        f"{setting_name(row['labels'], row['sizes'])} {row[WITHOUT]:.2f} and {row[WITH]:.2f}"
        for row in shares.to_dict("records")
    ]
    words = (
        "With the size penalty clients with little data lose weight sooner than those with much on"
        f" {sooner} of {len(shares)} setting{'s' * (len(shares) > 1)} with uneven sizes (weight of"
        " the smallest over the run as a share of the largest clients', without and with it:"
        f" {'; '.join(told)}). From p_s = 0 with p_d = 0.04 to p_s = 2 with p_d = 0.005 Alice's"
        f" best accuracy moves {_moves(beside, 'best accuracy')}"
    )
    if profile.name == "quick":
        return f"{words}. The quick profile, on other data, says nothing about the study."
    return f"{words}, in the authors' runs {_moves(beside, f'best accuracy, {AUTHORS_TOO}')}."


def _moves(beside: pd.DataFrame, column: str) -> str:
    """ "by −0.30 to +0.71 points over 6 settings": with the penalty less without it."""
    wide = beside.pivot(index=["labels", "sizes"], columns="penalty", values=column)
    moved = (wide[WITH] - wide[WITHOUT]).dropna()
    if moved.empty:
        return "in no setting that ran twice"
    ends = dict.fromkeys(written(end, sign=True) for end in (moved.min(), moved.max()))
    several = f" over {len(moved)} settings" if len(moved) > 1 else ""
    return f"by {' to '.join(ends)} points{several}"
