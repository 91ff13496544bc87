"""Questions that WAFFLE's paper asks and leaves to others (appendix A), tried on MNIST: when do
control variates diverge, which functions for the degree of personalisation, who gains from it as
Alice, and does it ignore clients that cheat.
"""

from dataclasses import replace
from itertools import product

import pandas as pd

from pfl_lib.data import DATASETS
from pfl_lib.display.table_format import keep
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import FedAvg, Local, Method, Scaffold, Waffle, WeightErosion
from pfl_lib.methods.poisoned import Poisoned
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Column, Row, Table
from pfl_lib.papers.waffle import MNIST, PAPER, p_d
from pfl_lib.papers.waffle.sentences import listed
from pfl_lib.results.summary import NOTHING

CHEATS = (1, 2, 3)  # on C, the clients whose labels are nearest to Alice's, and one more
CLIP = 1.0


def _divergence() -> Table:
    """C: SCAFFOLD and WAFFLE by unit, normalisation, learning rate and option, clipped and not."""
    rows = tuple(
        Row("MNIST", f"{units}, lr {lr:g}", replace(MNIST, model=model).scheduled(lr=lr))
        for (units, model), lr in product(
            (
                ("tanh", "lenet5"),
                ("ReLU", "lenet5-relu"),
                ("ReLU with GroupNorm", "lenet5-relu-groupnorm"),
            ),
            (0.1, 0.03),
        )
    )
    methods = {
        "SCAFFOLD, option II": Scaffold(),
        "SCAFFOLD, option I": Scaffold(option="I"),
        "WAFFLE": Waffle(),
    }
    columns = [Column(name, method) for name, method in methods.items()]
    columns += [
        Column(f"{name}, clipped", replace(method, clip=CLIP)) for name, method in methods.items()
    ]
    return Table(PAPER, "divergence", rows, tuple(columns), values={})


def _schedules() -> Table:
    """C and A*: other slopes, a straight line, a step, an earlier or later middle, and Psi other
    than Omega.
    """
    rows = tuple(Row("MNIST", name, replace(MNIST, partition=name)) for name in ("C", "A*"))
    columns = (
        *(Column(f"slope {slope:g}", Waffle(slope=slope)) for slope in (1, 3.2, 5, 10)),
        Column("straight line", Waffle(transition="linear")),
        Column("a fifth of the rounds earlier", Waffle(shift=0.2)),
        Column("a fifth of the rounds later", Waffle(shift=-0.2)),
        Column("step after half", Waffle(transition="step")),
        Column("Ψ a straight line", Waffle(psi="linear")),
        Column("Ω a straight line", Waffle(transition="linear", psi="sigmoid")),
    )
    return Table(PAPER, "schedules", rows, columns, values={})


def _every_alice() -> Table:
    """C: each client as Alice."""
    rows = tuple(
        Row("MNIST", f"client {alice}", replace(MNIST, alice=alice))
        for alice in range(MNIST.clients)
    )
    return Table(
        PAPER, "alices", rows, (Column("Local", Local()), Column("WAFFLE", Waffle())), values={}
    )


def _erosion(setting) -> WeightErosion:
    return WeightErosion(p_d=p_d(setting.partition, setting.schedule.rounds), p_s=0.0)


def _poisoned() -> Table:
    """C: three of ten clients cheat by random labels, or by what they send."""
    attacks = {
        "honest": None,
        "random labels": {"attack": "labels"},
        "updates reversed": {"attack": "update", "scale": -1.0},
        "updates reversed, ten times as long": {"attack": "update", "scale": -10.0},
    }
    columns = []
    for attack, fields in attacks.items():
        for name, method in (("FedAvg", FedAvg("uniform")), ("WE", _erosion), ("WAFFLE", Waffle())):
            columns.append(Column(f"{name}, {attack}", _cheated(method, fields)))
    columns.append(Column("Local", Local()))
    return Table(PAPER, "poisoned", (Row("MNIST", "C", MNIST),), tuple(columns), values={})


def _cheated(method, fields: dict | None):
    def made(setting) -> Method:
        honest = method(setting) if callable(method) else method
        return honest if fields is None else Poisoned(honest, CHEATS, **fields)

    return made


DIVERGENCE, SCHEDULES, ALICES, POISONED = _divergence(), _schedules(), _every_alice(), _poisoned()
TABLES = (DIVERGENCE, SCHEDULES, ALICES, POISONED)


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """The runs of all questions, for the profile's first seed."""
    first = profile.with_seeds(1)
    return tuple(dict.fromkeys(run for table in TABLES for run in table.runs(first)))


def answered(table: Table, profile: Profile, store, protocol: str = "best") -> pd.DataFrame:
    """A row for each setting of a question, a column for each method: the accuracy in percent, of
    the best round or the last one, or in words that the run is missing or where it diverged.
    """
    frame = table.frame(profile.with_seeds(1), store.find)
    frame = frame[frame["protocol"] == protocol]
    frame["shown"] = frame["value"].astype(object).where(frame["status"] == "ran", frame["status"])
    wide = frame.pivot(index="setting", columns="method", values="shown")
    wide = wide.loc[frame["setting"].unique(), frame["method"].unique()]
    return keep(frame, wide.rename_axis(columns=None).reset_index())


