"""What Weight Erosion's abstract and sections 5 and 6 say, and whether its own runs and sound ones
say the same.

Every sentence is answered twice.  *As run*: the authors' run, with their initial model, their
"Global" for FedAvg and their mean over test batches for accuracy.  *Done right*: FedAvg an average,
accuracy the share of test examples, and, where accuracies are compared, every seed's initial model;
a method is above another when its gain is clear (`weight_erosion.tables.clear`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from pfl_lib.data import DATASETS
from pfl_lib.papers import weight_erosion as paper
from pfl_lib.papers.claims import QUICK, answer
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find
from pfl_lib.papers.weight_erosion import CLIENTS, RIGHT, RUN, WEIGHTS, tables
from pfl_lib.papers.weight_erosion.figures import learned, no_parameters
from pfl_lib.results.summary import Ours, status

NEAR = 2.0  # points within which two accuracies are the same
MARKED = 0.1  # of a weight, averaged over the rounds: a difference to be seen in the figure
NOT_ASKED = "the same"  # neither FedAvg nor accuracies are in the sentence
STRICT, SOME = paper.SPLITS
GLOBAL = ("Global (code)", "FedAvg")  # what is called FedAvg: as run, done right


@dataclass(frozen=True)
class Evidence:
    """All that sentences are judged by: the numbers of single runs by (split, client, method,
    measure), those of all seeds, and the final parameters of AGE_STRICT's runs by (client, method).
    """

    single: Mapping[tuple, float]
    finals: Mapping[tuple, Ours]
    parameters: Mapping[tuple[int, str], pd.DataFrame]

    def right(self, split: str, client: int, method: str) -> float:
        """The share predicted rightly, mean over seeds, percent."""
        return self.finals[split, client, method, RIGHT].mean

    def weights(self, split: str, client: int) -> np.ndarray:
        """Every client's weight for this one in Weight Erosion, averaged over the rounds, [4]."""
        return np.array([self.single[split, client, "WE", name] for name in WEIGHTS])

    def lead(self, client: int) -> tuple[float, float]:
        """In AGE_STRICT, client 1's mean weight for this client, and the largest of the others."""
        weights = self.weights(STRICT, client)
        return weights[1], np.delete(weights, [1, client]).max()

    def effect(self, client: int, method: str, name: str) -> float:
        """What an input does for class 1 in AGE_STRICT: its weight for class 1 minus that for class
        0.
        """
        row = self.parameters[client, method].loc[name]
        return float(row["class 1"] - row["class 0"])


Holds = bool | None | str
"""Whether a sentence holds, None where that is open; `NOT_ASKED` where it is not a question."""


@dataclass(frozen=True)
class Sentence:
    """`quote` from the paper's section `where`; `judge` gives whether it holds as run, whether it
    holds done right, and the numbers.  `titanic`: it is about inputs that other data do not have.
    """

    quote: str
    where: str
    judge: Callable[[Evidence], tuple[Holds, Holds, str]]
    titanic: bool = False


def _above_both(e: Evidence) -> tuple[Holds, Holds, str]:
    found: dict[str, list[str]] = {"as run": [], "done right": []}
    for split, client in product(paper.SPLITS, CLIENTS):
        at = e.single[split, client, "WE", RUN] - NEAR
        if all(at > e.single[split, client, o, RUN] for o in ("Local", "Global (code)")):
            found["as run"].append(f"{split} client {client}")
        gains = (
            tables.gain(e.finals, split, client, *pair)
            for pair in product(("Local", "FedAvg"), (RUN, RIGHT))
        )
        if all(map(tables.clear, gains)):
            found["done right"].append(f"{split} client {client}")
    words = "; ".join(f"{kind} {', '.join(of) or 'for no client'}" for kind, of in found.items())
    return bool(found["as run"]), bool(found["done right"]), f"clearly above both: {words}"


def _above_local(e: Evidence) -> tuple[Holds, Holds, str]:
    run = [
        e.single[STRICT, client, "WE", RUN] - e.single[STRICT, client, "Local", RUN]
        for client in CLIENTS
    ]
    right = [tables.gain(e.finals, STRICT, client, "Local", RIGHT) for client in CLIENTS]
    means = [points.mean() for points in right]
    return (
        run[0] > NEAR and max(run[1:]) <= NEAR,
        [tables.clear(points) for points in right] == [True, False, False, False],
        f"WE minus Local, clients 0 to 3: {_both(run, means)}",
    )


def _ninety_percent(e: Evidence) -> tuple[Holds, Holds, str]:
    run = [e.single[STRICT, 2, method, RUN] for method in ("Local", "WE")]
    right = [e.right(STRICT, 2, method) for method in ("Local", "WE")]
    apart = [min(of) - 90 for of in (run, right)]
    holds = [None if abs(by) < ACCURACY.floor else by > 0 for by in apart]
    words = [" and ".join(f"{value:.1f}" for value in of) for of in (run, right)]
    return *holds, f"Local and WE: as run {words[0]}, done right {words[1]}"


