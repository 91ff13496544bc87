"""What pFedLA says of its Tables 1 to 3, and whether our runs say the same; and every method's
model, served and trained.
"""

import itertools
import math
import statistics
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pandas as pd

from pfl_lib.papers.claims import (
    ENOUGH,
    QUICK,
    Claim,
    answer,
    answers,
    is_above,
    is_printed_above,
    two_standard_errors,
    with_seeds,
)
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.pfedla import (
    BASELINES,
    OURS,
    TABLE1,
    TABLE2,
    TABLE3,
    TUNED,
)
from pfl_lib.papers.pfedla.figure_claims import about_figures, judged
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table, gathered
from pfl_lib.papers.verdicts import Printed
from pfl_lib.results.summary import Ours, differences

UNAFFECTED = 3.5
"""Points: the paper's own accuracies in Table 3 move by up to 3.46, on EMNIST from k = 0 to 1, and
it calls that not significant.
"""


def _ours(table: Table, profile: Profile, find: Find) -> dict[tuple[str, str, str], Ours]:
    """(data set, setting, method) to our accuracies, rows with other data left out."""
    frame = table.frame(profile, find)
    frame = frame[(frame["metric"] == "accuracy_percent") & (frame["protocol"] == table.protocol)]
    return gathered(frame, ["dataset", "setting", "method"])


def _printed(table: Table) -> dict[tuple[str, str, str], Printed]:
    return {
        place[:3]: value
        for place, value in table.printed().items()
        if place[3] == "accuracy_percent" and not math.isnan(value.value)
    }


def wins(
    table: Table, ours: dict, printed: dict, near: float = 1.0
) -> list[tuple[str, str, bool | None, bool | None]]:
    """Row by row, whether the better of pFedLA and HeurpFedLA is above the best baseline: (data
    set, setting, here, by the paper's own numbers), None where that is open.

    Here the best is chosen by the mean; a row in which one of the paper's methods did not end well
    is open.
    """
    found = []
    for row in table.rows:
        place = (row.dataset, row.setting)
        names = [name for name in (*OURS, *BASELINES) if (*place, name) in printed]
        mine = [name for name in OURS if name in names]
        others = [name for name in names if name not in OURS]
        best = [max(of, key=lambda name: printed[*place, name].value) for of in (mine, others)]
        there = [printed[*place, name] for name in best]
        own = is_printed_above(*there)
        here = None
        runs = {name: ours.get((*place, name), Ours()) for name in names}
        if all(of.comparable for of in runs.values()):
            best = [max(of, key=lambda name: runs[name].mean) for of in (mine, others)]
            here = is_above(*(runs[name] for name in best), there[0].value - there[1].value)
        found.append((*place, here, own))
    return found


def in_most(holds: Iterable[bool | None]) -> str:
    """ "yes" where more than half hold, "no" where half or more cannot, else "undecided"."""
    holds = list(holds)
    if 2 * holds.count(True) > len(holds):
        return "yes"
    return "no" if holds and 2 * holds.count(False) >= len(holds) else "undecided"


def most_cases(profile: Profile, find: Find) -> pd.DataFrame:
    """ "superior performance than baselines over the four datasets with different data
    distributions in most cases" (section 4.2), over the rows of Tables 1 and 2 that were run.

    Columns as of `claims.answers`.
    """
    found, counted, pairs = [], [], []
    for table in map(judged, (TABLE1, TABLE2)):
        ours, printed = _ours(table, profile, find), _printed(table)
        for dataset, setting, here, own in wins(table, ours, printed):
            counted.append(own)
            runs = [of for place, of in ours.items() if place[:2] == (dataset, setting)]
            if any(of.ran for of in runs):
                found.append((f"{dataset} {setting}", here))
                pairs += itertools.combinations([of for of in runs if of.ran], 2)
    words = {True: "yes", False: "no", None: "open"}
    here = QUICK
    if profile.name != "quick":
        here = with_seeds(in_most(holds for _, holds in found), pairs, profile)
    line = {
        "claim": "superior performance than baselines over the four datasets with different data"
        " distributions in most cases",
        "where": "section 4.2",
        "here": here,
        "by the paper's own numbers": in_most(counted),
        "numbers here": "; ".join(f"{place}: {words[holds]}" for place, holds in found) or "none",
        "not confirmed here": "–"
        if profile.name == "quick"
        else "; ".join(place for place, holds in found if not holds) or "nothing",
    }
    return profile.table([line])


CIFAR10 = "CIFAR10 non_iid_1_10_clients"


def _heuristic(number: int, datasets: Iterable[str]) -> tuple:
    """HeurpFedLA above every baseline that the paper prints, with ten clients."""
    above = []
    for dataset, baseline in product(datasets, BASELINES):
        if baseline != "FedBN" or dataset.startswith("CIFAR"):
            above.append((f"{dataset} non_iid_{number}_10_clients", "HeurpFedLA", baseline))
    return tuple(above)


