"""WAFFLE's APFL column: what decides the accuracy of APFL, and which reading of it gives the
printed values.

The paper says that the mixture is adapted and nothing else, and that APFL does worse than expected
(appendix A).  Its authors were given an implementation, iFedAvg, that differs from APFL's Algorithm
1 in three points beside the step of the mixture; each of them is a switch here.
"""

import math
from collections.abc import Iterable
from itertools import combinations

import pandas as pd

from pfl_lib.display.table_format import keep
from pfl_lib.display.tables import by_round
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import APFL, Local
from pfl_lib.papers import waffle
from pfl_lib.papers.metrics import ACCURACY, Metric, column
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Column, Table
from pfl_lib.papers.verdicts import tolerance
from pfl_lib.papers.waffle import TABLE1
from pfl_lib.results.summary import HAIR

ON = ("A", "A*")
"""The distributions of Table 1 on which our APFL lies more than a point above the printed value."""
SWITCHES = {
    "v starts at random": {"own_start": "random"},
    "mixtures averaged": {"averaged": "mixtures"},
    "outputs mixed": {"own_gradient": "outputs"},
}
"""iFedAvg's three points, each with APFL's field for it."""
FIXED = (0.5, 0.75, 0.9)
IMAGE = 0.1  # points: one of the 996 test images that Alice has on A and A*


def _switched() -> list[Column]:
    """The mixture moved by the round, as iFedAvg moves it, with every choice of the switches."""
    columns = []
    for count in range(len(SWITCHES) + 1):
        for on in combinations(SWITCHES, count):
            fields = {field: value for name in on for field, value in SWITCHES[name].items()}
            name = ", ".join(("by the round", *on))
            columns.append(Column(name, APFL(mixture_step="round", **fields)))
    return columns


READINGS = (
    Column("first batch", APFL()),
    Column("every batch", APFL(mixture_step="every batch")),
    Column("first batch, from 0.01", APFL(alpha=0.01)),
    *_switched(),
    *(Column(f"fixed at {alpha:g}", APFL(alpha=alpha, adaptive=False)) for alpha in FIXED),
    # APFL whose mixture is fixed at 1 serves what local training gives.
    Column("fixed at 1: Local", Local()),
)
"""How the mixture moves and what else differs, by name."""
MIXTURE = Metric("mixture", "", 0.01, 0.01, column("alpha"))
TABLE = Table(
    waffle.PAPER,
    "apfl",
    rows=TABLE1.only(ON, datasets=["MNIST"]).rows,
    columns=READINGS,
    metrics=(ACCURACY, MIXTURE),
    values={},
)
CONTROL = Table(
    waffle.PAPER,
    "apfl on C",
    rows=TABLE1.only(["C"], datasets=["MNIST"]).rows,
    columns=[reading for reading in READINGS if reading.name == "by the round"],
    metrics=(ACCURACY, MIXTURE),
    values={},
)
"""iFedAvg's step of the mixture on a distribution where our APFL is as the paper's."""


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """Every reading on both distributions and the control, for the profile's first seed."""
    first = profile.with_seeds(1)
    return TABLE.runs(first) + CONTROL.runs(first)


def readings(profile: Profile, store) -> pd.DataFrame:
    """A row for each reading, below one for the paper; the columns of a distribution only where the
    profile runs it.

    Columns reading and, for each distribution, its best round and last round (percent) and its
    mixture in the end (0: the shared model, 1: Alice's own); distance is the largest difference of
    its best rounds from the printed values (points; nan where one is missing, and for profiles
    other than the paper's).  A run that diverged or is missing has no numbers, and
    its status stands in the column status ("ran", "A*: not run").
    """
    frame = TABLE.run_in(profile).frame(profile.with_seeds(1), store.find)
    on = waffle.run_on(profile, ON)
    rows = [_of_paper(on)]
    for reading, lines in frame.groupby("method", sort=False):
        row, apart, words = {"reading": reading}, [], []
        for name in on:
            here = lines[lines["setting"] == name]
            found = here.set_index(["metric", "protocol"])["value"]
            row[f"{name}, best round"] = found[ACCURACY.name, "best"]
            row[f"{name}, last round"] = found[ACCURACY.name, "last"]
            row[f"{name}, mixture in the end"] = found[MIXTURE.name, "last"]
            apart.append(found[ACCURACY.name, "best"] - waffle.printed(name, "APFL").value)
            if (status := here["status"].iloc[0]) != "ran":
                words.append(f"{name}: {status}")
        known = profile.name == "paper" and not any(map(math.isnan, apart))
        row["distance"] = max(map(abs, apart)) if known else math.nan
        rows.append(row | {"status": "; ".join(words) or "ran"})
    return keep(frame, rows)


def _of_paper(on: Iterable[str]) -> dict:
    row = {"reading": "APFL in the paper"}
    for name in on:
        row[f"{name}, best round"] = waffle.printed(name, "APFL").value
        row[f"{name}, last round"] = row[f"{name}, mixture in the end"] = math.nan
    return row | {"distance": math.nan, "status": "printed"}


