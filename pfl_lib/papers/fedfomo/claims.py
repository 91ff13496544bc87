"""What FedFomo's section 4 and appendix say, and whether our runs say the same."""

import math
from collections.abc import Iterable
from itertools import combinations, pairwise, product

import pandas as pd

from pfl_lib.papers import groups as numbers
from pfl_lib.papers.claims import (
    ENOUGH,
    QUICK,
    Claim,
    about_table,
    answer,
    answers,
    every_pair,
    with_seeds,
)
from pfl_lib.papers.fedfomo import (
    D5,
    DOWNLOADS,
    EPSILONS,
    FIGURE2,
    FIGURE3,
    FIGURE9,
    GLOBAL,
    MANY,
    METHODS,
    OTHERS,
    OURS,
    PERSONALISED,
    TABLE1,
)
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table, gathered
from pfl_lib.papers.verdicts import Printed
from pfl_lib.results.summary import NOT_RUN, Ours, common, few_seeds


def _latent(*groups: int) -> list[str]:
    return [f"latent_D{d}_15_clients" for d in groups]


TABLE_1 = (
    Claim(
        "FedFomo strongly outperforms alternative methods in settings with larger number clients",
        "section 4, Pathological Non-IID",
        every_pair(["pathological_100_clients"], OURS, OTHERS),
    ),
    Claim(
        "methods that try to train a single robust model [...] notably do not perform better than"
        " local training alone",
        "section 4, Pathological Non-IID",
        every_pair(
            ["pathological_15_clients", "pathological_100_clients"], ["Local Training"], GLOBAL
        ),
    ),
)
TABLE_2 = (
    Claim(
        "[FedFomo] outperforms both [local training and FedAvg] in moderately non-IID settings (EMD"
        " ∈ [1,2])",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(2, 3, 4), OURS, ("Local Training", "FedAvg")),
    ),
    Claim(
        "[in the most extreme non-IID case] strongly outperforming FedAvg",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(10), OURS, ["FedAvg"]),
    ),
    Claim(
        "higher performance most convincingly come from methods that do not rely on a single model",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(2, 3, 4, 5, 10), (*PERSONALISED, *OURS), GLOBAL),
        best=True,  # where the highest accuracies come from is said, not that all are higher
    ),
    Claim(
        "our method strongly outperforms others in highly non-IID settings",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(5, 10), OURS, OTHERS),
    ),
    Claim(
        "FedFomo also outperforms personalizing-component and multi-model approaches (MOCHA and"
        " LG-FedAvg)",
        "section 4, Latent Distribution Non-IID",
        every_pair(_latent(2, 3, 4, 5, 10), OURS, ("MOCHA", "LG-FedAvg")),
    ),
)
TABLE_5 = (
    Claim(
        "[our method] handily outperforms others as we increase this statistical label"
        " heterogeneity",
        "appendix A.2",
        every_pair(
            _latent(5, 10),
            OURS,
            ["Clustered FL" if name == "CFL" else name for name in OTHERS],
        ),
    ),
)
DOWNLOADED = (
    Claim(
        "With fixed ε, greater M led to higher performance",
        "section 4, Exploration",
        tuple((D5, f"M = {more}", f"M = {fewer}") for fewer, more in pairwise(DOWNLOADS)),
    ),
)


ABOUT = {"table1": TABLE_1, "table2": TABLE_2, "table5": TABLE_5}