JUDGED = ("FashionMNIST", "CIFAR10", "CIFAR100")
CLAIMS = {
    1: (
        Claim(
            "HeurpFedLA also outperforms the existing methods [non-IID.1, 10 clients]",
            "section 4.2",
            _heuristic(1, JUDGED),
        ),
    ),
    2: (
        Claim(
            "HeurpFedLA also outperforms the existing methods [non-IID.2, 10 clients]",
            "section 4.2",
            _heuristic(2, JUDGED),
        ),
    ),
    3: (
        Claim(
            "For the CIFAR10 dataset [...] the model accuracy performance will be compromised if"
            " retaining some layers at local",
            "section 4.4",
            tuple((CIFAR10, "HeurpFedLA k=0", f"HeurpFedLA k={k}") for k in (1, 2, 3)),
        ),
    ),
}


def stays(moved: float, margin: float) -> bool | None:
    """Whether an accuracy that has `moved` by so many points, give or take `margin`, is within
    `UNAFFECTED` of where it was; None where the margin reaches across that limit or is unknown.
    """
    if abs(moved) + margin <= UNAFFECTED:
        return True
    return False if abs(moved) - margin > UNAFFECTED else None


def unaffected(profile: Profile, find: Find) -> pd.DataFrame:
    """ "if retaining different number of the top k layers, the model accuracy will not be affected
    significantly" (section 4.5), on CIFAR10: no k is further than `UNAFFECTED` points from k = 0.

    Our margin is the larger of the floor and two standard errors of the differences, seed by seed;
    fewer than three seeds leave it open, since they say nothing of that.  The paper's is the larger
    printed standard deviation, where there is one.  Columns as of `claims.answers`.
    """
    table = judged(TABLE3)
    ours, printed = _ours(table, profile, find), _printed(table)
    (row,) = table.rows
    first, *places = [(row.dataset, row.setting, column.name) for column in table.columns]
    here, there, told = [], [], []
    for k, place in enumerate(places, 1):
        pair = printed[place], printed[first]
        margin = max((of.std for of in pair if not math.isnan(of.std)), default=0.0)
        there.append(stays(pair[0].value - pair[1].value, margin))
        found = differences(ours[place], ours[first])
        if not found:
            here.append(None)
            told.append(f"k={k}: not run")
            continue
        margin = max(ACCURACY.floor, two_standard_errors(found))
        here.append(stays(statistics.fmean(found), margin) if len(found) >= ENOUGH else None)
        told.append(f"k={k}: {statistics.fmean(found):+.2f} ± {margin:.2f}")
    word = QUICK
    if profile.name != "quick":
        word = with_seeds(answer(here), [(ours[first], ours[place]) for place in places], profile)
    line = {
        "claim": "if retaining different number of the top k layers, the model accuracy will not"
        f" be affected significantly [read as: by {UNAFFECTED} points at most, CIFAR10]",
        "where": "section 4.5",
        "here": word,
        "by the paper's own numbers": answer(there),
        "numbers here": ", ".join(told),
        "not confirmed here": "–",
    }
    return profile.table([line])


def all_claims(profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to all sentences; columns as in `claims.answers`."""
    parts = [most_cases(profile, find)]
    for number, table in enumerate((TABLE1, TABLE2, TABLE3), 1):
        ours, printed = (
            {(f"{dataset} {setting}", method): value for (dataset, setting, method), value in of}
            for of in (_ours(table, profile, find).items(), _printed(table).items())
        )
        parts.append(answers(CLAIMS[number], profile, ours, printed))
    parts += [unaffected(profile, find), about_figures(profile, find)]
    return profile.table(pd.concat(parts, ignore_index=True))


def like_with_like(table: Table, profile: Profile, find: Find) -> pd.DataFrame:
    """Every method's model as it is served, and after the client's own epochs: columns dataset,
    setting, method, served, trained (mean over seeds, percent), gain.

    `pfedla.TUNED` is trained already: served as it is, with no trained model beside it.
    """
    found = {}
    for model in ("served", "trained"):
        frame = replace(table, model=model, metrics=(ACCURACY,)).frame(profile, find)
        frame = frame[frame["protocol"] == "last"]
        found[model] = gathered(frame, ["dataset", "setting", "method"])
    rows = []
    for (dataset, setting, method), served in found["served"].items():
        trained = found["trained"][dataset, setting, method].mean
        trained = math.nan if method == TUNED.name else trained
        line = {"dataset": dataset, "setting": setting, "method": method}
        if served.comparable:
            rows.append(line | {"served": served.mean, "trained": trained})
    columns = ["dataset", "setting", "method", "served", "trained"]
    shown = pd.DataFrame(rows, columns=columns)
    shown["gain"] = shown["trained"] - shown["served"]
    shown.attrs["banner"] = profile.banner
    return shown
