"""The papers' sentences that compare methods (`claims.yaml`), answered by the rules of
docs/verdicts.md, section Sentences: `all` comparisons, of the `best` of two groups, or `level`.

The paper's own numbers answer by the same words, with the printed deviations as margin.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from pfl_lib.errors import choose
from pfl_lib.papers import judge
from pfl_lib.papers.compare import said
from pfl_lib.papers.judge import ACCURACY, HAIR
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.table import UNPRINTED, Table
from pfl_lib.papers.values import Printed

ANSWERS = ("yes", "no", "undecided", "not run")
COUNTS = ("holds", "contradicted", "open", "not run")
RULES = ("all", "best", "level")
TOLD = "{0.dataset}, {0.setting}: {0.better} above {0.worse}"


class Comparison(NamedTuple):
    """In a setting, one method above another."""

    dataset: str
    setting: str
    better: str
    worse: str

    @property
    def places(self) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
        """(data set, setting, method) of both."""
        return (*self[:2], self.better), (*self[:2], self.worse)


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
    choose("rule", entry.setdefault("rule", "all"), RULES)
    usual, groups = entry.pop("dataset", None), entry.pop("above")
    compared = [
        Comparison(group.get("dataset", usual), *one)
        for group in groups
        for one in itertools.product(group["settings"], group["better"], group["worse"])
    ]
    return Claim(comparisons=tuple(compared), **entry)


def answers(runs: Runs, page: str) -> pd.DataFrame:
    """A row for each sentence of a page, by its table's runs.

    Columns paper, page, quote, where, profile, answer (of `ANSWERS`; "" in the quick profile, whose
    data are not the paper's), seeds (the fewest of its comparisons), holds, contradicted, open (too
    close), not run (how many comparisons; a method that diverged counts here), against (those
    contradicted), and by the paper's numbers (an answer).
    """
    tables = {(table.paper, table.name): table for table in runs.tables}
    return pd.DataFrame(
        _row(claim, tables[claim.paper, claim.table], runs)
        for claim in claims()
        if claim.page == page
    )


def _row(claim: Claim, table: Table, runs: Runs) -> dict[str, object]:
    metric, known = table.metrics[0].name, table.known
    places = {place for one in claim.comparisons for place in one.places}
    ours = {place: runs.seeds(claim.paper, table.name, *place, metric) for place in places}
    theirs = {place: known.get((*place, metric), UNPRINTED) for place in places}

    def shared(one: Comparison) -> int:
        better, worse = one.places
        return len((ours[better] - ours[worse]).dropna())

    common = [count for one in claim.comparisons if (count := shared(one))]
    meant = _meant(claim, {place: values.mean() for place, values in ours.items()})
    found = {one: _holds(claim.rule, *map(ours.get, one.places)) for one in meant}
    answers, against = list(found.values()), [one for one in found if found[one] is False]
    missing = sum(not shared(one) for one in found)
    meant = _meant(claim, {place: value.value for place, value in theirs.items()})
    own = [_printed(claim.rule, *map(theirs.get, one.places)) for one in meant]
    return {
        "paper": claim.paper,
        "page": claim.page,
        "quote": claim.quote,
        "where": claim.where,
        "profile": table.profile,
        "answer": "" if table.profile == "quick" else _answer(answers) if common else "not run",
        "seeds": min(common, default=0),
        "holds": answers.count(True),
        "contradicted": answers.count(False),
        "open": answers.count(None) - missing,
        "not run": missing,
        "against": "; ".join(said(TOLD.format(one)) for one in against),
        "by the paper's numbers": _answer(own),
    }


def _answer(holds: list[bool | None]) -> str:
    if False in holds:
        return "no"
    return "undecided" if None in holds or not holds else "yes"


def _holds(rule: str, better: pd.Series, worse: pd.Series) -> bool | None:
    apart = (better - worse).dropna()
    errors = 2 * apart.sem() if len(apart) >= 3 else math.inf
    return _decided(rule, apart.mean(), judge.margin(apart), errors)


def _printed(rule: str, better: Printed, worse: Printed) -> bool | None:
    spreads = [one.std for one in (better, worse) if not math.isnan(one.std)]
    return _decided(rule, better.value - worse.value, max(spreads, default=ACCURACY.floor), 0.0)


def _decided(rule: str, apart: float, margin: float, errors: float) -> bool | None:
    """Whether a method that is `apart` points above another one holds; NaN decides nothing."""
    if abs(apart) > margin + HAIR:
        return bool(apart > 0)
    return True if rule == "level" and apart - errors >= -ACCURACY.floor - HAIR else None


def _meant(claim: Claim, mean: Mapping[tuple[str, str, str], float]) -> list[Comparison]:
    """The comparisons that a claim comes to: all, or of the rule `best` one for each setting; where
    a mean is missing, which could be the best, those with a missing one, which stay open.
    """
    if claim.rule != "best":
        return list(claim.comparisons)
    meant = []
    for place in dict.fromkeys(one[:2] for one in claim.comparisons):
        here = [one for one in claim.comparisons if one[:2] == place]
        means = {name: mean[*place, name] for one in here for name in one[2:]}
        missing = {name for name, number in means.items() if math.isnan(number)}
        best = (max((one[side] for one in here), key=means.get) for side in (2, 3))
        meant += [x for x in here if missing & {*x[2:]}] if missing else [Comparison(*place, *best)]
    return meant
