"""Weight Erosion: an Update Aggregation Scheme for Personalized Collaborative Machine Learning
(Grimberg et al.; 2020).

Which runs stand behind each figure, with every hyper-parameter.  Four clients (the paper's agents)
hold the Titanic's passengers, split by age; each of them is Alice (the paper's user) once.  In each
of 30 rounds every client takes one step of SGD on its next batch, in fixed order.

Decisions, where the paper's text, its code (EPFLiGHT/coML-Personalized-v2) and its figures
disagree:

* FedAvg in Figure 1 is not an average (see `methods.broken_global`).  "Global (code)" is what the
  authors ran, at their rate of 0.07; "FedAvg" is the average that the text describes, at the rate
  of 3 that the other two methods have.
* The learning rates, lost from the paper's legend, are those of the authors' report
  (Grimberg_personalizedFL.pdf, Figures 6 and 9): 0.07 for Global, 3 for Weight Erosion and Local,
  on both splits.
* p_s counts passes with the current round (`counting="after"`), as the code does.  Eq. 5 counts
  those before it; the authors' printed traces follow the code to every printed digit.
* The loss is half the cross-entropy plus 1e-3 * ||theta||^2 / 2, bias included.
* Accuracy in the paper's figure is a mean over test batches (`measures.batch_accuracy`); accuracy
  proper is the share of Alice's test passengers that are predicted rightly.  Both are recorded,
  and both are shown.
* "is_minor" is 0.2009 for an unknown age, a slip (data set `titanic_as_run`).
* Figures show the run of the authors' own initial model (`linear-authors`), averages are over the
  seeds' draws (`linear`).
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import BrokenGlobal, FedAvg, Local, WeightErosion
from pfl_lib.papers.metrics import ACCURACY, Metric, column
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Find, Row, Table
from pfl_lib.results.result import Result

PAPER = "weight_erosion"
SPLITS = ("AGE_STRICT", "AGE_SOME")
CLIENTS = (0, 1, 2, 3)
AVERAGED = ("Local", "WE", "FedAvg")  # those with a run for every seed
METHODS = (*AVERAGED, "Global (code)")
FIGURE_2_CLIENTS = (0, 2)

# Our name for a split and its batch size: 161 gives client 1 three batches and the others two, 132
# gives client 3 two and the others three.
SPLIT_AS = {"AGE_STRICT": ("age_strict", 161), "AGE_SOME": ("age_some", 132)}
BY_RADIUS = {"age_strict": "radius_strict", "age_some": "radius_some"}

# --- what is read of a run ---

# The two ways to measure accuracy, see `measures.batch_accuracy`
RUN, RIGHT = "as the paper measures", "predicted rightly"
BEFORE, OTHERS, MEAN = "before round 1", "weight of the others (%)", "mean weight"
WEIGHTS = tuple(f"{MEAN} of client {client}" for client in CLIENTS)


def _before(result: Result, *_) -> float:
    first = result.metrics[result.metrics["round"] == 0]
    return 100 * first["batch_accuracy"].iloc[0] if len(first) else np.nan


def _others(result: Result) -> np.ndarray:
    """The weights of all but Alice, [rounds, 3]."""
    return np.delete(result.weights, result.config["alice"], axis=1)


def _of_weights(name: str, read) -> Metric:
    """A number of Weight Erosion's weights; NaN for a method without weights."""
    return Metric(
        name, "", 0, 0, lambda run, *_: np.nan if run.weights is None else float(read(run))
    )


ACCURACIES = (
    replace(ACCURACY, name=RUN, read=column("batch_accuracy", 100)),
    replace(ACCURACY, name=RIGHT),
)
OF_WEIGHTS = (
    _of_weights(OTHERS, lambda run: 100 * _others(run)[-1].mean()),
    *(
        _of_weights(name, lambda run, client=client: run.weights[:, client].mean())
        for client, name in enumerate(WEIGHTS)
    ),
)

# --- what is run ---


def _rows(model: str) -> tuple[Row, ...]:
    """Every client as Alice of both splits."""
    shared = {"rounds": 30, "local_batches": 1, "order": "fixed", "lr": 3.0, "weight_decay": 1e-3}
    settings = {
        (split, alice): Setting(
            dataset="titanic_as_run",
            partition=SPLIT_AS[split][0],
            model=model,
            clients=len(CLIENTS),
            schedule=Schedule(batch_size=SPLIT_AS[split][1], **shared),
            alice=alice,
            loss="half_cross_entropy",
            measures=("start", "batch_accuracy"),
        )
        for split, alice in product(SPLITS, CLIENTS)
    }
    return tuple(Row(split, f"client {alice}", at) for (split, alice), at in settings.items())


