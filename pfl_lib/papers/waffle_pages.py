"""WAFFLE beside its Table 1 on MNIST: Table 1 on CIFAR10, the study of Weight Erosion's size
penalty, the printed numbers that an experiment starts from, and the pages.

CIFAR10: DLA, SGD at rate 0.01 with momentum 0.9 and weight decay 5e-4, batches of 128 (section 3),
images moved and mirrored at random; one seed.  Weight Erosion's p_d is not the paper's.  Table 3
prints 0.6 to 1.1, with which every weight is gone in two rounds: relative distances of updates are
0.6 to 1.4.  It is chosen as on MNIST instead, aimed at weights that reach 0 at nine tenths of the
rounds: p_d = 1 / (0.9 R d), with d the mean relative distance of the others' updates to Alice's in
a short pilot.  A longer run's distances are others: published weights reach 0 after 14 to 24 of 25
rounds, and one never.

The size penalty: the last table of the paper's appendix, printed without a word, is the design of a
study of p_s.  Its label distributions A and C (the latter is B elsewhere in the paper) and its size
distributions are those of the authors' code (MartinBeaussart/Weight_Erosion_ML, branch Martin,
run_models.py).  LeNet-5 stands in for that code's network of three convolutions.
"""

from dataclasses import replace
from itertools import product
from statistics import median

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Waffle, WeightErosion
from pfl_lib.papers import values, waffle
from pfl_lib.papers.exhibits import Exhibit, by_notebook
from pfl_lib.papers.profiles import Profile, only, smaller
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.papers.waffle import ALICE, COLUMNS, DISTRIBUTIONS, PAPER, ROUNDS, SLOPE, is_quick
from pfl_lib.partitions import SizedSkew
from pfl_lib.partitions.label_skew import ONE_MAIN_LABEL

# --- CIFAR10 ---

CIFAR10 = Setting(
    dataset="cifar10",
    partition="C",
    model="dla",
    schedule=Schedule(
        rounds=ROUNDS,
        batch_size=128,
        lr=0.01,
        momentum=0.9,
        weight_decay=5e-4,
        augment="crop_flip",
    ),
    alice=ALICE,
)
PILOT_ROUNDS, PILOT_PENALTY = 5, 1e-6
GONE = 0.9  # of the rounds, after which no weight is left but Alice's
DISTANCES = {"A": 0.648, "B": 1.372, "C": 1.434, "A*": 1.326, "B*": 1.379}
"""The mean relative distance in the pilot of each distribution, to three digits, on which the keys
of published runs hang: `PILOTS`, read on the page about CIFAR10.

Measured with the small profile's network and images, and taken for DLA too.
"""


def _small(setting: Setting) -> Setting:
    return replace(smaller(rounds=25, images=12_000)(setting), model="pfedla_cnn")


def _quick(setting: Setting) -> Setting:
    # Batches of 128 would be two steps an epoch, with which nothing is learned in five rounds.
    made = smaller(rounds=5, dataset="digits")(setting).scheduled(batch_size=8)
    return replace(made, model="lenet5")


def penalty(distance: float, rounds: int) -> float:
    """The penalty that the rule gives for a mean relative distance, to three digits."""
    return float(f"{1 / (GONE * rounds * distance):.3g}")


def cifar10_p_d(distribution: str, rounds: int) -> float:
    """The penalty of Table 1's runs: `penalty` of the constant distance; of a partition that Table
    1 does not have, of the median one.
    """
    return penalty(DISTANCES.get(distribution, median(DISTANCES.values())), rounds)


def _cifar10_erosion(setting: Setting) -> WeightErosion:
    return WeightErosion(p_d=cifar10_p_d(setting.partition, setting.schedule.rounds), p_s=0.0)


