"""FedFomo: Personalized Federated Learning with First Order Model Optimization (Zhang, Sapra,
Fidler, Yeung, Alvarez; 2021).

Its Tables 1 to 6, and what its figures are made of.  15 clients train in every round, for
20 rounds, or 10 of 100 clients, for 100 rounds; five local epochs, batches of 50, plain SGD with
weight decay (section 4, appendix A.6).

Settled here where the paper is silent or contradicts its released code (NVlabs/FedFomo):

* Latent groups come from the pooled features of EfficientNet-Lite0 trained on ImageNet, pictures
  enlarged to 80 pixels, for want of the paper's VGG-11: nearest to the distances that Tables 2 and
  5 print.  The mean difference over nine values (CIFAR10's five groups read as 1.80) is 0.39; with
  64 pixels it is 0.43, with 96, on 5,000 pictures where 80 have 0.39 too, 0.42; a small CNN
  trained on the labels alone has 0.61.
* Every method trains on 80 % of a client's examples, as in the released code, which splits before
  it chooses a method; the paper speaks of the split for FedFomo alone.
* The network is the released code's, 122,570 parameters on CIFAR10; the paper names McMahan's
  (`mcmahan_cnn`).  On MNIST, for which the release has no network, it is the same one with one
  channel, 93,322 parameters [our choice].
* CFL splits by norms, the rule of its paper and code, at the released limits, 0.42 and 1.6, but
  from round 5 on, since that code waits for all of the 20 rounds.  On five groups of 3,000 images,
  ten rounds of 20 steps in place of 270, no update is longer than 1.17, so that it never splits and
  has 30.0 % (FedAvg 29.6); with limits relative to round 1, `CFL()`, it ends in five clusters at
  46.0 %.
* FedAvg + Data, "the 5% data-sharing strategy" of Zhao et al., shares 5 % of all clients' training
  data, as theirs does; the released code's pool is 5 % of one client's, N times less (8 images with
  100 clients), and is `FedAvgData(pool="client")`.  On those 3,000 images: 34.3 and 31.6 %.
* n counts a client's own model: the server sends "the top M values" of P, whose diagonal of 1 puts
  one's own first, and the released code counts so.  "5 clients downloaded", in the tables, may
  mean five others: `FedFomo(5, counts_own=False)`, 45.7 % on those images against 45.8.
* Only models that were uploaded in the round are sent, as in the released code.  With those of
  earlier rounds, `FedFomo(5, keeps=True)`, 100 clients on CIFAR10 have 80.9 %, without 81.0.
* CIFAR is normalised with its usual constants (`data.DATASETS`); the released code has ImageNet's.
* Table 3 averages five shufflings of the targets.  A seed draws one, as in the released code, which
  seeds NumPy with the run's seed and then shuffles; so five seeds, which also differ in the initial
  model, in who holds which examples of a group, and in all batches.
* Tables 4 and 6 are Table 2's five groups under DP-SGD.  Clipped is at sigma 0 too: the paper takes
  Opacus' optimiser there as well.  Batches are drawn as Opacus' accountant assumes, each example by
  itself with chance 50 / n.  FedFomo is run with n = 5; the tables do not say n.
* Clients that are not drawn in a round keep their model, those of local training too.
* pFedMe has the released code's lambda 15 and five steps.  With that code's rate of 0.09 on the
  inner problem it diverges on CIFAR10; the rate there, 0.0025, has the highest validation accuracy
  of five between 0.00125 and 0.02 (docs/results.md).  CIFAR100 takes it over, untried.  On MNIST,
  which that code does not have, it is the rate 0.01 that the paper gives all methods.
* Reported is the mean over clients after the last federated update; the printed spread is read as
  one over runs.
"""

from collections.abc import Iterable
from dataclasses import replace

from pfl_lib.engine.private import DPSGD
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import (
    CFL,
    FedAvg,
    FedAvgData,
    FedFomo,
    FedFomoMA,
    FedProx,
    LGFedAvg,
    Local,
    Mocha,
    PerFedAvg,
    PFedMe,
)
from pfl_lib.papers.metrics import ACCURACY, EPSILON
from pfl_lib.papers.profiles import Profile, only, sizes
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.partitions import Latent, Recipe, Shards

PAPER = "fedfomo"
GROUPS = (2, 3, 4, 5, 10)  # numbers of latent distributions
VALIDATION = 0.2
MANY = 100  # clients, of whom a tenth takes part in a round
SHUFFLINGS = 5  # of the targets in Table 3
SIGMAS = (0, 1, 2)  # noise multipliers of Tables 4 and 6
MAX_NORM = 1.0  # their clipping bound: the released code's default
CFL_LIMITS = (0.42, 1.6)  # norms: the released code's epsilon_1 and epsilon_2
INNER_RATES = {"cifar10": 0.0025, "cifar100": 0.0025, "digits": 0.09}
"""Of pFedMe; on other data it has all methods' rate."""


def _inner(setting: Setting) -> Setting:
    return setting.scheduled(lr=INNER_RATES.get(setting.dataset, setting.schedule.lr))


COLUMNS = (
    Column("Local Training", Local()),
    Column("FedAvg", FedAvg()),
    Column("FedAvg + Data", FedAvgData(share=0.05)),
    Column("FedProx", FedProx()),
    Column("LG-FedAvg", LGFedAvg()),
    Column("MOCHA", Mocha()),
    Column("CFL", CFL(*CFL_LIMITS, relative=False)),
    Column("Per-FedAvg", PerFedAvg()),
    Column("pFedMe", PFedMe(lam=15), _inner),
    Column("FedFomo (n=5)", FedFomo(5)),
    Column("FedFomo (n=10)", FedFomo(10)),
)
METHODS = tuple(column.name for column in COLUMNS)


