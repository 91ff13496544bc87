"""Weight Erosion: an Update Aggregation Scheme for Personalized Collaborative Machine Learning
(Grimberg et al.; 2020).

Which runs stand behind each figure, with every hyper-parameter.  Four clients, the paper's agents,
hold the Titanic's passengers, split by age; each of them is the paper's user, our Alice, once.  In
each of 30 rounds every client takes one step of SGD on its next batch, in fixed order.

Decisions, where the paper's text, its code (EPFLiGHT/coML-Personalized-v2) and its figures
disagree:

* FedAvg in Figure 1 is not an average (see `methods.broken_global`).  "Global (code)" is what the
  authors ran, at their rate of 0.07; "FedAvg" is the average that the text describes, at the rate
  of 3 that the other two schemes have.
* The learning rates, lost from the paper's legend, are those of the authors' report
  (Grimberg_personalizedFL.pdf, Figures 6 and 9): 0.07 for Global, 3 for Weight Erosion and Local,
  on both splits.
* p_s counts passes with the current round (`counting="after"`), as the code does.  Eq. 5 counts
  those before it; the authors' printed traces follow the code to every printed digit.
* The loss is half the cross-entropy plus 1e-3 * ||theta||^2 / 2, bias included.
* Accuracy in the paper's figure is a mean over test batches (`measures.batch_accuracy`); accuracy
  proper is the share of the user's test passengers that are predicted rightly.  Both are recorded,
  and both are shown.
* "is_minor" is 0.2009 for an unknown age, a slip (data set `titanic_as_run`).
* Figures show the run of the authors' own initial model (`linear-authors`), averages are over the
  seeds' draws (`linear`).
"""

import itertools
from collections.abc import Iterable
from dataclasses import replace

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import BrokenGlobal, FedAvg, Local, WeightErosion
from pfl_lib.papers.exhibits import Exhibit
from pfl_lib.papers.metrics import ACCURACY, column
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Find, Row, Table
from pfl_lib.results.result import Result

PAPER = "weight_erosion"
SPLITS = ("AGE_STRICT", "AGE_SOME")
USERS = (0, 1, 2, 3)
AVERAGED = ("Local", "WE", "FedAvg")  # those with a run for every seed
SCHEMES = (*AVERAGED, "Global (code)")
P_D, P_S = 0.01, 0.2
PENALTIES = tuple(itertools.product((0.0, 0.003, 0.01, 0.03, 0.1), (0.0, 0.2, 1.0, 5.0)))
FIGURE_2_USERS = (0, 2)

# The two ways to measure accuracy, see `measures.batch_accuracy`
RUN, RIGHT = "as the paper measures", "predicted rightly"
METRICS = (
    replace(ACCURACY, name=RUN, read=column("batch_accuracy", 100)),
    replace(ACCURACY, name=RIGHT),
)

# Our name for a split and its batch size: 161 gives agent 1 three batches and the others two, 132
# gives agent 3 two and the others three.
SPLIT_AS = {"AGE_STRICT": ("age_strict", 161), "AGE_SOME": ("age_some", 132)}
BY_RADIUS = {"age_strict": "radius_strict", "age_some": "radius_some"}


def _rows(model: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            split,
            f"user {user}",
            Setting(
                dataset="titanic_as_run",
                partition=SPLIT_AS[split][0],
                model=model,
                clients=len(USERS),
                schedule=Schedule(
                    rounds=30,
                    local_batches=1,
                    order="fixed",
                    batch_size=SPLIT_AS[split][1],
                    lr=3.0,
                    weight_decay=1e-3,
                ),
                alice=user,
                loss="half_cross_entropy",
                measures=("start", "batch_accuracy"),
            ),
        )
        for split, user in itertools.product(SPLITS, USERS)
    )


def _erosion(p_d: float, p_s: float) -> WeightErosion:
    # With p_d = 0 p_s has no part
    return WeightErosion(p_d, p_s if p_d else 0.0, counting="after")


def of_penalties(p_d: float, p_s: float) -> str:
    """The name of a column of `GRID`."""
    return f"p_d {p_d:g}, p_s {p_s:g}"