def _one_slowest(e: Evidence) -> tuple[Holds, Holds, str]:
    leads = {client: e.lead(client) for client in (0, 2, 3)}
    words = (f"client {c}: client 1 {one:.3f}, next {next:.3f}" for c, (one, next) in leads.items())
    holds = all(one > next for one, next in leads.values())
    return holds, NOT_ASKED, f"mean weight over the rounds, for {'; for '.join(words)}"


def _marked_for_two(e: Evidence) -> tuple[Holds, Holds, str]:
    leads = {client: np.subtract(*e.lead(client)) for client in (0, 2, 3)}
    numbers = ", ".join(f"for client {client} {lead:+.3f}" for client, lead in leads.items())
    holds = leads[2] > MARKED > max(leads[0], leads[3])
    return bool(holds), NOT_ASKED, f"client 1's lead in mean weight: {numbers}"


def _minor(e: Evidence) -> tuple[Holds, Holds, str]:
    one, other = (e.parameters[0, m].loc["Passenger is minor"].to_numpy() for m in ("Local", "WE"))
    numbers = f"Local {_listed(one, '+.2f')}, WE {_listed(other, '+.2f')}"
    return np.abs(one - other).max() < 0.05, NOT_ASKED, numbers


def _alone(e: Evidence) -> tuple[Holds, Holds, str]:
    zero, two = ([e.effect(c, m, "Travelling alone") for m in ("Local", "WE")] for c in (0, 2))
    averaged = [e.effect(0, method, "Travelling alone") for method in GLOBAL]
    numbers = (
        f"survival minus death: client 0 Local and WE {_listed(zero, '+.2f')}, Global"
        f" {averaged[0]:+.2f}, FedAvg {averaged[1]:+.2f}; client 2 Local and WE"
        f" {_listed(two, '+.2f')}"
    )
    same = max(zero) < 0 < min(two)
    return *(same and effect > 0 for effect in averaged), numbers


def _not_between(e: Evidence) -> tuple[Holds, Holds, str]:
    answers, numbers = [], []
    local, erosion = (e.parameters[0, name].to_numpy().ravel() for name in ("Local", "WE"))
    for method in GLOBAL:
        path = e.parameters[0, method].to_numpy().ravel() - local
        share = float(np.clip((erosion - local) @ path / (path @ path), 0, 1))
        off = np.linalg.norm(erosion - local - share * path) / np.linalg.norm(path)
        effects = (
            [e.effect(0, m, name) for m in (method, "WE", "Local")]
            for name in ("Sex (1: female)", "Age (standardized)", "Queenstown")
        )
        further = [abs(it - we) > abs(it - own) for it, we, own in effects]
        answers.append(all(further))
        numbers.append(
            f"{method}: {sum(further)} of 3 (Sex, Age, Queenstown) are further from WE than from"
            f" Local; the nearest point between Local and it, {share:.0%} of the way, is {off:.2f}"
            " of that way off"
        )
    return *answers, "; ".join(numbers)


def _sex(e: Evidence) -> tuple[Holds, Holds, str]:
    rows = (e.parameters[2, method].loc["Sex (1: female)"] for method in ("Local", "WE"))
    values = [abs(value) for row in rows for value in row]
    holds = all(1.1 <= round(value, 1) <= 1.4 for value in values)
    return holds, NOT_ASKED, f"absolute values {_listed(values, '.2f')}"


def _each_other(e: Evidence) -> tuple[Holds, Holds, str]:
    means = [e.weights(SOME, client) for client in CLIENTS]
    others = [np.delete(means[client], client) for client in (0, 1)]
    apart = [abs(means[client][0] - means[client][1]) for client in (2, 3)]
    numbers = (
        f"mean weights of the others: for client 0 {_listed(others[0], '.2f')} (clients 1, 2, 3),"
        f" for client 1 {_listed(others[1], '.2f')} (clients 0, 2, 3); clients 0 and 1 are"
        f" {apart[0]:.2f} apart for client 2, {apart[1]:.2f} for client 3"
    )
    highest = all(of_others.argmax() == 0 for of_others in others)
    return highest and bool(max(apart) < MARKED), NOT_ASKED, numbers


def _same_in_both(e: Evidence) -> tuple[Holds, Holds, str]:
    run, right = (
        [of(SOME, client) - of(STRICT, client) for client in CLIENTS]
        for of in (
            lambda split, client: e.single[split, client, "WE", RUN],
            lambda split, client: e.right(split, client, "WE"),
        )
    )
    holds = (
        all(abs(shifts[client]) <= NEAR for client in (0, 1, 3)) and shifts[2] < -NEAR
        for shifts in (run, right)
    )
    return *holds, f"WE, AGE_SOME minus AGE_STRICT, clients 0 to 3: {_both(run, right)}"