def setting(dataset: str, partition: Recipe, clients: int = 15) -> Setting:
    """The paper's setting for a data set, a partition and a number of clients (section 4, A.6)."""
    mnist = dataset == "mnist"
    schedule = Schedule(
        rounds=100 if clients == MANY else 20,
        local_epochs=5,
        batch_size=50,
        lr=0.01 if mnist else 0.1,
        lr_decay=0.99,
        weight_decay=1e-4,
        participation=0.1 if clients == MANY else 1.0,
        augment="none" if mnist else "crop_flip",
    )
    return Setting(
        dataset, partition, "tf_cnn", schedule, clients=clients, alice=None, validation=VALIDATION
    )


def made(name: str, rows: Iterable[Row], columns: tuple[Column, ...] = COLUMNS) -> Table:
    """A table or figure: the mean over clients after the last round."""
    return Table(PAPER, name, tuple(rows), columns, protocol="last", over="clients")


def latent(printed: str, dataset: str, clients: int = 15) -> tuple[Row, ...]:
    """A row for each number of latent groups; `printed`: the data set's name in the paper."""
    return tuple(
        Row(printed, f"latent_D{d}_{clients}_clients", setting(dataset, Latent(d), clients))
        for d in GROUPS
    )


TABLE1 = made(
    "table1",
    (
        Row(
            printed,
            f"pathological_{clients}_clients",
            setting(dataset, Shards(per_client=2), clients),
        )
        for printed, dataset in (("MNIST", "mnist"), ("CIFAR10", "cifar10"))
        for clients in (15, MANY)
    ),
)
TABLE2 = made("table2", latent("CIFAR10", "cifar10"))
_CLUSTERED = tuple(
    replace(column, name="Clustered FL") if column.name == "CFL" else column for column in COLUMNS
)
TABLE3 = made(
    "table3",
    (
        Row(
            dataset.upper(),
            "out_of_distribution_D5_15_clients",
            setting(dataset, Latent(5, shuffled_targets=True)),
        )
        for dataset in ("cifar10", "cifar100")
    ),
    _CLUSTERED,
)
"""A seed draws one shuffling of the targets."""
TABLE5 = made("table5", latent("CIFAR100", "cifar100"), _CLUSTERED)

D5 = "latent_D5_15_clients"
FIVE_GROUPS = setting("cifar10", Latent(5))
# --- privacy ---


def _private(column: Column) -> Table:
    rows = (
        Row(
            dataset.upper(),
            f"dp_sigma{sigma}_D5_15_clients",
            setting(dataset, Latent(5)).scheduled(private=DPSGD(sigma, MAX_NORM)),
        )
        for dataset in ("cifar10", "cifar100")
        for sigma in SIGMAS
    )
    return replace(made("table4", rows, column), metrics=(ACCURACY, EPSILON))


TABLE4 = _private((Column("FedAvg", FedAvg()), Column("FedFomo", FedFomo(5))))
TABLE6 = replace(TABLE4, name="table6", columns=(Column("FedFomo (MA)", FedFomoMA()),))
"""What it prints of FedAvg and FedFomo is Table 4's."""


READINGS = (
    Column("FedAvg + Data, one client's", FedAvgData(pool="client"), own=True),
    Column("CFL, relative limits", CFL(), own=True),
)
"""Readings that the tables do not take: the released code's pool, 5 % of one client's data; limits
of CFL relative to round 1.
"""


# --- profiles ---


QUICK_GROUPS = 5
QUICK_SHARES = (0.01, VALIDATION, 0.6)
NETWORK = "The network tf_cnn is the released code's; the paper names McMahan's."
LATENT = "CIFAR's latent groups come from EfficientNet-Lite0 in place of the paper's VGG-11."


def is_quick(setting: Setting) -> bool:
    """Whether the quick profile runs a setting: five latent groups, three of Figure 9's shares."""
    groups = getattr(setting.partition, "groups", None)
    return groups in (None, QUICK_GROUPS) and setting.validation in QUICK_SHARES


def quickly(setting: Setting) -> Setting:
    """scikit-learn's digits and LeNet-5: seconds for each run; both data sets become one.

    The smallest client has 49 digits, of which 1 % is none: at least 2 % are held out.
    """
    many = setting.clients == MANY
    return replace(
        setting,
        dataset="digits",
        model="lenet5",
        clients=30 if many else setting.clients,
        validation=max(setting.validation, 0.02),
    ).scheduled(
        rounds=3,
        local_epochs=1,
        batch_size=20,
        lr=0.1,
        participation=1 / 3 if many else 1.0,
        augment="none",
    )


def smaller(setting: Setting) -> Setting:
    """600 images a client, at most 20,000 in all, without augmentation; half the rounds, but for
    15 clients on MNIST, where ten rounds at a rate of 0.01 are too few.  By DP-SGD, whose steps are
    slower, 300 images a client.
    """
    mnist = setting.dataset == "mnist"
    if setting.schedule.private:
        return replace(setting, images=300 * setting.clients).scheduled(rounds=10, augment="none")
    rounds = setting.schedule.rounds // (1 if mnist and setting.clients != MANY else 2)
    return replace(setting, images=min(600 * setting.clients, 20_000)).scheduled(
        rounds=rounds, augment="none"
    )


def profiles(table: Table, seeds: int = 3) -> dict[str, Profile]:
    """The three sizes of a table or figure; `seeds`: how many runs the paper averages."""
    latent = any(isinstance(one.partition, Latent) for one in table.settings)
    note = NETWORK + f" {LATENT}" * latent
    return sizes(table.settings, only(is_quick, quickly), smaller, (1, 1, seeds), seeds, note)