def poisoned(profile: Profile, store) -> pd.DataFrame:
    """A row for each attack, a column for each method: the best round's accuracy in percent, or the
    run's status; Local needs nobody and has the same number everywhere.
    """
    wide = answered(POISONED, profile, store).iloc[0]
    rows = {}
    for name in POISONED.columns:
        method, _, attack = name.name.partition(", ")
        if attack:
            rows.setdefault(attack, {"attack": attack})[method] = wide[name.name]
    return profile.with_seeds(1).table(row | {"Local": wide["Local"]} for row in rows.values())


def share_of_cheats(profile: Profile, store) -> pd.DataFrame:
    """How much the cheating clients count: their share of all weights over the run, in percent (30
    for an average of all ten), a row for each attack, a column for each method with weights.
    """
    rows = {}
    for column in POISONED.columns:
        method, _, attack = column.name.partition(", ")
        if method not in ("WE", "WAFFLE"):
            continue
        result = store.find(POISONED.spec("C", column.name, profile, 1))
        share = float("nan")
        if result is not None and result.diverged is None:
            weights = result.weights / result.weights.sum(axis=1, keepdims=True)
            share = 100 * weights[:, list(CHEATS)].sum(axis=1).mean()
        rows.setdefault(attack, {"attack": attack})[method] = share
    return profile.with_seeds(1).table(rows.values())


def sentence(
    profile: Profile,
    grid: pd.DataFrame,
    ended: pd.DataFrame,
    schedules: pd.DataFrame,
    alices: pd.DataFrame,
    cheats: pd.DataFrame,
    attacked: pd.DataFrame,
) -> str:
    """The answers, a sentence for each question of which there are runs.

    `grid`, `schedules`, `alices`: `answered`, best rounds; `ended`: the grid's last ones; `cheats`:
    `share_of_cheats`; `attacked`: `poisoned`.
    """
    told = [
        f"On distribution C ({DATASETS[profile.dataset].title}) {_broken(grid, ended)}.",
        _best_and_worst(schedules),
        _gained(alices),
        _shares(cheats),
        _kept(attacked),
    ]
    return " ".join(filter(None, told))


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Without the first column, and nan for words."""
    return table.iloc[:, 1:].apply(pd.to_numeric, errors="coerce")


def _broken(grid: pd.DataFrame, ended: pd.DataFrame) -> str:
    lost = grid.iloc[:, 1:].astype(str).apply(lambda cells: cells.str.startswith("diverged"))
    faded = _numbers(ended) < _numbers(grid) / 2
    ran, broken = ~grid.iloc[:, 1:].isin(NOTHING), lost | faded
    clipped = [name for name in broken if "clipped" in name]
    networks = grid["setting"].str.partition(",")[0]
    by_network = [
        f"{name} {broken[networks == name].sum(axis=None)} of {of_network.sum(axis=None)}"
        for name, of_network in ran.groupby(networks, sort=False)
        if of_network.any(axis=None)
    ]
    count = broken.sum(axis=None)
    words = f"{count} of {ran.sum(axis=None)} runs with control variates break down"
    if not count:
        return words
    where = f"{', '.join(by_network)}; clipped {broken[clipped].sum(axis=None)}"
    return (
        f"{words}, {lost.sum(axis=None)} by divergence and {faded.sum(axis=None)} with a last round"
        f" below half of the best ({where})"
    )


def _best_and_worst(schedules: pd.DataFrame) -> str:
    words = []
    for name, row in zip(schedules["setting"], _numbers(schedules).iloc, strict=True):
        ran = row.dropna()
        if len(ran) > 1:
            words.append(
                f"{ran.min():.1f} % (*{ran.idxmin()}*) and {ran.max():.1f} % (*{ran.idxmax()}*) on"
                f" {name} ({len(ran)} schedules)"
            )
    return f"With one seed WAFFLE lies between {listed(words)}." if words else ""


def _gained(alices: pd.DataFrame) -> str:
    both = _numbers(alices)[["Local", "WAFFLE"]].dropna()
    above = int((both["WAFFLE"] > both["Local"]).sum())
    return f"WAFFLE is above Local for {above} of {len(both)} clients as Alice." * bool(len(both))


def _shares(cheats: pd.DataFrame) -> str:
    ran = cheats.dropna(subset=["WAFFLE", "WE"])
    words = [f"{row.WAFFLE:.0f} and {row.WE:.0f} % ({row.attack})" for row in ran.itertuples()]
    head = "Of the weights in WAFFLE and Weight Erosion three clients have"
    return f"{head} {listed(words)}." if words else ""


def _kept(attacked: pd.DataFrame) -> str:
    found = _numbers(attacked).set_axis(attacked["attack"])[["WAFFLE", "WE", "Local"]].dropna()
    if found.empty:
        return ""
    words = [f"{row.WAFFLE:.1f} and {row.WE:.1f} % ({row.Index})" for row in found.itertuples()]
    return f"Alice then has {listed(words)}; Local has {found['Local'].iloc[0]:.1f} %."
