"""What pFedLA's section 4 says of Tables 1 to 3, and whether our runs say the same; and every
method's model, served and trained.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pandas as pd

from pfl_lib.papers.claims import (
    QUICK,
    Claim,
    answer,
    answers,
    is_above,
    is_printed_above,
    with_seeds,
)
from pfl_lib.papers.pfedla import (
    BASELINES,
    FIGURE5,
    FIGURE6,
    FIGURE7,
    OURS,
    TABLE1,
    TABLE2,
    TABLE3,
    weights,
)
from pfl_lib.papers.pfedla.sentences import TUNED
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table, gathered
from pfl_lib.papers.verdicts import Printed
from pfl_lib.results.summary import Ours

CLEARLY = -0.5  # rank correlation
UNAFFECTED = 3.5  # points: the most by which the paper's own accuracies in Table 3 move is 3.46


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


def _judged(table: Table) -> Table:
    """Without the rows for which other data stand in: they answer nothing about the paper's."""
    return replace(table, rows=tuple(row for row in table.rows if not row.stands_in))


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
    for table in map(_judged, (TABLE1, TABLE2)):
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


def unaffected(profile: Profile, find: Find) -> pd.DataFrame:
    """ "if retaining different number of the top k layers, the model accuracy will not be affected
    significantly" (section 4.5), on CIFAR10: no k is further than `UNAFFECTED` points from k = 0.

    Columns as of `claims.answers`.
    """
    table = _judged(TABLE3)
    ours, printed = _ours(table, profile, find), _printed(table)
    (row,) = table.rows
    places = [(row.dataset, row.setting, column.name) for column in table.columns]
    runs = [ours[place] for place in places]
    means = [of.mean for of in runs]
    moved = [mean - means[0] for mean in means[1:]]
    own = [printed[place].value - printed[places[0]].value for place in places[1:]]

    def judged(changes: list[float]) -> str:
        return answer(None if math.isnan(by) else abs(by) <= UNAFFECTED for by in changes)

    here = QUICK
    if profile.name != "quick":
        here = with_seeds(judged(moved), [(runs[0], of) for of in runs[1:]], profile)
    line = {
        "claim": "if retaining different number of the top k layers, the model accuracy will not"
        f" be affected significantly [read as: by {UNAFFECTED} points at most, CIFAR10]",
        "where": "section 4.5",
        "here": here,
        "by the paper's own numbers": judged(own),
        "numbers here": ", ".join(
            f"k={k}: {'not run' if math.isnan(by) else format(by, '+.2f')}"
            for k, by in enumerate(moved, 1)
        ),
        "not confirmed here": "–",
    }
    return profile.table([line])


def about_weights(profile: Profile, find: Find) -> pd.DataFrame:
    """What section 4.3 says of Figures 5 and 6 and section 4.4 of Figure 7, each from one run a
    data set; the paper prints no numbers for them.

    The paper looks at one layer of Figure 6 without naming it: there some layer has to show what it
    says, with a rank correlation of weight and class distance below -0.5.  In Figure 5 the mean
    over layers counts.  Columns as of `claims.answers`.
    """
    figure5, figure6, figure7 = map(_judged, (FIGURE5, FIGURE6, FIGURE7))
    found6 = weights.results(figure6, profile, find)
    layers = weights.figure_6(found6, figure6, profile)
    own, close = {}, {}
    for dataset in found6:
        rows = layers[layers["dataset"] == dataset]
        pairs = rows["own weight highest"].str.split(" of ", expand=True)
        own[dataset] = bool((pairs[0] == pairs[1]).any())
        close[dataset] = bool((rows["rank correlation"] < CLEARLY).any())
    table = weights.figure_5(weights.results(figure5, profile, find), profile)
    order, falling = {}, {}
    columns = ["own", "same classes", "similar classes", "others"]
    for dataset, rows in table.groupby("dataset", sort=False) if len(table) else ():
        means = rows.groupby("period")[columns].mean()
        _, same, similar, others = means.loc["last"]
        order[dataset] = bool(same > similar > others)
        falling[dataset] = bool(means.loc["last", "own"] > means.loc["prior", "own"])
    seven = weights.figure_7(weights.results(figure7, profile, find), profile)
    largest = {}
    if len(seven):
        brief = weights.largest_layers(seven)
        largest = dict(zip(brief["dataset"], brief["the same"] == "yes", strict=True))
    lines = []
    for quote, where, holds in (
        ("the inter-weights from other clients decrease with the training", "4.3", falling),
        (
            "clients with more similar data distribution (e.g., the same labels client) have higher"
            " weight value than other clients (e.g., the similar client)",
            "4.3",
            order,
        ),
        (
            "the weights among close clients [...] are larger than those of the distant",
            "4.3",
            close,
        ),
        ("the self-weights of each client have the highest values", "4.3", own),
        (
            "For the CIFAR10 dataset, the weights of the first fully-connected layer have the"
            " highest values",
            "4.4",
            largest,
        ),
    ):
        told = "; ".join(
            f"{dataset}: {'yes' if is_so else 'no'}" for dataset, is_so in holds.items()
        )
        lines.append(
            {
                "claim": quote,
                "where": f"section {where}",
                "here": QUICK if profile.name == "quick" else answer(holds.values()),
                "by the paper's own numbers": "–",
                "numbers here": told or "none",
                "not confirmed here": "–",
            }
        )
    return profile.table(lines)


def all_claims(profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to all sentences; columns as in `claims.answers`."""
    parts = [most_cases(profile, find)]
    for number, table in enumerate((TABLE1, TABLE2, TABLE3), 1):
        ours, printed = (
            {(f"{dataset} {setting}", method): value for (dataset, setting, method), value in of}
            for of in (_ours(table, profile, find).items(), _printed(table).items())
        )
        parts.append(answers(CLAIMS[number], profile, ours, printed))
    parts += [unaffected(profile, find), about_weights(profile, find)]
    return profile.table(pd.concat(parts).to_dict("records"))


def like_with_like(table: Table, profile: Profile, find: Find) -> pd.DataFrame:
    """Every method's model as it is served, and after the client's own epochs: columns dataset,
    setting, method, served, trained (mean over seeds, percent), gain.

    With a row of our own, `TUNED`: FedAvg's model after these epochs, which every client runs
    anyway, as the model that is served.  A personalised method should beat it.
    """
    found = {}
    for model in ("served", "trained"):
        frame = replace(table, model=model).frame(profile, find)
        frame = frame[frame["protocol"] == "last"]
        found[model] = gathered(frame, ["dataset", "setting", "method"])
    rows = []
    for (dataset, setting, method), served in found["served"].items():
        trained = found["trained"][dataset, setting, method].mean
        line = {"dataset": dataset, "setting": setting, "method": method}
        if served.comparable:
            rows.append(line | {"served": served.mean, "trained": trained})
            if method == "FedAvg":
                rows.append(line | {"method": TUNED, "served": trained, "trained": math.nan})
    columns = ["dataset", "setting", "method", "served", "trained"]
    shown = pd.DataFrame(rows, columns=columns)
    shown["gain"] = shown["trained"] - shown["served"]
    shown.attrs["banner"] = profile.banner
    return shown
