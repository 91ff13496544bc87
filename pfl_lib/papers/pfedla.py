"""pFedLA: Layer-wised Model Aggregation for Personalized Federated Learning (Ma, Zhang, Guo, Xu;
2022).

Its Tables 1 to 3 with the settings of section 4, and what is run for its figures.  Ten
clients who all take part (600 rounds of 10 local epochs), or a hundred of whom ten do (2,500 rounds
of 20); plain SGD at 0.01 (CIFAR) or 0.005, batches of 32; accuracies are means over all clients
after the last round.

Settled here where the paper is silent:

* 600 images a client, the most that 60,000 allow a hundred.  It was known that Local and FedAvg
  then reach the paper's accuracies on CIFAR10 (60.6 and 47.8 beside 59.4 and 48.6).
* EMNIST has ten classes here, by the sizes in Table 3; MNIST stands in for it, and gets no verdict.
* Three seeds; the paper prints a spread and no number.
* The hypernetwork's step, which decides what pFedLA becomes: `hypernetwork_step`.
* Figure 1 has "six clients", "a nine-class classification task" and no more.  Here it is CIFAR10
  without its last class, four of the nine classes a client, the network of the tables without
  norms, and their schedule.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from pfl_lib import methods
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import PFedLA
from pfl_lib.methods.similarity import Similarity
from pfl_lib.models import WITH_STATISTICS
from pfl_lib.papers import layer_weights
from pfl_lib.papers.metrics import ACCURACY, MEGABYTES
from pfl_lib.papers.profiles import Profile, only, sizes
from pfl_lib.papers.runs import IN_TABLE, Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.partitions import Classes, Dominant, Neighbours, Relatives
from pfl_lib.results.result import MODELS

PAPER = "pfedla"
DATASETS = {  # the paper's, and what is run for them
    "EMNIST": "mnist",
    "FashionMNIST": "fashion_mnist",
    "CIFAR10": "cifar10",
    "CIFAR100": "cifar100",
}
COLOURED = ("cifar10", "cifar100")
OURS = ("pFedLA", "HeurpFedLA")
FEW = "non_iid_1_10_clients"

STEPS_OF_AN_EPOCH = {"cifar10": 10.0, "cifar100": 10.0, "fashion_mnist": 60.0, "mnist": 60.0}
"""The hypernetwork's step times the local epochs of a round, with the highest accuracy on
validation data (docs/results.md).  Those of CIFAR100 and MNIST are those of the data like them,
unmeasured.
"""
QUICK_STEP = 20.0  # for the digits of the quick profile, whose weights then move and stay apart


def hypernetwork_step(setting: Setting) -> float:
    """The measured step, by the local epochs of a round: weights are moved by step times the
    clients' updates, which grow with these.  Divided by the rounds too, it would leave all weights
    near 1/N, as FedAvg has them (docs/results.md).
    """
    step = STEPS_OF_AN_EPOCH.get(setting.dataset, QUICK_STEP)
    return step / setting.schedule.local_epochs


def pfedla(setting: Setting, retained: int | tuple[str, ...] = 0, factor: float = 1.0) -> PFedLA:
    """pFedLA in a setting, at `factor` times its step; HeurpFedLA where layers are retained."""
    return PFedLA(retained=retained, step=factor * hypernetwork_step(setting))


def steps(runs: Runs) -> pd.DataFrame:
    """The step of every run of pFedLA: columns dataset, setting, method and step."""
    of = (run for run in runs.planned if isinstance(run.spec.method, PFedLA))
    lines = [run.place | {"step": run.spec.method.step} for run in of]
    return pd.DataFrame(lines, columns=[*IN_TABLE, "step"]).drop_duplicates(ignore_index=True)


def with_steps(beside: pd.DataFrame, runs: Runs, exact: Sequence[Runs]) -> pd.DataFrame:
    """The frame of `compare.beside`, with the step of each of pFedLA's runs that ran behind its
    accuracy: columns mark, and exact mark of the exact setting's runs.
    """
    beside = beside.copy()
    for which, of in {"": [runs], "exact ": exact}.items():
        if f"{which}ours" in beside:
            found = pd.concat(map(steps, of)).drop_duplicates(IN_TABLE)
            step = beside[[*IN_TABLE]].merge(found, how="left")["step"].set_axis(beside.index)
            known = beside[f"{which}ours"].notna() & (beside["metric"] == ACCURACY.name)
            mark = step.map(" (step {:.3g})".format)
            beside[f"{which}mark"] = mark.where(known & step.notna(), "")
    return beside


def leads(beside: pd.DataFrame, size: str) -> pd.DataFrame:
    """By data set and setting, the higher of pFedLA's and HeurpFedLA's numbers in the column `size`
    of a frame of `compare`, less the best of the paper's other methods ("others"; "ran" of "count"
    have a number), and less `TUNED`'s ("tuned").
    """
    place, theirs = ["dataset", "setting"], {one.name for one in COLUMNS if one.printed} - {*OURS}
    rows = beside.set_index(place)
    best = rows.loc[rows["method"].isin(OURS), size].groupby(place).max()
    others = rows.loc[rows["method"].isin(theirs), size].groupby(place, sort=False)
    tuned = rows.loc[rows["method"] == TUNED.name, size]
    found = {"others": best - others.max(), "tuned": best - tuned}
    found |= {"ran": others.count(), "count": others.size()}
    return pd.DataFrame(found, others.max().index).dropna(subset="others")


def served_and_trained(runs: Runs) -> pd.DataFrame:
    """Every method's model as it is served and after the client's own epochs, in the last round of
    the runs that ended well: by data set, setting, method and step (pFedLA's), columns served,
    trained (percent, means over clients and seeds) and gain.

    `TUNED` is trained already: served as it is, with no trained model beside it.
    """
    lines = []
    for run in runs.planned:
        result, model = runs.find(run.spec), run.column.model
        if result is not None and result.diverged is None:
            read = {m: 100 * result.value("accuracy", "last", model=m) for m in MODELS}
            read = read if model is None else {"served": read[model], "trained": math.nan}
            lines.append(run.place | read)
    frame = pd.DataFrame(lines, columns=[*IN_TABLE, *MODELS]).merge(steps(runs), how="left")
    frame = frame.groupby([*IN_TABLE, "step"], sort=False, dropna=False).mean()
    return frame.assign(gain=frame["trained"] - frame["served"])


# --- Tables 1 and 2 ---


def setting(dataset: str, number: int = 1, clients: int = 10) -> Setting:
    """The setting of Table `number`, non-IID.1 or non-IID.2, for one of the paper's data sets."""
    ours = DATASETS[dataset]
    wide = dataset == "CIFAR100"
    few = clients == 10
    return Setting(
        dataset=ours,
        partition=Classes(12 if wide else 4) if number == 1 else Dominant(6 if wide else 2),
        model="pfedla_cnn-norm" if ours in COLOURED else "pfedla_cnn",
        schedule=Schedule(
            rounds=600 if few else 2500,
            local_epochs=10 if few else 20,
            batch_size=32,
            lr=0.01 if ours in COLOURED else 0.005,
            participation=1.0 if few else 0.1,
        ),
        clients=clients,
        alice=None,
        measures=("trained",),
        evaluate_every=25 if few else 100,
    )


def _row(dataset: str, name: str, at: Setting) -> Row:
    return Row(dataset, name, at, "MNIST stands in for EMNIST" if dataset == "EMNIST" else "")


def _rows(number: int) -> tuple[Row, ...]:
    return tuple(
        _row(name, f"non_iid_{number}_{clients}_clients", setting(name, number, clients))
        for name in DATASETS
        for clients in (10, 100)
    )


TUNED = Column("FedAvg, then own epochs", methods.FedAvg(), model="trained")
"""FedAvg's model after the epochs that every client runs on it anyway, as the model that is served:
what a personalised method should beat.  The paper has no such column.
"""
COLUMNS = (
    Column("Local Training", methods.Local()),
    Column("FedAvg", methods.FedAvg()),
    Column("Per-FedAvg", methods.PerFedAvg()),
    Column("pFedMe", methods.PFedMe()),
    Column("pFedHN", methods.PFedHN()),
    # Where the network has norms: the paper leaves its other places empty.
    Column("FedBN", lambda at: methods.FedBN() if at.model in WITH_STATISTICS else None),
    Column("FedRep", methods.FedRep()),
    # Held out: FedFomo's own share (its appendix A.6)
    Column("FedFomo", methods.FedFomo(), lambda setting: replace(setting, validation=0.2)),
    Column("pFedLA", pfedla),
    Column("HeurpFedLA", partial(pfedla, retained=1)),
    TUNED,
)
_made = partial(Table, PAPER, protocol="last", over="clients")
TABLE1 = _made("table1", _rows(1), COLUMNS)
TABLE2 = _made("table2", _rows(2), COLUMNS)


# --- Table 3 ---

TABLE3 = _made(
    "table3",
    rows=TABLE1.only([FEW], datasets=["EMNIST", "CIFAR10"]).rows,
    columns=tuple(Column(f"HeurpFedLA k={k}", partial(pfedla, retained=k)) for k in range(4)),
    metrics=(ACCURACY, replace(MEGABYTES, read=layer_weights.printed_megabytes)),
)


# --- figures ---

_SIX = replace(
    setting("CIFAR10"),
    partition=Classes(4, leave_out=(9,)),
    model="pfedla_cnn",
    clients=6,
    measures=(),
)
FIGURE1 = _made(
    "fig1",
    (Row("CIFAR10", "six_clients_nine_classes", _SIX),),
    (
        Column("layer-wise", Similarity("layer")),
        Column("model-wise", Similarity("model")),
        Column("FedAvg", methods.FedAvg()),
        Column("Local Training", methods.Local()),
    ),
)
ENTROPY = Similarity().entropy
SHARPNESS = tuple(
    Column(f"{by}-wise, {entropy:g}", Similarity(by, entropy))
    for entropy in (0.5, 0.9)
    for by in ("layer", "model")
)
"""Figure 1's two averages with sharper and flatter weights, since the paper gives no temperature:
`entropy` is how equal weights are, as a share of the entropy of equal ones.
"""


def _watched(recipe: Neighbours | Relatives, name: str) -> Table:
    """pFedLA's runs with eight clients on all data sets: its weights are what is looked at."""
    rows = []
    for dataset in DATASETS:
        classes = replace(recipe, per_client=12) if dataset == "CIFAR100" else recipe
        rows.append(_row(dataset, name, replace(setting(dataset), partition=classes, clients=8)))
    return _made(name, tuple(rows), (Column("pFedLA", pfedla),))


FIGURE5, FIGURE6 = _watched(Relatives(), "relatives"), _watched(Neighbours(), "neighbours")

# --- profiles ---


def is_quick(setting: Setting) -> bool:
    """Whether the quick profile runs a setting: ten clients, a network of each kind."""
    datasets = ("cifar10",) if isinstance(setting.partition, Dominant) else ("mnist", "cifar10")
    return setting.clients < 100 and setting.dataset in datasets


def _quick(setting: Setting, evaluate_every: int = 3) -> Setting:
    partition = replace(setting.partition, examples=80)
    setting = replace(setting, dataset="digits", partition=partition, evaluate_every=evaluate_every)
    return setting.scheduled(rounds=3, local_epochs=2, lr=0.05, batch_size=16)


def _small(setting: Setting, evaluate_every: int = 6) -> Setting:
    # A pass over the ten clients' 4,200 images takes a second of one core on CIFAR10.
    return replace(setting.scheduled(rounds=30, local_epochs=5), evaluate_every=evaluate_every)


def profiles(*tables: Table, mnist: bool = False) -> dict[str, Profile]:
    """The profiles of a page on these tables.  `mnist`: `small` runs MNIST too."""
    datasets = ("cifar10", "fashion_mnist", *["mnist"] * mnist)
    return sizes(
        tuple(setting for table in tables for setting in table.settings),
        only(is_quick, _quick),
        only(lambda setting: setting.clients < 100 and setting.dataset in datasets, _small),
        seeds=(1, 1, 3),
        paper_seeds=3,
        note="The paper prints no number of images, of seeds nor the hypernetwork's step: 600"
        " images a client (quick: 80) are our choice. MNIST stands in for EMNIST.",
        supposed=True,
    )


FIGURE1_PROFILES = sizes(
    FIGURE1.settings,
    partial(_quick, evaluate_every=1),
    partial(_small, evaluate_every=2),
    seeds=(1, 3, 3),
    paper_seeds=1,
    note="Data, network, schedule and measure of similarity are our choice: the paper says only six"
    " clients and nine classes.",
)