FIGURES = Table(
    PAPER,
    "figure1",
    rows=_rows("linear-authors"),
    columns=(
        Column("Local", Local()),
        Column("WE", _erosion(P_D, P_S)),
        Column("FedAvg", FedAvg(weighting="uniform")),
        Column("Global (code)", BrokenGlobal(), lambda setting: setting.scheduled(lr=0.07)),
    ),
    metrics=METRICS,
    protocol="last",
    values={},
)
"""The single runs that the figures show, from the authors' own initial model."""
AVERAGES = replace(FIGURES, name="averages", rows=_rows("linear")).only(columns=AVERAGED)
"""The runs of every seed, which averages are taken over."""
GRID = replace(
    FIGURES.only([f"user {user}" for user in FIGURE_2_USERS], datasets=["AGE_STRICT"]),
    name="penalties",
    columns=tuple(Column(of_penalties(*pair), _erosion(*pair)) for pair in PENALTIES),
    metrics=METRICS[1:],
)
"""Weight Erosion over the grid of p_d and p_s, for the two users of Figure 2."""


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


def single(
    splits: Iterable[str] = SPLITS,
    users: Iterable[int] = USERS,
    schemes: Iterable[str] = SCHEMES,
) -> Table:
    """A part of `FIGURES`."""
    return FIGURES.only([f"user {user}" for user in users], schemes, splits)


def spec(scheme: str, split: str, user: int, profile: Profile, seed: int | None = None) -> RunSpec:
    """One run: a scheme, one of the paper's splits and a user; where `seed` is None the one that
    the figures show.
    """
    table = (FIGURES if seed is None else AVERAGES).only(datasets=[split])
    return table.spec(f"user {user}", scheme, profile, profile.seeds[0] if seed is None else seed)


def specs(profile: Profile, *which) -> tuple[RunSpec, ...]:
    """The runs of `single(*which)` that the figures show."""
    return single(*which).runs(profile.with_seeds(1))


def penalty_runs(profile: Profile) -> tuple[RunSpec, ...]:
    """The grid, and what it lies between: Local and FedAvg."""
    ends = single(["AGE_STRICT"], FIGURE_2_USERS, ["Local", "FedAvg"])
    return GRID.runs(profile.with_seeds(1)) + ends.runs(profile.with_seeds(1))


def claim_runs(profile: Profile) -> tuple[RunSpec, ...]:
    """Everything that the paper's sentences are about."""
    return tuple(dict.fromkeys((*specs(profile), *AVERAGES.runs(profile))))


def results(
    find: Find, profile: Profile, split: str, schemes: Iterable[str] = SCHEMES
) -> dict[int, dict[str, Result]]:
    """A split's single runs: user -> scheme -> result; what `find` (`Store.find`) does not have is
    left out.
    """
    of_user = {u: single([split], [u], schemes) for u in USERS}
    return {
        user: {name: run for name, (run,) in table.results(find, profile.with_seeds(1)).items()}
        for user, table in of_user.items()
    }


def made(profile: Profile, split: str) -> Setting:
    """A split as a profile runs it."""
    return profile.make(single([split]).settings[0])


def heading(profile: Profile, split: str) -> str:
    """The paper's name of a split, and on other data than the paper's what stands in its place."""
    return (
        split
        if profile.dataset == "titanic_as_run"
        else f"in place of {split}: {profile.dataset}, split by radius"
    )


def _strict(profile: Profile) -> tuple[RunSpec, ...]:
    return specs(profile, ["AGE_STRICT"])


def _of_figure_2(profile: Profile) -> tuple[RunSpec, ...]:
    return specs(profile, ["AGE_STRICT"], FIGURE_2_USERS)


def _page(id: str, name: str, title: str, **shown) -> Exhibit:
    page, notebook = f"weight-erosion-{id}", f"{PAPER}/{name}.ipynb"
    return Exhibit(page, "Weight Erosion", title, notebook, ALL_PROFILES, **shown)


PAGES = (
    _page(
        "fig1",
        "fig1_accuracy_and_weights",
        "Figure 1: accuracies and weights by round, for each user",
        runs=specs,
    ),
    _page(
        "fig2",
        "fig2_parameters",
        "Figure 2: what the models have learned",
        runs=_of_figure_2,
        models=_of_figure_2,
    ),
    _page("penalties", "penalties", "What the two penalties do", runs=penalty_runs),
    _page("gradient-distances", "gradient_distances", "Appendix A: how far apart gradients are"),
    _page(
        "claims",
        "claims",
        "What the paper says, and what its runs say",
        runs=claim_runs,
        models=_strict,
    ),
)
"""The figures of the paper, its Appendix A and its sentences."""
