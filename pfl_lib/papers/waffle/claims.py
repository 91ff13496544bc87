"""What WAFFLE's sections 3 and 4 say about MNIST, and whether our runs say the same."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfl_lib.display import tables
from pfl_lib.papers import values, waffle
from pfl_lib.papers.claims import (
    ENOUGH,
    QUICK,
    Claim,
    about_table,
    answer,
    comparisons,
    every_pair,
    with_seeds,
)
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Table, gathered
from pfl_lib.papers.waffle import (
    ALICE,
    DISTRIBUTIONS,
    GLOBAL,
    RUNS,
    SHIFTED,
    TABLE1,
    WEIGHTED,
    run_on,
)
from pfl_lib.results.summary import HAIR, NOT_RUN, at_round, common, few_seeds, status

if TYPE_CHECKING:  # annotations only
    from pfl_lib.results.result import Result

PERSONALISED = ("WE", "WAFFLE", "APFL")
SAME_TIME = 0.1  # of the rounds: "at about the same time"
MOSTLY = (0.5, 0.8)  # of all weight, two readings of "mostly local"
LOCAL_AFTER = (70, 90)  # percent of the rounds, section 2.2
CLEARLY_EARLIER = 2  # rounds: an evaluation is noisy from round to round


CLAIMS = (
    Claim(
        "On MNIST, WAFFLE and WE outperform the other methods for the label skews (B, C)",
        "section 4",
        every_pair(("B", "C"), ("WE", "WAFFLE"), ("Local", "FedAvg", "SCAFFOLD", "APFL")),
    ),
    Claim(
        "like with MNIST, global FL methods outperform personalized methods on the IID"
        " distribution",
        "section 4",
        every_pair(("A",), GLOBAL, PERSONALISED),
    ),
    Claim(
        "For the concept shift distributions (A*, B*), all personalized FL methods improve accuracy"
        " compared to global FL methods",
        "section 4",
        every_pair(SHIFTED, PERSONALISED, GLOBAL),
    ),
    Claim(
        "Among all personalized FL methods, WE performs slightly better in this setting [A*, B*]",
        "section 4",
        every_pair(SHIFTED, ("WE",), ("WAFFLE", "APFL")),
    ),
    Claim(
        "Regarding APFL, the method also performs better than global FL methods except for the IID"
        " distribution (A)",
        "section 4",
        every_pair(("B", "C", *SHIFTED), ("APFL",), GLOBAL),
    ),
    Claim(
        "[APFL] struggles to achieve a better result than the other two personalized FL methods and"
        " Local",
        "section 4",
        every_pair(("B", "C", *SHIFTED), ("WE", "WAFFLE", "Local"), ("APFL",)),
        level=True,  # that APFL is not better is said, not that it is worse
    ),
)


def accuracy_claims(profile: Profile, store) -> pd.DataFrame:
    """Answers to the sentences about Table 1; columns as in `claims.answers`."""
    return about_table(CLAIMS, TABLE1.only(datasets=["MNIST"]), profile, store.find)


def accuracy_comparisons(profile: Profile, store) -> pd.DataFrame:
    """The comparisons behind these sentences; columns as in `claims.comparisons`."""
    return about_table(CLAIMS, TABLE1.only(datasets=["MNIST"]), profile, store.find, comparisons)


def speed(
    profile: Profile,
    store,
    distributions: tuple[str, ...] = ("B", "C"),
    table: Table = RUNS,
) -> pd.DataFrame:
    """ "As expected WAFFLE converges faster [than WE] thanks to the use of SCVs" (section 4; B and
    C); "Here [A*, B*], WAFFLE is not more efficient than WE".

    A row for each distribution of `table` that the profile runs.

    Columns distribution, target (percent: 0.4 points below the lower of the two final values), WE
    and WAFFLE (the round in which the mean best accuracy, over the seeds that both ran, reaches it;
    "ran" when the other one did not) and faster ("yes", "no" or, when less than two rounds apart,
    on fewer than three seeds, not run or diverged, "undecided"; the paper prints no rounds).
    """
    rows = []
    for distribution in (row.setting for row in table.only(distributions).run_in(profile).rows):
        both = table.only([distribution], WEIGHTED)
        frame = both.frame(profile, store.find)
        ours = gathered(frame[frame["protocol"] == "best"])
        row = {"distribution": distribution, "target": float("nan")}
        row |= {method: of_method.status for method, of_method in ours.items()}
        verdict = None
        seeds = common(*ours.values())
        if seeds and all(of_method.comparable for of_method in ours.values()):
            found = both.results(store.find, replace(profile, seeds=tuple(seeds)))
            curves = tables.accuracy_by_round(found, running_best=True)
            target = curves.iloc[-1].min() - 0.4
            reached = {method: int((curves[method] >= target).idxmax()) for method in curves}
            lead = reached["WE"] - reached["WAFFLE"]
            if abs(lead) >= CLEARLY_EARLIER and len(seeds) >= ENOUGH:
                verdict = lead > 0
            row |= {"target": target, **{method: str(r) for method, r in reached.items()}}
        answered = with_seeds(answer([verdict]), [tuple(ours.values())], profile)
        rows.append(row | {"faster": QUICK if profile.name == "quick" else answered})
    return profile.table(rows)


def reached(
    results: Mapping[str, Sequence["Result"]], below: Sequence[float] = (5, 2, 1, 0.5)
) -> pd.DataFrame:
    """The first round in which each method's mean best accuracy reaches the highest final one less
    some points.

    `results`: method -> its results.  Columns method and one for each level, "97.35 %": "round 12",
    "never" or that a run diverged; only the column method if all did.
    """
    best = tables.accuracy_by_round(results, running_best=True)
    top = best.iloc[-1].max()
    levels = [] if math.isnan(top) else [top - points for points in below]
    rows = []
    for method, curve in best.items():
        row = {"method": method}
        for level in levels:
            there = curve.index[curve >= level]
            row[f"{level:.2f} %"] = f"round {there[0]}" if len(there) else "never"
            if method in best.attrs["diverged"]:
                row[f"{level:.2f} %"] = at_round(best.attrs["diverged"][method])
        rows.append(row)
    return pd.DataFrame(rows)


def alone(profile: Profile, store, table: Table = RUNS) -> pd.DataFrame:
    """ "both algorithms reach fully local learning at about the same time" (section 3), with Table
    3's settings behind it.

    A row for each distribution of `table` that the profile runs.

    Columns distribution, p_d (Table 3), p_d here, slope, WE and WAFFLE (the round from which all
    weight stays on Alice, or "never") and same time ("yes" when they are at most a tenth of the
    rounds apart).  One seed, the profile's first.
    """
    rows = []
    for row in table.run_in(profile).rows:
        seed, rounds, words = profile.seeds[0], {}, {}
        runs = {method: table.spec(row.setting, method, profile, seed) for method in WEIGHTED}
        for method, run in runs.items():
            result = store.find(run)
            words[method] = status(result)
            if words[method] == "ran":
                rounds[method] = tables.alone_from(result.weights, ALICE)
                words[method] = "never" if rounds[method] is None else str(rounds[method])
        printed = values.value(waffle.PAPER, "table3", row.dataset, row.setting, "WE", "p_d")
        rows.append(
            {
                "distribution": row.setting,
                "p_d in the paper": printed.value,
                "p_d here": runs["WE"].method.p_d,
                "slope": runs["WAFFLE"].method.slope,
                **words,
                "same time": _same_time(rounds, profile),
            }
        )
    return profile.table(rows)


def mostly_local(profile: Profile, store) -> pd.DataFrame:
    """ "WAFFLE transitions to mostly local SGD after 70 – 90% of the total number of rounds"
    (section 2.2), by two readings of *mostly*: Alice has half of all weight, or four fifths, to the
    end.

    A row for each distribution that the profile runs: columns distribution, half from and four
    fifths from (the first such round as percent of the rounds, "65 to 95" over seeds), seeds, and
    answer ("yes" where by both readings all seeds lie between 70 and 90 percent, "no" where none
    does by either, else "undecided").
    """
    rows = []
    for distribution in run_on(profile, DISTRIBUTIONS):
        found = waffle.results(store, profile, distribution, ["WAFFLE"]).get("WAFFLE", [])
        found = [tables.shares(one.weights)[:, ALICE] for one in found if one.diverged is None]
        since = [[_since(shares, least) for shares in found] for least in MOSTLY]
        inside = {LOCAL_AFTER[0] <= percent <= LOCAL_AFTER[1] for percent in chain(*since)}
        word = answer([inside.pop() if len(inside) == 1 else None]) if found else NOT_RUN
        seeds = few_seeds(len(found), profile.paper_seeds) if found else ""
        rows.append(
            {
                "distribution": distribution,
                "half from": _ends(since[0]),
                "four fifths from": _ends(since[1]),
                "seeds": len(found),
                "answer": QUICK
                if profile.name == "quick"
                else f"{word} ({seeds})"
                if seeds
                else word,
            }
        )
    return profile.table(rows)


def _ends(percent: list[float]) -> str:
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(percent), max(percent))) if percent else "–"
    return " to ".join(ends)


def _since(shares: np.ndarray, least: float) -> float:
    """From which round on a share [R] stays at `least` or above, in percent of the rounds; the last
    round where it never does.
    """
    below = np.flatnonzero(shares < least - HAIR)
    first = below[-1] + 2 if len(below) else 1
    return 100 * min(first, len(shares)) / len(shares)


def _same_time(rounds: Mapping[str, int | None], profile: Profile) -> str:
    """`rounds`: from which Alice is alone, None for never, of the methods that ran."""
    if profile.name == "quick":
        return QUICK
    if len(rounds) < len(WEIGHTED):
        return "undecided"
    if None in rounds.values():
        return "no"
    apart = abs(rounds["WE"] - rounds["WAFFLE"])
    return answer([apart <= SAME_TIME * profile.rounds])
