"""WAFFLE's concept shift: what one model for all clients is worth to Alice depends on the labels
that the others happen to draw.

Under A* and B* every client but Alice permutes the labels.  A model that all train together is
pulled, on each class, towards the label that most examples carry; where that is Alice's own, it
helps her.  Counting examples therefore says before any training, roughly, about which level its
accuracy swings.

The paper says neither whether its five seeds share one draw, nor which control variate SCAFFOLD
keeps (option I or II).  Both are looked at here: runs with a draw a seed, runs whose seeds share a
draw, and the two options on every distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

import pandas as pd
import torch
from torch import LongTensor, Tensor

from pfl_lib import partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display.table_format import keep
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers import waffle
from pfl_lib.papers.claims import two_standard_errors
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find
from pfl_lib.papers.waffle import DISTRIBUTIONS, RUNS, SHIFTED, run_on, several
from pfl_lib.partitions import LabelSkew
from pfl_lib.partitions.label_skew import shifted_labels
from pfl_lib.results.result import Result
from pfl_lib.results.summary import gather

DRAWS = 1_000
LEVEL = 0.95  # of the most examples: labels with at least so many share a class
ONE_MODEL = ("FedAvg", "SCAFFOLD", "SCAFFOLD, option I")
OPTIONS = ("SCAFFOLD", "SCAFFOLD, option I", "WAFFLE", "WAFFLE, option I")
SHARED_DRAWS = (3, 1)
"""Draws that several seeds share.  Few of Alice's labels win under draw 3 on A*, as the paper's low
accuracies suggest; many do under draw 1.
"""


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """A draw a seed, both options on every distribution, then seeds that share a draw."""
    found = RUNS.only(SHIFTED, ONE_MODEL).runs(several(profile))
    found += RUNS.only(DISTRIBUTIONS, OPTIONS).runs(profile.with_seeds(1))
    shifted = run_on(profile, SHIFTED)
    for draw, distribution, method in product(_shared(profile), shifted, ONE_MODEL):
        found += of_draw(distribution, method, draw, profile)
    return tuple(dict.fromkeys(found))


def of_draw(distribution: str, method: str, draw: int, profile: Profile) -> tuple[RunSpec, ...]:
    """The runs of one method whose seeds share a draw.

    The run whose seed draws these labels anyway is the one of Table 1.
    """
    specs = (waffle.spec(method, distribution, profile, seed) for seed in several(profile).seeds)
    fixed = LabelSkew(distribution, draw=draw)
    return tuple(spec if spec.seed == draw else replace(spec, partition=fixed) for spec in specs)


def _shared(profile: Profile) -> tuple[int, ...]:
    return SHARED_DRAWS[-1:] if profile.name == "quick" else SHARED_DRAWS


def vote(held: Tensor, given: LongTensor, tested: Tensor, alice: int = 0) -> float:
    """The share of Alice's test images whose class carries her label, where each class has the
    label of most examples.

    `held` [N, classes]: training examples of each client and class; `given` [N, classes]: the label
    that a client gives to a class; `tested` [classes]: Alice's test images.  Labels that are about
    level (`LEVEL`) share a class equally.
    """
    counted = torch.zeros(held.shape[1], held.shape[1], dtype=torch.float64)
    for of_client, labels in zip(held.double(), given, strict=True):
        counted[torch.arange(len(labels)), labels] += of_client
    wins = (counted >= LEVEL * counted.max(1, keepdim=True).values).double()
    hers = wins[torch.arange(len(wins)), given[alice]] / wins.sum(1)
    return float((hers * tested).sum() / tested.sum())


def votes(
    dataset: Dataset, profile: Profile, distribution: str, seeds: Sequence[int]
) -> list[float]:
    """`vote` in percent for the labels that are drawn with each of the seeds."""
    split = partitions.make(distribution, dataset, profile.clients, seeds[0], waffle.ALICE)
    held = torch.stack(
        [torch.bincount(dataset.train_y[own], minlength=dataset.classes) for own in split.train]
    )
    tested = torch.bincount(dataset.test_y[split.test[waffle.ALICE]], minlength=dataset.classes)
    given = (shifted_labels(dataset.classes, profile.clients, seed) for seed in seeds)
    return [100 * vote(held, labels, tested, waffle.ALICE) for labels in given]


def _later_rounds(result: Result) -> pd.Series:
    accuracy = 100 * result.accuracy_by_round()
    return accuracy.iloc[len(accuracy) // 2 :]


def _later(result: Result, *_) -> float:
    return _later_rounds(result).mean()


def _swing(result: Result, *_) -> float:
    return _later_rounds(result).autocorr()


def by_draw(dataset: Dataset | None, profile: Profile, store) -> pd.DataFrame:
    """The vote and what one model for all then reaches, a row for each distribution, method and
    draw.

    Columns run ("A*, FedAvg"), seed, vote (nan without `dataset`), later rounds (the mean of the
    run's second half), best round, all in percent, swing and status.  Swing is the correlation of
    the second half's rounds with their next ones: near -1 where accuracy goes up and down by turns.
    """
    draws = several(profile)
    metrics = tuple(
        replace(ACCURACY, name=name, read=read)
        for name, read in (("best", ACCURACY.read), ("later", _later), ("swing", _swing))
    )
    shifted = run_on(profile, SHIFTED)
    frame = replace(RUNS.only(shifted, ONE_MODEL), metrics=metrics).frame(draws, store.find)
    frame = frame[frame["protocol"] == "best"]
    frame["run"] = frame["setting"] + ", " + frame["method"]
    place = ["run", "setting", "seed", "status", "metric"]
    rows = frame.set_index(place)["value"].unstack(sort=False).reset_index()
    vote = {name: _votes(dataset, profile, name, draws.seeds) for name in shifted}
    voted = [vote[name][seed - 1] for name, seed in zip(rows["setting"], rows["seed"], strict=True)]
    columns = {"run": rows["run"], "seed": rows["seed"].astype(int), "vote": voted}
    columns |= {"later rounds": rows["later"], "best round": rows["best"], "swing": rows["swing"]}
    return draws.table(columns | {"status": rows["status"]})


def against_paper(by_draw: pd.DataFrame, dataset: Dataset | None, profile: Profile) -> pd.DataFrame:
    """How much the vote decides, a row for each distribution and method, from the rows of
    `by_draw`.

    Columns run, votes' mean and votes' std (over `DRAWS` draws; nan without `dataset`), draws run
    and correlation (of vote and later rounds, from three draws on); votes in percent.
    """
    seeds = range(1, DRAWS + 1)
    drawn_for = by_draw["run"].str.partition(",")[0].unique()
    many = {name: pd.Series(_votes(dataset, profile, name, seeds)) for name in drawn_for}
    rows = []
    for run, drawn in by_draw.groupby("run", sort=False):
        votes_of = many[run.split(",")[0]]
        ran = drawn.dropna(subset="best round")
        rows.append(
            {
                "run": run,
                "votes' mean": votes_of.mean(),
                "votes' std": votes_of.std(),
                "draws run": len(ran),
                "correlation": ran["vote"].corr(ran["later rounds"]) if len(ran) > 2 else math.nan,
            }
        )
    return keep(by_draw, rows)


def spreads(profile: Profile, store) -> pd.DataFrame:
    """Best rounds where each seed draws its labels, and where all seeds share a draw, beside the
    paper's.

    Columns distribution, method, labels ("a draw a seed", "draw 3 for all"), runs, best round and
    std (mean and standard deviation over seeds, percent), paper, paper std and status ("ran",
    "not run" or that runs diverged).
    """
    rows = []
    for distribution, method in product(run_on(profile, SHIFTED), ONE_MODEL):
        paper = waffle.printed(distribution, method)
        drawn = {"a draw a seed": RUNS.only([distribution], [method]).runs(several(profile))}
        for draw in _shared(profile):
            drawn[f"draw {draw} for all"] = of_draw(distribution, method, draw, profile)
        for labels, specs in drawn.items():
            ours = gather((spec.seed, store.find(spec)) for spec in specs)
            rows.append(
                {
                    "distribution": distribution,
                    "method": method,
                    "labels": labels,
                    "runs": ours.runs,
                    "best round": ours.mean,
                    "std": ours.std,
                    "paper": paper.value,
                    "paper std": paper.std,
                    "status": ours.status,
                }
            )
    return several(profile).table(rows)


def explains(distribution: str, method: str, profile: Profile, find: Find) -> bool:
    """Whether draws of the labels, or the other option, reach the value that the paper prints for
    one model under concept shift: it lies within two standard deviations over the draws of the mean
    over draws, for the method or for its option I.

    Levels of a smaller setting reach no printed value.
    """
    if profile.name != "paper":
        return False
    printed = waffle.printed(distribution, method).value
    for name in (name for name in ONE_MODEL if name.partition(",")[0] == method):
        specs = RUNS.only([distribution], [name]).runs(several(profile))
        ours = gather((spec.seed, find(spec)) for spec in specs)
        if ours.comparable and abs(ours.mean - printed) <= 2 * ours.std:
            return True
    return False


def options(profile: Profile, store) -> pd.DataFrame:
    """SCAFFOLD and WAFFLE with control variates of either option, for the profile's first seed.

    Columns distribution, then for each of `OPTIONS` its best round in percent, and those printed
    ("SCAFFOLD, paper"); status names the runs without a number.
    """
    first = profile.with_seeds(1)
    frame = RUNS.only(run_on(profile), OPTIONS).frame(first, store.find)
    frame = frame[frame["protocol"] == "best"]
    rows = []
    for distribution, lines in frame.groupby("setting", sort=False):
        row = {"distribution": distribution}
        for name, value in zip(lines["method"], lines["value"], strict=True):
            if "," not in name:
                row[f"{name}, paper"] = waffle.printed(distribution, name).value
            row[name if "," in name else f"{name}, option II"] = value
        lost = lines[lines["status"] != "ran"]
        words = (lost["method"] + ": " + lost["status"]).tolist()
        rows.append(row | {"status": "; ".join(words) or "ran"})
    return first.table(rows)


def apart(profile: Profile, store) -> pd.DataFrame:
    """How the two options lie to each other and to the paper, on the seeds that both ran.

    Columns method, distribution, seeds, moved (option I less option II, points, the mean over
    seeds), plus or minus (two standard errors of it; nan for one seed), and how far each lies from
    the printed value (I, II: absolute, points).
    """
    rows = []
    for method, distribution in product(("SCAFFOLD", "WAFFLE"), run_on(profile)):
        both = [
            gather(
                (spec.seed, store.find(spec))
                for spec in RUNS.only([distribution], [name]).runs(several(profile))
            )
            for name in (f"{method}, option I", method)
        ]
        first, second = (dict(zip(of.seeds, of.values, strict=True)) for of in both)
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            continue
        printed = waffle.printed(distribution, method).value
        moved = [first[seed] - second[seed] for seed in seeds]
        levels = [fmean(of[seed] for seed in seeds) for of in (first, second)]
        rows.append(
            {
                "method": method,
                "distribution": distribution,
                "seeds": len(moved),
                "moved": fmean(moved),
                "plus or minus": two_standard_errors(moved) if len(moved) > 1 else math.nan,
                "I": abs(levels[0] - printed),
                "II": abs(levels[1] - printed),
            }
        )
    columns = ["method", "distribution", "seeds", "moved", "plus or minus", "I", "II"]
    return several(profile).table(pd.DataFrame(rows, columns=columns))


def _votes(
    dataset: Dataset | None, profile: Profile, distribution: str, seeds: Sequence[int]
) -> list:
    if dataset is None:
        return [math.nan] * len(seeds)
    return votes(dataset, profile, distribution, seeds)
