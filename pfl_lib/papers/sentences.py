"""The papers' sentences that compare methods (`claims.yaml`), answered by one rule.

A sentence is a list of comparisons: in a setting, one method above another.  A comparison holds
where its pair stands and is contradicted where it is turned, by the margins of `judge.order`.  The
answer is "yes" where all hold, "no" where one is contradicted, "not run" where none was run, else
"undecided".  The paper's own numbers answer by the same words, with the printed deviations as
margin.  Two rules read a sentence otherwise: `best` compares, in each setting, the best of the
better methods with the best of the worse; `level` holds too where the better method is level with
the worse, below it by no more than the floor, two standard errors included, on three seeds.
"""

import collections
import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

import pandas as pd

from pfl_lib.errors import choose
from pfl_lib.papers import judge
from pfl_lib.papers.judge import Seeds
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.table import UNPRINTED, Table
from pfl_lib.papers.values import Printed

ANSWERS = ("yes", "no", "undecided", "not run")
RULES = ("all", "best", "level")
Comparison = tuple[str, str, str, str]
"""Data set, setting, better method, worse method."""


@dataclass(frozen=True)
class Claim:
    """`quote` from a paper's section `where`, shown on `page`, about one printed table."""

    page: str
    paper: str
    table: str
    quote: str
    where: str
    comparisons: tuple[Comparison, ...]
    rule: str = "all"


@functools.cache
def claims() -> tuple[Claim, ...]:
    """All sentences of `claims.yaml`, in its order."""
    import yaml

    text = files("pfl_lib.papers").joinpath("claims.yaml").read_text(encoding="utf-8")
    return tuple(_claim(entry) for entry in yaml.safe_load(text))


def _claim(entry: dict) -> Claim:
    compared = [
        comparison
        for group in entry.pop("above")
        for comparison in itertools.product(
            [group.get("dataset", entry.get("dataset"))],
            group["settings"],
            group["better"],
            group["worse"],
        )
    ]
    entry.pop("dataset", None)
    choose("rule", entry.get("rule", "all"), RULES)
    return Claim(comparisons=tuple(compared), **entry)


def answers(runs: Runs, page: str) -> pd.DataFrame:
    """A row for each sentence of a page, by its table's runs.

    Columns paper, page, quote, where, profile, answer (of `ANSWERS`; "" in the quick profile, whose
    data are not the paper's), seeds (the fewest of its comparisons), holds, contradicted, open (how
    many comparisons), against (those contradicted), and by the paper's numbers (an answer).
    """
    tables = {(table.paper, table.name): table for table in runs.tables}
    return pd.DataFrame(
        _row(claim, tables[claim.paper, claim.table], runs)
        for claim in claims()
        if claim.page == page
    )


def _row(claim: Claim, table: Table, runs: Runs) -> dict[str, object]:
    metric, printed = table.metrics[0], table.printed()

    def seeds(place: tuple[str, str, str]) -> Seeds:
        return runs.seeds(claim.paper, table.name, *place, metric.name)

    apart = [seeds((*at, one)) - seeds((*at, other)) for *at, one, other in claim.comparisons]
    common = [shared for pair in apart if (shared := len(pair.dropna()))]
    found, against = [], []
    for dataset, setting, better, worse in _meant(claim, lambda place: seeds(place).mean()):
        pair = seeds((dataset, setting, better)), seeds((dataset, setting, worse))
        found.append(_holds(claim, *pair))
        if found[-1] is False:
            against.append(f"{setting}: {better} above {worse}")
    # A reader's own rows have no printed values.
    known = collections.defaultdict(lambda: UNPRINTED, printed)
    own = [
        _printed(claim, *(known[dataset, setting, name, metric.name] for name in pair))
        for dataset, setting, *pair in _meant(claim, lambda at: known[(*at, metric.name)].value)
    ]
    return {
        "paper": claim.paper,
        "page": claim.page,
        "quote": claim.quote,
        "where": claim.where,
        "profile": table.profile,
        "answer": "" if table.profile == "quick" else _answer(found) if common else "not run",
        "seeds": min(common, default=0),
        "holds": found.count(True),
        "contradicted": found.count(False),
        "open": found.count(None),
        "against": "; ".join(against),
        "by the paper's numbers": _answer(own),
    }


def _answer(holds: Iterable[bool | None]) -> str:
    holds = list(holds)
    if False in holds:
        return "no"
    return "undecided" if None in holds or not holds else "yes"


def _holds(claim: Claim, better: Seeds, worse: Seeds) -> bool | None:
    apart = (better - worse).dropna()
    word = judge.order(better, worse)
    if word == "open" and claim.rule == "level" and len(apart) >= 3:
        errors = 2 * apart.std() / math.sqrt(len(apart))
        return True if apart.mean() - errors >= -judge.ACCURACY.floor - judge.HAIR else None
    return {"stands": True, "turned": False, "open": None}[word]


def _printed(claim: Claim, better: Printed, worse: Printed) -> bool | None:
    apart = better.value - worse.value
    spreads = [one.std for one in (better, worse) if not math.isnan(one.std)]
    if abs(apart) > max(spreads, default=judge.ACCURACY.floor) + judge.HAIR:
        return apart > 0
    if claim.rule == "level" and apart >= -judge.ACCURACY.floor - judge.HAIR:
        return True
    return None


def _meant(claim: Claim, mean) -> list[Comparison]:
    """The comparisons that a claim comes to: all, or of the rule `best` one for each setting; where
    a mean is missing, which could be the best, those with a missing one, which stay open.
    """
    if claim.rule != "best":
        return list(claim.comparisons)
    meant: list[Comparison] = []
    places = dict.fromkeys(comparison[:2] for comparison in claim.comparisons)
    for place in places:
        here = [one for one in claim.comparisons if one[:2] == place]
        sides = [dict.fromkeys(one[side] for one in here) for side in (2, 3)]
        known = [{name: mean((*place, name)) for name in side} for side in sides]
        if any(math.isnan(number) for side in known for number in side.values()):
            meant += [
                one
                for one in here
                if any(math.isnan(known[side][one[2 + side]]) for side in (0, 1))
            ]
        else:
            meant.append((*place, *(max(side, key=side.get) for side in known)))
    return meant
