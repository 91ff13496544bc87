"""What Weight Erosion's abstract and sections 5 and 6 say, and whether its own runs and sound ones
say the same.

Every sentence is answered twice.  *As run*: the authors' run, with their initial model, their
"Global" for FedAvg and their mean over test batches for accuracy.  *Done right*: FedAvg an average,
accuracy the share of test examples, and, where accuracies are compared, every seed's initial model;
a method is above another when its gain is clear (`weight_erosion_tables.clear`).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfl_lib.data import DATASETS
from pfl_lib.papers import weight_erosion as paper
from pfl_lib.papers.claims import QUICK, answer
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find
from pfl_lib.papers.weight_erosion import RIGHT, RUN, tables
from pfl_lib.papers.weight_erosion.figures import learned, no_parameters
from pfl_lib.results.result import Result
from pfl_lib.results.summary import Ours, status

Runs = Mapping[str, Mapping[int, Mapping[str, Result]]]  # split -> user -> scheme -> result
NEAR = 2.0  # points within which two accuracies are the same
MARKED = 0.1  # of a weight, averaged over the rounds: a difference to be seen in the figure


class Evidence(NamedTuple):
    """All that sentences are judged by: the single runs, the averages, the final parameters of
    AGE_STRICT's runs.
    """

    runs: Runs
    finals: Mapping[tuple, Ours]
    parameters: Mapping[tuple[int, str], pd.DataFrame]

    def last(self, split: str, user: int, scheme: str, measure: str = RUN) -> float:
        """A single run's accuracy after the last round, percent."""
        (metric,) = (metric for metric in paper.METRICS if metric.name == measure)
        return metric.read(self.runs[split][user][scheme], "last", "alice", "served")

    def mean_weights(self, split: str, user: int) -> np.ndarray:
        """Each agent's weight in Weight Erosion, averaged over the rounds, [4]."""
        return self.runs[split][user]["WE"].weights.mean(axis=0)

    def effect(self, user: int, scheme: str, name: str) -> float:
        """What an input does for class 1 in AGE_STRICT: its weight for class 1 minus that for class
        0.
        """
        row = self.parameters[user, scheme].loc[name]
        return float(row["class 1"] - row["class 0"])


Holds = bool | None | str
"""Whether a sentence holds, None where that is open; `NOT_ASKED` where it is not a question."""
NOT_ASKED = "the same"  # neither FedAvg nor accuracies are in the sentence
Judge = Callable[[Evidence], tuple[Holds, Holds, str]]
"""Evidence to (whether it holds as run, whether it holds done right, the numbers)."""


def outperforms(e: Evidence) -> tuple[Holds, Holds, str]:
    """Weight Erosion can outperform two baseline FL aggregation schemes"""
    users = [(split, user) for split in paper.SPLITS for user in paper.USERS]
    run = [
        place
        for place in users
        if all(e.last(*place, "WE") > e.last(*place, o) + NEAR for o in ("Local", "Global (code)"))
    ]
    right = [
        place
        for place in users
        if all(
            tables.clear(tables.difference(e.finals, *place, o, m))
            for o in ("Local", "FedAvg")
            for m in (RUN, RIGHT)
        )
    ]

    def words(places: list) -> str:
        return ", ".join(f"{split} user {user}" for split, user in places) or "for no user"

    return (
        bool(run),
        bool(right),
        f"clearly above both: as run {words(run)}; done right {words(right)}",
    )


def agent_0(e: Evidence) -> tuple[Holds, Holds, str]:
    """agent 0 stands out by the fact that the Weight Erosion model clearly out-performs the Local
    model
    """
    run = [
        e.last("AGE_STRICT", user, "WE") - e.last("AGE_STRICT", user, "Local")
        for user in paper.USERS
    ]
    right = [
        tables.difference(e.finals, "AGE_STRICT", user, "Local", RIGHT) for user in paper.USERS
    ]
    numbers = (
        "WE minus Local, users 0 to 3: as run "
        + _listed(run)
        + "; done right "
        + _listed([g.mean() for g in right])
    )
    alone = [tables.clear(gained) for gained in right] == [True, False, False, False]
    return run[0] > NEAR and max(run[1:]) <= NEAR, alone, numbers


def ninety_percent(e: Evidence) -> tuple[Holds, Holds, str]:
    """these models [agent 2] perform exceptionally well (> 90 %)"""
    run = [e.last("AGE_STRICT", 2, scheme) for scheme in ("Local", "WE")]
    right = [e.finals["AGE_STRICT", 2, scheme, RIGHT].mean for scheme in ("Local", "WE")]
    return (
        _above(min(run), 90),
        _above(min(right), 90),
        f"Local and WE: as run {_plain(run)}, done right {_plain(right)}",
    )