CLAIMS = (
    Sentence(
        "Weight Erosion can outperform two baseline FL aggregation schemes",
        "abstract",
        _above_both,
    ),
    Sentence(
        "agent 0 stands out by the fact that the Weight Erosion model clearly out-performs the"
        " Local model",
        "section 5.1",
        _above_local,
    ),
    Sentence(
        "these models [client 2] perform exceptionally well (> 90 %)",
        "section 5.1",
        _ninety_percent,
    ),
    Sentence(
        "agent 1's weight experiences the slowest decrease in all three graphs",
        "section 5.1",
        _one_slowest,
    ),
    Sentence(
        "the difference between [client 1's weight] and the other agent weights is only very marked"
        " when agent 2 is the user",
        "section 5.1",
        _marked_for_two,
    ),
    Sentence(
        "[Passenger is minor]: weights are nearly identical in both models [Local, Weight Erosion;"
        " client 0]",
        "section 5.1",
        _minor,
        titanic=True,
    ),
    Sentence(
        "Travelling alone is strongly correlated with death in both models [client 0]; the same"
        " feature is weakly correlated with survival in the FedAvg model, as well as in [those of"
        " client 2]",
        "section 5.1",
        _alone,
        titanic=True,
    ),
    Sentence(
        "a model that is not merely a weighted average of the FedAvg and Local models: Sex, Age, or"
        " Queenstown differ more between FedAvg and Weight Erosion than between FedAvg and Local",
        "section 5.1",
        _not_between,
        titanic=True,
    ),
    Sentence(
        "the weights for Sex are spectacularly large (with absolute values between 1.1 and 1.4)",
        "section 5.1",
        _sex,
        titanic=True,
    ),
    Sentence(
        "[AGE_SOME] agents 0 and 1 have the highest weight in each other's model, while their"
        " weights are similar to each other in the two other agents' models",
        "section 5.2",
        _each_other,
    ),
    Sentence(
        "the same test accuracy as with the AGE_STRICT split, save for the spectacular accuracy"
        " obtained for agent 2",
        "section 5.2",
        _same_in_both,
    ),
)


def evidence(frame: pd.DataFrame, profile: Profile, find: Find) -> Evidence | str:
    """What `frame` (`tables.long`) and `find` (`Store.find`) have; words for what keeps the
    sentences from being judged, if they have not all it takes.

    All runs of `weight_erosion.claim_runs` must be there with their models, and none may have
    diverged.
    """
    found = {spec: find(spec) for spec in paper.claim_runs(profile)}
    ended = {spec: status(run) for spec, run in found.items()}
    diverged = [f"{s.slug} {word}" for s, word in ended.items() if word not in ("ran", "not run")]
    if diverged:
        return f"{len(diverged)} of {len(found)} runs diverged, the first of them: {diverged[0]}"
    if missing := list(ended.values()).count("not run"):
        return "not run" if missing == len(found) else f"{missing} of {len(found)} runs not run"
    strict = {
        (client, method): run
        for client, of_client in paper.results(found.get, profile, STRICT).items()
        for method, run in of_client.items()
    }
    lacking = {place: why for place, run in strict.items() if (why := no_parameters(run))}
    if lacking:
        return "; ".join(f"{method}, client {c}: {why}" for (c, method), why in lacking.items())
    inputs = DATASETS[profile.dataset].inputs
    single = frame[frame["table"] == paper.FIGURES.name]
    return Evidence(
        single.set_index(["split", "client", "method", "measure"])["value"].to_dict(),
        tables.finals(frame),
        {place: learned(run, inputs) for place, run in strict.items()},
    )


def answers(frame: pd.DataFrame, profile: Profile, find: Find) -> pd.DataFrame:
    """Columns claim, where, as run, done right, numbers; a row for each of `CLAIMS`.

    The quick profile answers nothing, since its data are not the paper's; its numbers are shown
    where there are any.
    """
    found = evidence(frame, profile, find)
    quick = profile.name == "quick"
    rows = []
    for claim in CLAIMS:
        holds, numbers = [None, None], found
        if not isinstance(found, str):
            *holds, numbers = (
                (None, None, "about the Titanic's inputs")
                if quick and claim.titanic
                else claim.judge(found)
            )
        words = [hold if isinstance(hold, str) else answer([hold]) for hold in holds]
        as_run, right = [QUICK, QUICK] if quick else words
        row = {"claim": claim.quote, "where": claim.where, "as run": as_run, "done right": right}
        rows.append(row | {"numbers": numbers.replace(" -", " −")})
    return profile.table(rows)


def _listed(values, fmt: str = "+.1f") -> str:
    return ", ".join(f"{value:{fmt}}" for value in values).replace("-", "−")


def _both(run, right) -> str:
    return f"as run {_listed(run)}; done right {_listed(right)}"