def about_tables(tables: Iterable[Table], profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to the sentences about Tables 1, 2 or 5, a row for each sentence and data set;
    columns table, dataset and those of `claims.answers`.
    """
    found = []
    for table in tables:
        for dataset in dict.fromkeys(row.dataset for row in table.rows):
            part = table.only(datasets=[dataset])
            answered = about_table(ABOUT[table.name], part, profile, find)
            answered.insert(0, "dataset", dataset)
            answered.insert(0, "table", table.name.removeprefix("table"))
            found.append(answered)
    return profile.table(pd.concat(found, ignore_index=True))


def leads(profile: Profile, find: Find) -> pd.DataFrame:
    """How far FedFomo (n=5) is ahead of the best other method with 15 clients and with 100 (Table
    1), in points, ours and the paper's; negative where it is behind.

    Columns dataset, and for each number of clients the best other method and the lead, then grows
    ("yes" where the lead is more than 0.4 points larger with 100 clients, on fewer than three seeds
    a whole point, "no" where it is as much smaller), paper's leads and paper grows.  A method that
    diverged is not the best other, and is named; methods not yet run leave the lead open.
    """
    frame = TABLE1.frame(profile, find)
    ours = gathered(frame[frame["protocol"] == TABLE1.protocol], ["dataset", "setting", "method"])
    printed = {place[:3]: value.value for place, value in TABLE1.printed().items()}
    lines = []
    for dataset in dict.fromkeys(row.dataset for row in TABLE1.rows):
        line: dict[str, object] = {"dataset": dataset}
        here, theirs, seeds = [], [], []
        for clients in (15, MANY):
            setting = f"pathological_{clients}_clients"
            of = {method: ours[dataset, setting, method] for method in METHODS}
            lost = [method for method in OTHERS if of[method].diverged]
            best, lead = _lead({m: one.mean for m, one in of.items() if m not in lost})
            line[f"best other, {clients} clients"] = (
                f"{best} ({', '.join(lost)} diverged)" if lost and best != "–" else best
            )
            line[f"lead, {clients} clients"] = lead
            here.append(lead)
            theirs.append(
                _lead({method: printed[dataset, setting, method] for method in METHODS})[1]
            )
            seeds.append((of[OURS[0]], of.get(best, Ours())))
        fewest = min(len(common(*pair)) for pair in seeds)
        word = with_seeds(_grows(*here, fewest), seeds, profile)
        line |= {
            "grows": QUICK if profile.name == "quick" else word,
            "paper's leads": f"{theirs[0]:.2f}, {theirs[1]:.2f}",
            "paper grows": _grows(*theirs),
        }
        lines.append(line)
    return profile.table(lines)


def _lead(accuracy: dict[str, float]) -> tuple[str, float]:
    """The best other method of those given and FedFomo's (n=5) lead over it; NaN unless all ran."""
    others = [method for method in OTHERS if method in accuracy]
    if not others or any(math.isnan(accuracy[method]) for method in (OURS[0], *others)):
        return "–", math.nan
    best = max(others, key=accuracy.__getitem__)
    return best, accuracy[OURS[0]] - accuracy[best]


def _grows(few: float, many: float, seeds: int = ENOUGH) -> str:
    margin = ACCURACY.floor if seeds >= ENOUGH else ACCURACY.near
    if math.isnan(many - few) or abs(many - few) <= margin:
        return "undecided"
    return answer([many > few])


def upweighted(profile: Profile, find: Find) -> pd.DataFrame:
    """ "We reliably upweight clients with the same training and target distributions" (Figure 2).

    Columns setting, round (the last), within and across (mean P), clients ("14 of 15" have a higher
    mean P for their own group), Rand index and upweighted: "yes" where all of them do, "no" where
    at most half do.
    """
    lines = []
    for setting, by_round in numbers.recoveries(FIGURE2, profile, find).items():
        last = by_round.iloc[-1]
        share = last["clients"] / last["of"]
        word = answer([None if 0.5 < share < 1 else share == 1])
        lines.append(
            {
                "setting": setting,
                "round": int(last["round"]),
                "within": last["within"],
                "across": last["across"],
                "clients": f"{last['clients']:.0f} of {last['of']:.0f}",
                "Rand index": last["Rand index"],
                "upweighted": QUICK if profile.name == "quick" else word,
            }
        )
    return profile.table(lines)


def ablations(profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to what is said about Figure 3, as `claims.answers` gives them: that more downloads
    help, and that epsilon does not matter.

    The paper prints no numbers, so fewer than three seeds leave the first open.  The second is
    answered "yes" where accuracies neither rise nor fall all the way with epsilon, each step by
    more than 0.4 points, and needs three seeds too.
    """
    ours = _of_figure(FIGURE3, profile, find)
    answered = answers(DOWNLOADED, profile, ours, dict.fromkeys(ours, Printed(0.0, math.nan)))
    chain = [ours[D5, f"ε = {epsilon:g}"] for epsilon in EPSILONS]
    steps = [after.mean - before.mean for before, after in pairwise(chain)]
    trend = all(step > ACCURACY.floor for step in steps) or all(
        step < -ACCURACY.floor for step in steps
    )
    enough = min(len(common(*pair)) for pair in combinations(chain, 2)) >= 3
    word = answer([not trend if enough and not any(map(math.isnan, steps)) else None])
    line = {
        "claim": "We did not find consistent correlation between ε and model performance",
        "where": "section 4, Exploration",
        "here": QUICK
        if profile.name == "quick"
        else with_seeds(word, list(pairwise(chain)), profile),
        "numbers here": ", ".join(
            f"ε = {epsilon:g} {one.mean:.2f}" if one.ran else f"ε = {epsilon:g} {one.status}"
            for epsilon, one in zip(EPSILONS, chain, strict=True)
        ),
        "not confirmed here": "–",
    }
    together = pd.concat([answered, pd.DataFrame([line])], ignore_index=True)
    return profile.table(together.drop(columns="by the paper's own numbers"))


def validation_shares(profile: Profile, find: Find) -> pd.DataFrame:
    """Figure 9's numbers and its sentence: "faster convergence to a higher accuracy when allocating
    under half of all local data points to the validation split".

    Columns share, final (accuracy in percent, mean over seeds), std, all rounds (mean accuracy over
    all rounds, which tells the faster of two that end alike), seeds.
    """
    frame = FIGURE9.frame(profile, find)
    last = gathered(frame[frame["protocol"] == "last"], ["setting"])
    lines = []
    for row in FIGURE9.run_in(profile).rows:
        setting, share = row.setting, row.at.validation
        results = FIGURE9.only([setting]).results(find, profile)
        curves = [
            100 * result.accuracy_by_round().mean() for one in results.values() for result in one
        ]
        found = last[setting]
        lines.append(
            {
                "share": share,
                "final": found.mean,
                "std": found.std,
                "all rounds": sum(curves) / len(curves) if curves else math.nan,
                "seeds": len(found.seeds),
            }
        )
    return profile.table(lines)


def halves(shares: pd.DataFrame) -> pd.DataFrame:
    """Every share under one half against every share above: columns measured ("after the last
    round", "over all rounds"), pairs, and of these higher, lower (by more than 0.4 points) and open
    (closer than that, or not run).  `shares`: `validation_shares`.
    """
    low, high = shares[shares["share"] < 0.5], shares[shares["share"] > 0.5]
    lines = []
    for column, measured in (
        ("final", "after the last round"),
        ("all rounds", "over all rounds"),
    ):
        apart = pd.Series([a - b for a, b in product(low[column], high[column])])
        higher, lower = (apart > ACCURACY.floor).sum(), (apart < -ACCURACY.floor).sum()
        line = {
            "measured": measured,
            "pairs": len(apart),
            "higher": int(higher),
            "lower": int(lower),
        }
        lines.append(line | {"open": len(apart) - int(higher) - int(lower)})
    return pd.DataFrame(lines)


def under_half(shares: pd.DataFrame, profile: Profile) -> str:
    """Whether every share under one half ends higher, and is higher over all rounds, than every one
    above: "yes"; "no" where one is lower; both by more than 0.4 points and on three seeds at least,
    since the paper prints no numbers.  `shares`: `validation_shares`.
    """
    if profile.name == "quick":
        return QUICK
    seeds = int(shares["seeds"].min())
    if not seeds:
        return NOT_RUN
    found = halves(shares)
    lower = found["lower"].sum()
    known = found["open"].sum() == 0 or lower
    word = answer([not lower if known and seeds >= 3 else None])
    return f"{word} ({few_seeds(seeds, profile.paper_seeds)})".replace(" ()", "")


def _of_figure(table: Table, profile: Profile, find: Find) -> dict:
    frame = table.frame(profile, find)
    return gathered(frame[frame["protocol"] == table.protocol], ["setting", "method"])