OWN = {"WE": _cifar10_erosion, "WAFFLE": Waffle(slope=SLOPE)}  # Table 3's for every distribution
CIFAR10_TABLE = Table(
    PAPER,
    "table1",
    rows=tuple(Row("CIFAR10", name, replace(CIFAR10, partition=name)) for name in DISTRIBUTIONS),
    columns=tuple(Column(column.name, OWN.get(column.name, column.method)) for column in COLUMNS),
    protocol="best",
    over="alice",
)
_CALIBRATED = (
    "Weight Erosion's p_d is not Table 3's, with which all weights are gone in two rounds: by a"
    " short pilot's distances they are gone after nine tenths of the rounds."
)
CIFAR10_FULL = Profile(
    name="paper",
    data="CIFAR-10, all 50,000 training images, DLA",
    seeds=(1,),
    paper_seeds=1,
    settings=CIFAR10_TABLE.settings,
    differs=_CALIBRATED,
)
CIFAR10_SMALL = replace(
    CIFAR10_FULL,
    name="small",
    data=(
        "CIFAR-10, the first 12,000 of its 50,000 training images and all test images, with a"
        " network of 121,182 parameters in place of DLA"
    ),
    make=_small,
)
CIFAR10_QUICK = replace(
    CIFAR10_FULL,
    name="quick",
    data="scikit-learn's 1,797 digits enlarged to 28x28 and LeNet-5 in place of CIFAR-10 and DLA",
    differs=f"Batches of 8. {_CALIBRATED}",
    make=only(is_quick, _quick),
)
CIFAR10_PROFILES = {
    profile.name: profile for profile in (CIFAR10_QUICK, CIFAR10_SMALL, CIFAR10_FULL)
}

PILOTS = Table(
    PAPER,
    "pilot",
    rows=CIFAR10_TABLE.rows,
    columns=(Column("WE", WeightErosion(p_d=PILOT_PENALTY, p_s=0.0)),),
    values={},
)
"""A few rounds of every distribution in which weights hardly fall."""
WITHIN = 1 / (GONE * CIFAR10_SMALL.rounds)
"""How far a pilot may be from its constant, as a share of it: the small profile's weights then
vanish within a round of where they were aimed.  Another processor does not keep three digits, and
weights near 1, stored in single precision, give a distance to about a hundredth.
"""


def _piloted(profile: Profile) -> Profile:
    """Whose pilots a profile shows: the small one's for the paper's too, as `DISTANCES` are; the
    quick one has its own, on digits.
    """
    of = CIFAR10_QUICK if profile.name == "quick" else CIFAR10_SMALL
    return of.with_rounds(PILOT_ROUNDS)


def pilot_runs(profile: Profile) -> tuple[RunSpec, ...]:
    """The pilots of a profile, one for each distribution that it runs."""
    return PILOTS.runs(_piloted(profile))


# --- the size-penalty study ---

SIZE_LABELS = {"A": "A", "C": "B"}  # the study's letter to this package's
SIZES = {
    "A": (10, 10, 10, 10, 10, 10, 10, 10, 10, 10),
    "B": SizedSkew.sizes,
    "C": (10, 10, 10, 10, 20, 5, 5, 10, 10, 10),
}
"""The appendix's shares in percent; client i has that of i mod 10."""


def _sized(labels: str, sizes: str) -> Setting:
    schedule = Schedule(rounds=30, local_epochs=1, batch_size=32, lr=0.1)
    partition = SizedSkew(SIZE_LABELS[labels], SIZES[sizes])
    return Setting("mnist", partition, "lenet5", schedule, clients=20, alice=ALICE)


SIZED = {f"labels {x}, sizes {y}": _sized(x, y) for x, y in product(SIZE_LABELS, SIZES)}
_NETWORK = "LeNet-5 stands in for the study's network of three convolutions."
_FEWER = f"{_NETWORK} p_s is multiplied by the share of the images, as batches are so much fewer."
_STUDY = Profile(
    name="paper",
    data="MNIST, all 60,000 training images, the study's setting",
    seeds=(1,),
    paper_seeds=1,
    settings=tuple(SIZED.values()),
    differs=_NETWORK,
)
SIZE_PROFILES = {
    "quick": replace(
        _STUDY,
        name="quick",
        data="scikit-learn's 1,797 digits enlarged to 28x28 in place of MNIST",
        make=only(lambda setting: setting == SIZED["labels C, sizes B"], smaller(dataset="digits")),
        differs=_FEWER,
    ),
    "small": replace(
        _STUDY,
        name="small",
        data=waffle.SMALL.data,
        make=smaller(images=12_000),
        differs=_FEWER,
    ),
    "paper": _STUDY,
}