def beside_local(table: pd.DataFrame, on: Iterable[str]) -> pd.DataFrame:
    """How far best rounds lie from local training, in points: a row for the paper's APFL, then one
    for each reading that ran on all distributions `on`; only the paper's where Local did not.

    `table`: `readings`.  Columns reading, those of `on`, and near: whether all of them are at most
    a point, as the paper's APFL is.
    """
    on, local = list(on), READINGS[-1].name
    best = table.set_index("reading")[[f"{name}, best round" for name in on]].set_axis(on, axis=1)
    paper, ours = best.iloc[:1], best[(table["status"] == "ran").to_numpy()]
    printed = pd.Series({name: waffle.printed(name, "Local").value for name in on})
    found = [paper - printed]
    if local in ours.index:
        found.append(ours.drop(local) - ours.loc[local])
    apart = pd.concat(found)
    near = apart.abs().max(axis=1) <= ACCURACY.near + HAIR
    return apart.assign(near=near).reset_index()


def mixtures(profile: Profile, store, distribution: str) -> pd.DataFrame:
    """Alice's mixture (0: the shared model, 1: her own) by round, a column for each reading that
    was run and has one (`tables.by_round`).
    """
    described = TABLE if distribution in ON else CONTROL
    found = described.only([distribution]).results(store.find, profile.with_seeds(1))
    first = {name: results[0] for name, results in found.items() if name != READINGS[-1].name}
    # A run that diverged in round 1 has no metrics at all.
    alphas = {
        name: result.metrics.set_index("round").reindex(columns=["alpha"])["alpha"]
        for name, result in first.items()
    }
    return by_round(
        alphas,
        {name: result.diverged for name, result in first.items() if result.diverged is not None},
    )


def sentence(table: pd.DataFrame, profile: Profile) -> str:
    """The answer in one sentence, from `readings`."""
    on = waffle.run_on(profile, ON)
    paper = {name: waffle.printed(name, "APFL") for name in on}
    wanted = " and ".join(f"{p.value:.2f} ± {p.std:.2f} on {name}" for name, p in paper.items())
    words = f"The paper prints {wanted} for APFL"
    ran = table[table["status"] == "ran"]
    if not len(ran):
        return f"{words}; no reading of it was run."
    if profile.name != "paper":
        ranges = " and ".join(_range(ran, name) for name in on)
        words += f", in a larger setting than this; here {len(ran)} readings give {ranges}."
        return words + _beside_local(table, on)
    nearest, ours = (
        ran.loc[ran["distance"].idxmin()],
        ran[ran["reading"] == READINGS[0].name],
    )
    numbers = " and ".join(f"{nearest[f'{name}, best round']:.2f} on {name}" for name in ON)
    words += (
        f"; of {len(ran)} readings that ran on both, *{nearest['reading']}* comes nearest with"
        f" {numbers}, at most {nearest['distance']:.2f} points away"
    )
    if len(ours):
        words += f" (this package's APFL: {ours['distance'].iloc[0]:.2f})"
    rows = ran.to_dict("records")
    near = {name: [row["reading"] for row in rows if _reproduces(row, name)] for name in ON}
    told = [
        f"on {name} {'; '.join(f'*{reading}*' for reading in readings) or 'none'}"
        for name, readings in near.items()
    ]
    return f"{words}. Near enough to count as reproduced are {', and '.join(told)}."


def _range(ran: pd.DataFrame, name: str) -> str:
    best = ran.set_index("reading")[f"{name}, best round"]
    return f"{best.min():.2f} (*{best.idxmin()}*) to {best.max():.2f} (*{best.idxmax()}*) on {name}"


def _beside_local(table: pd.DataFrame, on: Iterable[str]) -> str:
    """Which readings stay within a point of local training, as the paper's APFL does; levels of a
    smaller setting cannot be set beside the paper's.
    """
    beside = beside_local(table, on)
    paper, rows = beside.iloc[0], beside.iloc[1:]
    if rows.empty:
        return ""
    apart = " and ".join(f"{paper[name]:+.2f} points on {name}" for name in on).replace("-", "−")
    words = f" The paper's APFL lies {apart} from its local training; within a point of it here:"
    near = rows.loc[rows["near"], "reading"].tolist()
    by_an_image = rows[list(on)].abs().max(axis=1) <= ACCURACY.near + IMAGE
    further = rows.loc[by_an_image & ~rows["near"], "reading"].tolist()
    beyond = ""
    if further:
        beyond = (
            f" Less than a test image ({IMAGE:g} points) beyond it, so not excluded by one"
            f" seed of local training: {'; '.join(f'*{name}*' for name in further)}."
        )
    if not near:
        return f"{words} none of {len(rows)} readings.{beyond}"
    columns = [f"{name}, mixture in the end" for name in on]
    mixtures = table.set_index("reading").loc[near, columns].to_numpy()
    ends = " to ".join(dict.fromkeys(f"{end:.2f}" for end in (mixtures.min(), mixtures.max())))
    told = f"({len(near)} of {len(rows)} readings, whose mixtures end at {ends})"
    return f"{words} {'; '.join(f'*{name}*' for name in near)} {told}.{beyond}"


def _reproduces(row: dict, name: str) -> bool:
    """Whether one run of ours lies as near to the printed mean of five as a verdict asks."""
    printed = waffle.printed(name, "APFL")
    allowed = tolerance({"APFL": printed}, "APFL", 1, waffle.FULL.paper_seeds)
    return abs(row[f"{name}, best round"] - printed.value) <= allowed