def same_in_both_splits(e: Evidence) -> tuple[Holds, Holds, str]:
    """the same test accuracy as with the AGE_STRICT split, save for the spectacular accuracy
    obtained for agent 2
    """

    def shift(user: int, measure: str, of: Callable) -> float:
        return of("AGE_SOME", user, "WE", measure) - of("AGE_STRICT", user, "WE", measure)

    run = [shift(user, RUN, e.last) for user in paper.USERS]
    right = [shift(user, RIGHT, lambda *place: e.finals[place].mean) for user in paper.USERS]
    as_said = lambda shifts: all(abs(shifts[u]) <= NEAR for u in (0, 1, 3)) and shifts[2] < -NEAR  # noqa: E731
    numbers = (
        "WE, AGE_SOME minus AGE_STRICT, users 0 to 3: as run "
        + _listed(run)
        + "; done right "
        + _listed(right)
    )
    return as_said(run), as_said(right), numbers


def agent_1_slowest(e: Evidence) -> tuple[Holds, Holds, str]:
    """agent 1's weight experiences the slowest decrease in all three graphs"""
    means = {user: e.mean_weights("AGE_STRICT", user) for user in (0, 2, 3)}
    others = {user: np.delete(w, [1, user]).max() for user, w in means.items()}
    numbers = "; ".join(f"user {u}: agent 1 {means[u][1]:.3f}, next {others[u]:.3f}" for u in means)
    return (
        all(means[u][1] > others[u] for u in means),
        NOT_ASKED,
        f"mean weight over the rounds, {numbers}",
    )


def marked_for_agent_2_only(e: Evidence) -> tuple[Holds, Holds, str]:
    """the difference between [agent 1's weight] and the other agent weights is only very marked
    when agent 2 is the user
    """
    leads = {}
    for user in (0, 2, 3):
        weights = e.mean_weights("AGE_STRICT", user)
        leads[user] = weights[1] - np.delete(weights, [1, user]).max()
    numbers = ", ".join(f"user {user} {lead:+.3f}" for user, lead in leads.items())
    return (
        leads[2] > MARKED > max(leads[0], leads[3]),
        NOT_ASKED,
        f"agent 1's lead in mean weight: {numbers}",
    )


def agents_0_and_1(e: Evidence) -> tuple[Holds, Holds, str]:
    """[AGE_SOME] agents 0 and 1 have the highest weight in each other's model, while their weights
    are similar to each other in the two other agents' models
    """
    means = [e.mean_weights("AGE_SOME", user) for user in paper.USERS]
    highest = np.delete(means[0], 0).argmax() == 0 and np.delete(means[1], 1).argmax() == 0
    apart = [abs(means[user][0] - means[user][1]) for user in (2, 3)]
    numbers = (
        f"mean weights of the others: user 0 {_listed(means[0][1:], '.2f')} (agents 1, 2, 3), user"
        f" 1 {_listed(np.delete(means[1], 1), '.2f')} (agents 0, 2, 3); agents 0 and 1 are"
        f" {apart[0]:.2f} apart for user 2, {apart[1]:.2f} for user 3"
    )
    return bool(highest) and max(apart) < MARKED, NOT_ASKED, numbers


def sex(e: Evidence) -> tuple[Holds, Holds, str]:
    """the weights for Sex are spectacularly large (with absolute values between 1.1 and 1.4)"""
    found = (
        e.parameters[2, "Local"].loc["Sex (1: female)"],
        e.parameters[2, "WE"].loc["Sex (1: female)"],
    )
    values = [abs(value) for row in found for value in row]
    return (
        all(1.1 <= round(v, 1) <= 1.4 for v in values),
        NOT_ASKED,
        f"absolute values {_listed(values, '.2f')}",
    )


def minor(e: Evidence) -> tuple[Holds, Holds, str]:
    """[Passenger is minor]: weights are nearly identical in both models [Local, Weight Erosion;
    agent 0]
    """
    one, other = (
        e.parameters[0, scheme].loc["Passenger is minor"].to_numpy() for scheme in ("Local", "WE")
    )
    return (
        np.abs(one - other).max() < 0.05,
        NOT_ASKED,
        f"Local {_listed(one, '+.2f')}, WE {_listed(other, '+.2f')}",
    )


def alone_and_death(e: Evidence) -> tuple[Holds, Holds, str]:
    """Travelling alone is strongly correlated with death in both models [agent 0]; the same feature
    is weakly correlated with survival in the FedAvg model, as well as in [those of agent 2]
    """
    name = "Travelling alone"
    user_0 = [e.effect(0, scheme, name) for scheme in ("Local", "WE")]
    user_2 = [e.effect(2, scheme, name) for scheme in ("Local", "WE")]
    run, right = e.effect(0, "Global (code)", name), e.effect(0, "FedAvg", name)
    numbers = (
        f"survival minus death: user 0 Local and WE {_listed(user_0, '+.2f')}, Global {run:+.2f},"
        f" FedAvg {right:+.2f}; user 2 Local and WE {_listed(user_2, '+.2f')}"
    )
    same = max(user_0) < 0 < min(user_2)
    return same and run > 0, same and right > 0, numbers