# --- what an experiment starts from ---

Place = tuple[str, str, str, str, str]
"""(table, data set, setting, method, metric), as in `paper_values.csv`."""


def settings_used() -> dict[Place, float]:
    """Each printed setting's place (Tables 2 and 3) to the number that the paper profile's runs
    have there.
    """
    found: dict[Place, float] = {}
    for dataset, setting, of, metric in values.of_table(PAPER, "table2"):
        client, label = of.removeprefix("agent"), metric.removesuffix("_share")
        shift = int(client) + int(label.removeprefix("label"))
        share = ONE_MAIN_LABEL[shift % len(ONE_MAIN_LABEL)] / 100  # the recipe of distribution C
        found["table2", dataset, setting, of, metric] = share
    tables = {
        "MNIST": (waffle.TABLE1, waffle.FULL),
        "CIFAR10": (CIFAR10_TABLE, CIFAR10_FULL),
    }
    for dataset, setting, of, metric in values.of_table(PAPER, "table3"):
        table, profile = tables[dataset]
        method = table.spec(setting, of, profile, 1).method
        used = method.p_d if metric == "p_d" else method.slope
        found["table3", dataset, setting, of, metric] = float(used)
    return found


# --- pages ---


def _page(name: str, title: str, profiles=waffle.ALL_PROFILES, *tables: Table) -> Exhibit:
    kind, _, rest = name.partition("_")
    id = kind if kind[-1].isdigit() and rest else name.replace("_", "-")
    notebook = f"{PAPER}/{name}.ipynb"
    shown = {"runs": by_notebook(notebook), "tables": tables}
    return Exhibit(f"{PAPER}-{id}", "WAFFLE", title, notebook, profiles, **shown)


_TABLE1 = "accuracy of six methods on five distributions"
PAGES = (
    _page("table1_accuracy", f"Table 1: {_TABLE1}", waffle.ALL_PROFILES, waffle.TABLE1),
    _page("cifar10", f"Table 1, CIFAR10: {_TABLE1}", CIFAR10_PROFILES, CIFAR10_TABLE),
    _page("table2_distributions", "Table 2 and Figure 2: who holds which labels"),
    _page(
        "table3_hyperparameters",
        "Table 3: hyper-parameters, and when they leave Alice alone",
        waffle.ONE_SEED,
    ),
    _page("fig1_personalised_model", "Figure 1: the personalised model over three rounds"),
    _page(
        "fig3_weight_evolution",
        "Figure 3: how weights evolve from everyone to Alice",
        waffle.ONE_SEED,
    ),
    _page("fig4_accuracy_evolution", "Figure 4: accuracy by round on distribution C"),
    _page("fig6_accuracy_all_distributions", "Figure 6: accuracy by round on every distribution"),
    _page(
        "fig7_accuracy_cifar10",
        "Figure 7: accuracy by round on every distribution of CIFAR10",
        CIFAR10_PROFILES,
    ),
    _page("fig8_omega", "Figure 8: the degree of personalisation, Omega"),
    _page("claims", "What the paper says about speed and the way to local training"),
    _page("shift", "One model under concept shift: whose labels win", waffle.SHIFT_PROFILES),
    _page("apfl", "What decides APFL's accuracy", waffle.small_differs(waffle.MANY_RUNS, "")),
    _page("tuning", "What tuning changes: WAFFLE's slope and WE's p_d", waffle.MANY_RUNS),
    _page("open_questions", "Questions that the paper leaves to others", waffle.MANY_RUNS),
    _page(
        "size_penalty",
        "The appendix's last table: Weight Erosion's size penalty",
        SIZE_PROFILES,
    ),
    _page("readings", "Equation 1, and Alice's test images", waffle.READINGS_PROFILES),
)
"""Its tables and figures in the paper's order, then what it leaves open."""