FIGURES = Table(
    PAPER,
    "figure1",
    rows=_rows("linear-authors"),
    columns=(
        Column("Local", Local()),
        Column("WE", WeightErosion(p_d=0.01, p_s=0.2, counting="after")),
        Column("FedAvg", FedAvg(weighting="uniform")),
        Column("Global (code)", BrokenGlobal(), lambda setting: setting.scheduled(lr=0.07)),
    ),
    metrics=(*ACCURACIES, replace(ACCURACY, name=BEFORE, read=_before), *OF_WEIGHTS),
    protocol="last",
    values={},
)
"""The single runs that the figures show, from the authors' own initial model."""
AVERAGES = replace(FIGURES, name="averages", rows=_rows("linear"), metrics=ACCURACIES).only(
    columns=AVERAGED
)
"""The runs of every seed, which averages are taken over."""
OF_FIGURE_2 = FIGURES.only([f"client {c}" for c in FIGURE_2_CLIENTS], datasets=["AGE_STRICT"])


def _radius(setting: Setting) -> Setting:
    """The quick profile's data in place of the Titanic; they have other inputs, so no run starts
    from the authors' model.
    """
    split = BY_RADIUS[setting.partition]
    cancer = replace(setting, dataset="breast_cancer", partition=split, model="linear")
    return cancer.scheduled(batch_size=66)


FULL = Profile(
    name="paper",
    data="the Titanic's 1,309 passengers, the paper's setting",
    seeds=tuple(range(1, 21)),
    paper_seeds=1,
    settings=FIGURES.settings,
    differs=(
        "Figures start from the authors' own initial model, averages are over those seeds' initial"
        " models."
    ),
)
QUICK = replace(
    FULL,
    name="quick",
    data=(
        "scikit-learn's 569 breast tumours, split by radius, in place of the paper's Titanic, split"
        " by age"
    ),
    seeds=(1, 2),
    make=_radius,
    differs="",
)
ALL_PROFILES = {
    "quick": QUICK,
    "small": replace(FULL.with_seeds(5), name="small"),
    "paper": FULL,
}

# --- runs and results ---


def of_table(table: Table, profile: Profile) -> Profile:
    """The profile with the seeds of a table: all of them for `AVERAGES`, else one."""
    return profile if table.name == AVERAGES.name else profile.with_seeds(1)


def runs(profile: Profile, *tables: Table) -> tuple[RunSpec, ...]:
    """The runs behind these tables, each once."""
    found = (run for table in tables for run in table.runs(of_table(table, profile)))
    return tuple(dict.fromkeys(found))


def single(
    splits: Iterable[str] = SPLITS,
    clients: Iterable[int] = CLIENTS,
    methods: Iterable[str] = METHODS,
) -> Table:
    """A part of `FIGURES`."""
    return FIGURES.only([f"client {client}" for client in clients], methods, splits)


def spec(method: str, split: str, alice: int, profile: Profile, seed: int | None = None) -> RunSpec:
    """One run: a method, one of the paper's splits and Alice; where `seed` is None the one that the
    figures show.
    """
    table = (FIGURES if seed is None else AVERAGES).only(datasets=[split])
    seed = profile.seeds[0] if seed is None else seed
    return table.spec(f"client {alice}", method, profile, seed)


def results(find: Find, profile: Profile, split: str) -> dict[int, dict[str, Result]]:
    """A split's single runs: Alice -> method -> result; what `find` (`Store.find`) does not have is
    left out.
    """
    found = {c: single([split], [c]).results(find, profile.with_seeds(1)) for c in CLIENTS}
    return {c: {name: of[0] for name, of in of_client.items()} for c, of_client in found.items()}


def made(profile: Profile, split: str) -> Setting:
    """A split as a profile runs it."""
    return profile.make(single([split]).settings[0])


def heading(profile: Profile, split: str) -> str:
    """The paper's name of a split, and on other data than the paper's what stands in its place."""
    if profile.dataset == "titanic_as_run":
        return split
    return f"in place of {split}: {profile.dataset}, split by radius"


def figure_runs(profile: Profile) -> tuple[RunSpec, ...]:
    """The runs that Figure 1 shows."""
    return runs(profile, FIGURES)


def claim_runs(profile: Profile) -> tuple[RunSpec, ...]:
    """Everything that the paper's sentences are about."""
    return runs(profile, FIGURES, AVERAGES)


def _strict(profile: Profile) -> tuple[RunSpec, ...]:
    return runs(profile, single(["AGE_STRICT"]))
