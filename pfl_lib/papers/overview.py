"""What came of every value that the papers print: in the exact setting, else in a smaller run, else
not run; and the headline made of that.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfl_lib.papers import compare, values, waffle
from pfl_lib.papers.judge import LEVELS, ORDERS
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.runs import PLACE, VALUE, Runs
from pfl_lib.papers.table import Find, Table
from pfl_lib.papers.values import PAPERS

PAIR = [*PLACE[:-1], "metric", "higher", "lower"]


class Shown(NamedTuple):
    """A printed table, the page that shows it, and its sizes by profile."""

    page: str
    table: Table
    profiles: Mapping[str, Profile]

    def runs(self, find: Find) -> tuple[Runs, Runs]:
        """Its runs in the exact setting, and in the small profile."""
        paper, small = (self.table.scaled(self.profiles[name]) for name in ("paper", "small"))
        return Runs((paper,), find), Runs((small,), find)


class Overview(NamedTuple):
    """`values`: a row for each printed result: place, metric, printed, ours, seeds, paper seeds,
    profile ("paper", "small" or "" where it was not run), verdict (of `judge.LEVELS`; "" of a small
    run), status and page.

    `pairs`: a row for each pair of methods that the paper separates, of the exact setting where
    both were run in it, else of smaller runs, but of none that diverged in it: place, metric,
    higher, lower, order, profile, page and one model (whether one side is a single model for all
    clients).
    """

    values: pd.DataFrame
    pairs: pd.DataFrame


def overview(shown: Iterable[Shown], find: Find) -> Overview:
    """Every printed result with what is stored of it (`find`, as `Store.find`)."""
    beside, pairs, lost = [], [], set()
    for one in shown:
        for runs in one.runs(find):  # the exact setting first
            beside.append(compare.beside(runs).assign(page=one.page))
            of_lost = beside[-1].loc[beside[-1]["status"] == "diverged", VALUE]
            lost |= {*of_lost.itertuples(index=False, name=None)}
            methods = ((run.column.name, run.spec.method) for run in runs.planned)
            shared = {name for name, method in methods if getattr(method, "one_model", False)}
            found = compare.pairs(runs).assign(page=one.page)
            found["one model"] = found["higher"].isin(shared) | found["lower"].isin(shared)
            for side in ("higher", "lower"):  # what diverged has no pairs, in smaller runs neither
                places = pd.MultiIndex.from_frame(found[[*PLACE[:-1], side, "metric"]])
                found.loc[places.isin(lost), "order"] = "not compared"
            pairs.append(found)
    every = pd.concat(pairs)
    missing = every["order"] == "not compared"
    every = pd.concat([every[~missing], every[missing].assign(profile="")])
    return Overview(_values(pd.concat(beside)), every.drop_duplicates(PAIR, ignore_index=True))


def _values(beside: pd.DataFrame) -> pd.DataFrame:
    ran = beside[beside["status"].isin(["ran", "diverged"]) & ~beside["own"]]
    ran = ran.drop_duplicates(VALUE)  # the paper profile stands first in each table
    known = ["printed", "ours", "seeds", "paper seeds", "profile", "verdict", "status", "page"]
    ran = ran[ran["printed"].notna()].set_index(VALUE)[known[1:]]
    results = values.load().query("kind == 'result'").rename(columns={"value": "printed"})
    frame = results.join(ran, on=VALUE)
    words = dict.fromkeys(["profile", "verdict", "page"], "") | {"status": "not run", "seeds": 0}
    frame = frame.fillna(words).astype({"seeds": int})
    return frame[[*VALUE, *known]].reset_index(drop=True)


def settings_used() -> pd.DataFrame:
    """The printed values that an experiment starts from (WAFFLE's Tables 2 and 3, and FedFomo's
    infinite epsilons: no noise), beside the number that is used for them, and whether that is "used
    as printed" or "replaced".
    """
    used = waffle.settings_used()
    frame = values.load().query("kind == 'setting'").rename(columns={"value": "printed"})
    places = frame[VALUE[1:]].itertuples(index=False, name=None)
    ours = [
        printed if np.isinf(printed) else used[place]
        for place, printed in zip(places, frame["printed"], strict=True)
    ]
    same = np.isclose(frame["printed"], ours, rtol=1e-9, atol=1e-12)
    words = np.where(same, "used as printed", "replaced")
    return frame.assign(ours=ours, status=words)[[*VALUE, "printed", "ours", "status"]]


def counted(found: Overview, profile: str) -> pd.DataFrame:
    """A row for each table and data set of which values were run in a profile, "paper" or "small":
    how many of them, in the exact setting by verdict, and its pairs by order.
    """
    by = PLACE[:3]
    of_values, of_pairs = (frame[frame["profile"] == profile] for frame in found)
    levels = of_values.groupby([*by, "verdict"], sort=False).size().unstack("verdict")
    orders = of_pairs.groupby([*by, "order"], sort=False).size().unstack("order")
    words = [word for word in LEVELS if word != "not run"] if profile == "paper" else []
    table = of_values.groupby(by, sort=False).size().rename("values").to_frame()
    table = table.join(levels.reindex(columns=words)).join(orders.reindex(columns=ORDERS))
    return table.fillna(0).astype(int).reset_index()


def headline(found: Overview) -> list[str]:
    """Three sentences: accuracies in the exact setting, smaller runs' orders, what was not run."""
    of_accuracy = Overview(*(frame[frame["metric"] == ACCURACY.name] for frame in found))
    counts = counted(of_accuracy, "paper")
    total = counts.sum(numeric_only=True)
    of_papers = counts.groupby("paper", sort=False).sum(numeric_only=True)
    ran = of_papers[["reproduced", "values"]].itertuples(name=None)
    told = [f"{PAPERS[paper]} {reproduced} of {values}" for paper, reproduced, values in ran]
    pairs = of_accuracy.pairs[of_accuracy.pairs["profile"] == "small"]
    decided = pairs[pairs["order"].isin(["stands", "turned"])]
    stands = decided["order"].eq("stands")
    share = stands.groupby(decided["one model"]).mean()
    missing = (found.values["profile"] == "").sum()
    lines = []
    if told:
        lines.append(
            f"In the exact setting {total['reproduced']} of {total['values']} accuracies are"
            f" reproduced ({', '.join(told)}), {total['compatible']} compatible,"
            f" {total['not reproduced']} not reproduced, {total['diverged']} diverged.  Of"
            f" {total[list(ORDERS)].sum()} clear pairs {total['stands']} stand,"
            f" {total['turned']} are turned, {total['open']} are too close to call."
        )
    if len(decided):
        lines.append(
            f"Smaller runs: {stands.sum()} of {len(decided)} decided pairs of accuracies in the"
            f" paper's order ({share.get(True, 0):.0%} where one global model is a side,"
            f" {share.get(False, 0):.0%} among the rest)."
        )
    lines.append(f"Not run: {missing} of {len(found.values)} printed results.")
    return lines
