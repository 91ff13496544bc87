"""Sentences of a paper that say one method beats another: yes, no or undecided, with the numbers.

A claim is a list of comparisons, "on distribution B, WAFFLE is above FedAvg".  It is answered *yes*
when all of them hold, *no* when one is contradicted, else *undecided*.  A comparison holds when the
mean of the differences, seed by seed, is above the larger of the metric's floor (0.4 points) and
two standard errors, and is contradicted when it is as far below.  Where the paper's own two numbers
or ours are less than the metric's `near` (1 point) apart, fewer than three seeds leave it open.
For the paper's own numbers the margin is the larger of the two printed standard deviations, or the
floor where it prints none.  Two kinds of claim are read otherwise, as `Claim` says: that the best
of some methods is above the best of others, and that a method is above another or level with it.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

import pandas as pd

from pfl_lib.display.table_format import Joined, OfRun
from pfl_lib.papers.metrics import ACCURACY, Metric
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table, gathered
from pfl_lib.papers.verdicts import Printed, separation
from pfl_lib.results.summary import HAIR, Ours, common, differences, few_seeds, lost_beside

ENOUGH = 3  # seeds, to answer on a difference that is small in the paper or here
QUICK = "no answer (quick profile)"
Place = tuple[str, str]  # (distribution, method)
Comparison = tuple[str, str, str]  # (distribution, better method, worse method)


@dataclass(frozen=True)
class Claim:
    """`quote` from the paper's section `where`; `above` lists (distribution, better method, worse
    method).

    `best`: the best are meant: on each distribution the one of the better methods with the highest
    mean is compared with the one of the worse.  `level`: a comparison holds too where the two are
    level, the better method's mean less two standard errors not further below than the floor; of
    two methods that are closer than that it then holds both ways.
    """

    quote: str
    where: str
    above: tuple[Comparison, ...]
    best: bool = False
    level: bool = False


def every_pair(where: Iterable[str], better: Iterable[str], worse: Iterable[str]) -> tuple:
    """Comparisons of a `Claim`: everywhere each of the better methods above each of the worse."""
    return tuple(product(where, better, worse))


def answer(holds: Iterable[bool | None]) -> str:
    """ "yes", "no" or "undecided" from comparisons that hold (True), are contradicted (False) or
    are open (None).
    """
    holds = list(holds)
    if False in holds:
        return "no"
    return "yes" if holds and None not in holds else "undecided"


def is_above(
    better: Ours, worse: Ours, printed: float = math.inf, metric: Metric = ACCURACY
) -> bool | None:
    """Whether our runs of one method are above those of another, seed by seed; None when that is
    open.

    `printed`: how far apart the paper's two numbers are.  Only the seeds that both ran count.  A
    method that diverged on one of them is above nothing; being above one that diverged decides
    nothing.  Where `printed`, or what we found, is small, an answer takes three seeds.
    """
    seeds = common(better, worse)
    if len(seeds) < ENOUGH and abs(printed) < metric.near - HAIR:
        return None
    if not seeds or lost_beside(worse, better):
        return None
    if lost_beside(better, worse):
        return False
    found = differences(better, worse)
    if len(seeds) < ENOUGH and abs(statistics.fmean(found)) < metric.near - HAIR:
        return None
    return _beyond(statistics.fmean(found), max(metric.floor, two_standard_errors(found)))


def is_level(
    better: Ours, worse: Ours, printed: float = math.inf, metric: Metric = ACCURACY
) -> bool | None:
    """The same of a method that is said to be above another or level with it: below it by no more
    than the floor, two standard errors included, on three seeds at least.
    """
    above = is_above(better, worse, printed, metric)
    found = differences(better, worse)
    if above is None and len(found) == len(common(better, worse)) >= ENOUGH:
        least = statistics.fmean(found) - two_standard_errors(found)
        return True if least >= -metric.floor - HAIR else None
    return above


def is_printed_above(better: Printed, worse: Printed) -> bool | None:
    """The same for two printed values, by how far apart they must be to be clearly separated."""
    return _beyond(better.value - worse.value, separation(better, worse))


def answers(
    claims: Iterable[Claim],
    profile: Profile,
    ours: Mapping[Place, Ours],
    printed: Mapping[Place, Printed],
) -> pd.DataFrame:
    """Columns claim, where, here, numbers here, by the paper's own numbers, not confirmed here (the
    comparisons that are contradicted, "no", or "undecided", those of one better method together); a
    row for each claim.

    The quick profile answers nothing, since its data are not the paper's; its numbers are shown all
    the same.  An answer from fewer seeds than the paper averages says from how many: "yes (1 of 5
    seeds)".  Numbers are means over each method's own seeds, which stand beside them where methods
    differ in them.
    """
    rows = []
    for claim in claims:
        meant = _meant(claim, lambda place: ours[place].mean, lambda place: ours[place].ran)
        pairs = [(ours[where, better], ours[where, worse]) for where, better, worse in meant]
        found = [
            holds(claim, *pair, printed[where, better].value - printed[where, worse].value)
            for pair, (where, better, worse) in zip(pairs, meant, strict=True)
        ]
        own = [
            _printed_holds(claim, printed[where, better], printed[where, worse])
            for where, better, worse in _meant(claim, lambda place: printed[place].value)
        ]
        ran = [all(of.ran for of in pair) for pair in pairs]
        open_or_no = _not_confirmed(claim, meant, found, ran)
        if not all(ran):
            open_or_no.append(f"{ran.count(False)} of {len(ran)} comparisons, not run")
        rows.append(
            {
                "claim": claim.quote,
                "where": claim.where,
                "here": QUICK
                if profile.name == "quick"
                else with_seeds(answer(found), pairs, profile),
                "by the paper's own numbers": answer(own),
                "numbers here": _numbers(claim, ours, profile),
                "not confirmed here": "–"
                if profile.name == "quick"
                else "; ".join(open_or_no) or "nothing",
            }
        )
    told = profile.table(rows)
    numbers = pd.Series([row["numbers here"] for row in rows], dtype=object)
    return told.assign(**{"numbers here": numbers})  # as objects: plain words do not link


def holds(claim: Claim, better: Ours, worse: Ours, printed: float) -> bool | None:
    """Whether a comparison behind a claim holds."""
    return (is_level if claim.level else is_above)(better, worse, printed)


def _printed_holds(claim: Claim, better: Printed, worse: Printed) -> bool | None:
    above = is_printed_above(better, worse)
    if above is None and claim.level and better.value - worse.value >= -ACCURACY.floor - HAIR:
        return True
    return above


def _meant(
    claim: Claim,
    mean: Callable[[Place], float],
    ran: Callable[[Place], bool] = lambda place: True,
) -> list[Comparison]:
    """The comparisons that a claim comes to: all; of one about the best, at each place the better
    method with the highest mean and the worse one with the highest, and those with a method that
    was not run, which could be higher still.
    """
    if not claim.best:
        return list(claim.above)
    meant: list[Comparison] = []
    for where in dict.fromkeys(where for where, *_ in claim.above):
        here = [one for one in claim.above if one[0] == where]
        sides = [dict.fromkeys(one[side] for one in here) for side in (1, 2)]
        known = [[m for m in side if not math.isnan(mean((where, m)))] for side in sides]
        absent = [one for one in here if not all(ran((where, name)) for name in one[1:])]
        if all(known):
            top = [max(side, key=lambda name: mean((where, name))) for side in known]
            meant.append((where, *top))
            meant += [one for one in absent if one != meant[-1]]
        else:
            meant += here
    return meant


def _not_confirmed(
    claim: Claim, meant: list[Comparison], found: list[bool | None], ran: list[bool]
) -> list[str]:
    """The comparisons that do not hold, those of one better method at one place together."""
    apart: dict[Comparison, list[str]] = {}
    for (where, better, worse), one, there in zip(meant, found, ran, strict=True):
        if there and not one:
            apart.setdefault((where, better, answer([one])), []).append(worse)
    than = "above or level with" if claim.level else "above"
    return [
        f"{where}: {better} {than} {' or '.join(worse)} ({word})"
        for (where, better, word), worse in apart.items()
    ]


def comparisons(
    claims: Sequence[Claim],
    profile: Profile,
    ours: Mapping[Place, Ours],
    printed: Mapping[Place, Printed],
) -> pd.DataFrame:
    """Every comparison behind some claims, with its uncertainty; a row each.

    Columns claim (its number in the list, from 1), distribution, better, worse, or level ("yes"
    where the better one may be level), paper (the printed
    difference), here (the mean of the differences, seed by seed), plus or minus (two standard
    errors of that mean; nan for fewer than two seeds), agrees (whether the printed difference lies
    within these; "–" for fewer than two seeds and in the quick profile), seeds (that both finished)
    and holds ("yes", "no", "undecided", or that the quick profile answers nothing).
    """
    rows = []
    for number, claim in enumerate(claims, 1):
        meant = _meant(claim, lambda place: ours[place].mean, lambda place: ours[place].ran)
        for where, better, worse in meant:
            pair = ours[where, better], ours[where, worse]
            found = differences(*pair)
            apart = printed[where, better].value - printed[where, worse].value
            word = answer([holds(claim, *pair, apart)])
            agrees = "–"
            if len(found) > 1 and profile.name != "quick":
                off = abs(apart - statistics.fmean(found))
                agrees = answer([off <= two_standard_errors(found) + HAIR])
            rows.append(
                {
                    "claim": number,
                    "distribution": where,
                    "better": better,
                    "worse": worse,
                    "or level": "yes" if claim.level else "",
                    "paper": apart,
                    "here": statistics.fmean(found) if found else math.nan,
                    "plus or minus": two_standard_errors(found) if len(found) > 1 else math.nan,
                    "agrees": agrees,
                    "seeds": len(found),
                    "holds": QUICK if profile.name == "quick" else word,
                }
            )
    told = profile.table(rows)
    level = any(claim.level for claim in claims)
    return told if level else told.drop(columns="or level", errors="ignore")


def two_standard_errors(found: list[float]) -> float:
    """Of the mean of some differences; 0 for a single one."""
    return 0.0 if len(found) == 1 else 2 * statistics.stdev(found) / math.sqrt(len(found))


def about_table(
    claims: Iterable[Claim], table: Table, profile: Profile, find: Find, give=answers
) -> pd.DataFrame:
    """`answers` to claims about a table of one data set and metric, or with `give` the
    `comparisons` behind them; their distributions are its settings.
    """
    lines = table.frame(profile, find)
    ours = gathered(lines[lines["protocol"] == table.protocol], ["setting", "method"])
    printed = {(place[1], place[2]): value for place, value in table.printed().items()}
    return give(claims, profile, ours, printed)


def with_seeds(word: str, pairs: Iterable[tuple[Ours, Ours]], profile: Profile) -> str:
    """An answer, and on how few seeds it rests, if two methods compared for it have fewer in common
    than the paper averages.

    Pairs of which one was not run at all leave the answer open and do not count; where no pair was
    run there is no answer: "not run".
    """
    shared = [len(common(*pair)) for pair in pairs if all(ours.ran for ours in pair)]
    if not shared:
        return "not run"
    seeds = few_seeds(min(shared), profile.paper_seeds)
    return f"{word} ({seeds})" if seeds else word


def _numbers(claim: Claim, ours: Mapping[Place, Ours], profile: Profile) -> str:
    places = {
        (where, method): ours[where, method]
        for where, *methods in claim.above
        for method in methods
    }
    differ = len({found.seeds for found in places.values() if found.comparable}) > 1
    by_place, absent = {}, {}
    for (where, method), found in places.items():
        if not found.ran:
            absent.setdefault((where, found.status), []).append(method)
            continue
        word = f"{found.mean:.2f}" if found.status == "ran" else found.status
        after = ""
        if differ and found.comparable:
            after = f" ({replace(profile, seeds=found.seeds).seed_words})"
        number = OfRun(word, found.run) if found.run and found.comparable else word
        value = -found.mean if found.comparable else math.inf
        by_place.setdefault(where, []).append((value, [f"{method} ", number, after]))
    told = []
    for where, words in by_place.items():
        words = [parts for _, parts in sorted(words, key=lambda found: (found[0], found[1][0]))]
        told.append([f"{where}: ", *chain(words[0], *([", ", *parts] for parts in words[1:]))])
    for (where, status), methods in absent.items():
        told.append([f"{where}: {', '.join(methods) + ' ' if where in by_place else ''}{status}"])
    return Joined(chain(*told[:1], *(["; ", *parts] for parts in told[1:])))


def _beyond(difference: float, margin: float) -> bool | None:
    return difference > 0 if abs(difference) > margin + HAIR else None