def not_between(e: Evidence) -> tuple[Holds, Holds, str]:
    """a model that is not merely a weighted average of the FedAvg and Local models: Sex, Age, or
    Queenstown differ more between FedAvg and Weight Erosion than between FedAvg and Local
    """
    answers, numbers = [], []
    for scheme in ("Global (code)", "FedAvg"):
        ours = {name: e.parameters[0, name].to_numpy().ravel() for name in ("Local", "WE")}
        theirs = e.parameters[0, scheme].to_numpy().ravel()
        path = theirs - ours["Local"]
        share = float(np.clip((ours["WE"] - ours["Local"]) @ path / (path @ path), 0, 1))
        off = float(
            np.linalg.norm(ours["WE"] - ours["Local"] - share * path) / np.linalg.norm(path)
        )
        further = [
            abs(e.effect(0, scheme, name) - e.effect(0, "WE", name))
            > abs(e.effect(0, scheme, name) - e.effect(0, "Local", name))
            for name in ("Sex (1: female)", "Age (standardized)", "Queenstown")
        ]
        answers.append(all(further))
        numbers.append(
            f"{scheme}: {sum(further)} of 3 (Sex, Age, Queenstown) are further from WE than from"
            f" Local; the nearest point between Local and it, {share:.0%} of the way, is {off:.2f}"
            " of that way off"
        )
    return answers[0], answers[1], "; ".join(numbers)


CLAIMS: tuple[tuple[str, Judge], ...] = (
    ("abstract", outperforms),
    ("section 5.1", agent_0),
    ("section 5.1", ninety_percent),
    ("section 5.1", agent_1_slowest),
    ("section 5.1", marked_for_agent_2_only),
    ("section 5.1", minor),
    ("section 5.1", alone_and_death),
    ("section 5.1", not_between),
    ("section 5.1", sex),
    ("section 5.2", agents_0_and_1),
    ("section 5.2", same_in_both_splits),
)
"""Where a sentence stands, and what judges it, whose docstring is the sentence."""
# Sentences about inputs that other data do not have
OF_THE_TITANIC = (sex, minor, alone_and_death, not_between)


def evidence(profile: Profile, find: Find) -> Evidence | str:
    """What `find` (`Store.find`) has; words for what keeps the sentences from being judged, if it
    has not all it takes.

    All runs of `weight_erosion.claim_runs` must be there with their models, and none may have
    diverged.
    """
    found = {spec: find(spec) for spec in paper.claim_runs(profile)}
    diverged = [
        f"{spec.slug} {status(run)}"
        for spec, run in found.items()
        if run and run.diverged is not None
    ]
    if diverged:
        return f"{len(diverged)} of {len(found)} runs diverged, the first of them: {diverged[0]}"
    missing = sum(run is None for run in found.values())
    if missing:
        return "not run" if missing == len(found) else f"{missing} of {len(found)} runs not run"
    runs = {split: paper.results(found.get, profile, split) for split in paper.SPLITS}
    strict = {
        (user, scheme): run
        for user, of_user in runs["AGE_STRICT"].items()
        for scheme, run in of_user.items()
    }
    lacking = [
        f"{scheme}, user {user}: {why}"
        for (user, scheme), run in strict.items()
        if (why := no_parameters(run))
    ]
    if lacking:
        return "; ".join(lacking)
    inputs = DATASETS[profile.dataset].inputs
    parameters = {place: learned(run, inputs) for place, run in strict.items()}
    return Evidence(runs, tables.finals(found.get, profile), parameters)


def answers(profile: Profile, find: Find) -> pd.DataFrame:
    """Columns claim, where, as run, done right, numbers; a row for each of `CLAIMS`.

    The quick profile answers nothing, since its data are not the paper's; its numbers are shown
    where there are any.
    """
    found = evidence(profile, find)
    quick = profile.name == "quick"
    rows = []
    for where, judge in CLAIMS:
        if isinstance(found, str):
            words, numbers = ["undecided", "undecided"], found
        elif quick and judge in OF_THE_TITANIC:
            words, numbers = [], "about the Titanic's inputs"
        else:
            *holds, numbers = judge(found)
            words = [hold if isinstance(hold, str) else answer([hold]) for hold in holds]
        as_run, right = [QUICK, QUICK] if quick else words
        rows.append(
            {
                "claim": " ".join(judge.__doc__.split()),
                "where": where,
                "as run": as_run,
                "done right": right,
            }
        )
        rows[-1]["numbers"] = numbers.replace(" -", " −")
    return profile.table(rows)


def _above(accuracy: float, level: float) -> bool | None:
    """Whether an accuracy is above a level; None where the margin is below the floor."""
    apart = accuracy - level
    return None if abs(apart) < ACCURACY.floor else apart > 0


def _listed(values, fmt: str = "+.1f") -> str:
    return ", ".join(f"{value:{fmt}}" for value in values).replace("-", "−")


def _plain(values) -> str:
    return " and ".join(f"{value:.1f}" for value in values)
