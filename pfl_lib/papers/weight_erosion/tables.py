"""The tables of Weight Erosion's pages: who is there, how accurate the models are in the end, what
the penalties do.

Accuracies are in percent, under two names: *as the paper measures* is its mean over test batches,
*predicted rightly* the share of the user's test examples (see `measures.batch_accuracy`).  A run
that is not there, or that diverged, is a word, never a number.
"""

import itertools
from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import pandas as pd

from pfl_lib import partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display.tables import alone_from, by_round, vanishing
from pfl_lib.papers import weight_erosion as paper
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, gathered
from pfl_lib.papers.weight_erosion import RIGHT, RUN
from pfl_lib.results.result import Result
from pfl_lib.results.summary import Ours, differences, few_seeds, status

SHORT = {RUN: "as measured", RIGHT: "right"}
# Points; a gain is clear when it is larger, and larger than two standard deviations over the seeds
CLEAR = 2.0

# Read off the authors' Figure 1 (top), final round, in percent; Global with agent 2 as user jumps
# between 20 and 30.
READ_OFF = {
    ("AGE_STRICT", 0): {"Local": 72.0, "WE": 78.5, "Global (code)": 67.0},
    ("AGE_STRICT", 1): {"Local": 78.0, "WE": 78.0, "Global (code)": 61.0},
    ("AGE_STRICT", 2): {"Local": 92.5, "WE": 92.0, "Global (code)": 30.0},
    ("AGE_STRICT", 3): {"Local": 73.0, "WE": 73.0, "Global (code)": 55.0},
}


def agents(dataset: Dataset, profile: Profile, split: str) -> pd.DataFrame:
    """Who holds what in a split, and what is left for training and testing when the agent is the
    user.

    Columns agent, examples, class 1 (percent), as user: trains on, tested on, test batches ("161 +
    1").
    """
    setting = paper.made(profile, split)
    batch = setting.schedule.batch_size
    rows = []
    for user in paper.USERS:
        held = partitions.make(setting.partition, dataset, alice=user)
        test, train = held.test[user], held.train[user]
        labels = dataset.train_y[np.concatenate([test, train])]
        batches = [min(batch, len(test) - start) for start in range(0, len(test), batch)]
        rows.append(
            {
                "agent": user,
                "examples": len(labels),
                "class 1 (%)": 100 * labels.double().mean().item(),
                "as user: trains on": len(train),
                "tested on": len(test),
                "test batches": " + ".join(map(str, batches)),
            }
        )
    frame = pd.DataFrame(rows)
    frame.attrs["banner"] = f"{split}: {partitions.PARTITIONS[setting.partition].title}"
    return frame


def _tested(dataset: Dataset, profile: Profile, split: str, user: int):
    """The labels of a user's test examples."""
    held = partitions.make(paper.made(profile, split).partition, dataset, alice=user)
    return dataset.test_y[held.test[user]]


def prevalence(dataset: Dataset, profile: Profile, split: str) -> dict[int, float]:
    """The share of class 1 among each user's test examples, 0 to 1: what always saying 1 would
    reach.
    """
    return {
        user: _tested(dataset, profile, split, user).double().mean().item() for user in paper.USERS
    }


def test_sizes(dataset: Dataset, profile: Profile) -> dict[tuple[str, int], int]:
    """(split, user) -> the number of the user's test examples."""
    return {
        place: len(_tested(dataset, profile, *place))
        for place in itertools.product(paper.SPLITS, paper.USERS)
    }


def in_the_end(
    results: Mapping[int, Mapping[str, Result]], split: str, profile: Profile
) -> pd.DataFrame:
    """The single runs' accuracies after the last round, a row for each user and scheme, beside the
    authors' figure.

    `results`: user -> scheme -> result, what was not run left out.  Columns user, scheme, read off
    Figure 1 (none for the quick profile), as the paper measures, predicted rightly, before round 1
    (as the paper measures), weight of the others (their mean after the last round, percent).
    """
    rows = []
    for user, scheme in itertools.product(results, paper.SCHEMES):
        printed = READ_OFF.get((split, user), {}) if profile.name != "quick" else {}
        result = results[user].get(scheme)
        became = status(result)
        before = others = np.nan
        if result is not None and result.metrics["round"].eq(0).any():
            before = 100 * result.metrics["batch_accuracy"].iloc[0]
        if became == "ran" and scheme == "WE":
            others = 100 * np.delete(result.weights[-1], user).mean()
        ends = {
            metric.name: metric.read(result, "last", "alice", "served")
            if became == "ran"
            else became
            for metric in paper.METRICS
        }
        rows.append(
            {
                "user": user,
                "scheme": scheme,
                "read off Figure 1": printed.get(scheme, np.nan),
                **ends,
                "before round 1": before,
                "weight of the others (%)": others,
            }
        )
    return profile.table(rows)


def weights_by_round(results: Mapping[int, Mapping[str, Result]]) -> pd.DataFrame:
    """Weight Erosion's weight of each agent by round, a column for each user and other agent; as
    `tables.some_rounds` takes it.
    """
    columns, diverged = {}, {}
    for user, of_user in results.items():
        run = of_user.get("WE")
        for agent in paper.USERS if run else ():
            if agent != user:
                name = f"user {user}, agent {agent}"
                of_agent = np.empty(0) if run.weights is None else run.weights[:, agent]
                columns[name] = pd.Series(of_agent, index=range(1, len(of_agent) + 1))
                diverged |= {} if run.diverged is None else {name: run.diverged}
    return by_round(columns, diverged)


def authors_weights(split: str) -> dict[int, np.ndarray]:
    """The weights that the authors' own program printed, user -> [30, 4] by round and agent; they
    exist for AGE_STRICT alone.
    """
    file = files("pfl_lib.papers.weight_erosion") / f"alpha_traces_{split}.csv"
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8") as lines:
        printed = pd.read_csv(lines).sort_values(["user", "round"])
    by_user = {}
    for user, rows in printed.groupby("user"):
        # The file has the user first, then the others in ascending order.
        order = [user, *(agent for agent in paper.USERS if agent != user)]
        by_user[int(user)] = rows.filter(like="w_slot").to_numpy()[:, np.argsort(order)]
    return by_user


def against_authors(
    results: Mapping[int, Mapping[str, Result]], authors: Mapping[int, np.ndarray]
) -> pd.DataFrame:
    """Our weights beside the authors' printed ones: mean over rounds, the round from which a weight
    stays 0, and the largest difference in a round.
    """
    rows = []
    for user, theirs in authors.items():
        run = results.get(user, {}).get("WE")
        if run is None or run.weights is None or run.weights.shape != theirs.shape:
            continue
        for agent in paper.USERS:
            if agent != user:
                ours, printed = run.weights[:, agent], theirs[:, agent]
                gone = [vanishing(weights)[agent] for weights in (run.weights, theirs)]
                words = ["never" if np.isnan(r) else f"round {r:.0f}" for r in gone]
                rows.append(
                    {
                        "user": user,
                        "agent": agent,
                        "mean weight": ours.mean(),
                        "authors' mean": printed.mean(),
                        "0 from": words[0],
                        "authors' 0 from": words[1],
                        "largest difference": abs(ours - printed).max(),
                    }
                )
    return pd.DataFrame(rows)


def finals(find: Find, profile: Profile) -> dict[tuple, Ours]:
    """(split, user, scheme, measure) -> the seeds' accuracies after the last round, percent.

    `find`: a run to its result or None, as `Store.find` does.
    """
    frame = paper.AVERAGES.frame(profile, find)
    found = gathered(frame, ["dataset", "setting", "method", "metric"])
    return {
        (split, int(user.removeprefix("user ")), scheme, measure): ours
        for (split, user, scheme, measure), ours in found.items()
    }


def averages(finals: Mapping[tuple, Ours], profile: Profile) -> pd.DataFrame:
    """Accuracy over the seeds' initial models, "78.5 ± 0.7" (sample standard deviation), a row for
    each split and user.
    """
    rows = []
    for measure, split, user in itertools.product(SHORT, paper.SPLITS, paper.USERS):
        row: dict[str, object] = {"measure": measure, "split": split, "user": user}
        for scheme in paper.AVERAGED:
            ours = finals[split, user, scheme, measure]
            seeds = few_seeds(ours.runs, len(profile.seeds))
            row[scheme] = (
                spread(np.array(ours.values), seeds=seeds) if ours.comparable else ours.status
            )
        rows.append(row)
    return profile.table(rows)


def gains(
    finals: Mapping[tuple, Ours], sizes: Mapping[tuple, int] | None, profile: Profile
) -> pd.DataFrame:
    """What Weight Erosion gains over a true FedAvg and over Local: points, seed by seed, and
    whether that is clear.

    *Clear* is more than `CLEAR` points and more than two standard deviations over the seeds,
    however accuracy is measured; "open" where a run is missing or diverged.  `sizes`: (split, user)
    -> number of test examples, from which the gain over FedAvg is also counted in examples; None
    leaves that out.
    """
    rows = []
    for split, user in itertools.product(paper.SPLITS, paper.USERS):
        row: dict[str, object] = {"split": split, "user": user}
        for other in ("FedAvg", "Local"):
            of_measure = {name: difference(finals, split, user, other, name) for name in SHORT}
            for name, found in of_measure.items():
                row[f"over {other}, {SHORT[name]}"] = _gained(
                    finals, split, user, other, name, found, profile
                )
            is_clear = "yes" if all(clear(found) for found in of_measure.values()) else "no"
            row[f"clear over {other}"] = is_clear if all(map(len, of_measure.values())) else "open"
        if sizes is not None:
            gained = difference(finals, split, user, "FedAvg", RIGHT)
            row["test examples"] = sizes[split, user]
            row["over FedAvg, in examples"] = (
                spread(gained * sizes[split, user] / 100, sign=True)
                if len(gained)
                else row["over FedAvg, right"]
            )
        rows.append(row)
    return profile.table(rows)


def difference(
    finals: Mapping[tuple, Ours], split: str, user: int, other: str, measure: str
) -> np.ndarray:
    """Weight Erosion's accuracy minus another scheme's in points, for each seed that has both; none
    if a run of either diverged.
    """
    erosion, others = (finals[split, user, scheme, measure] for scheme in ("WE", other))
    if not (erosion.comparable and others.comparable):
        return np.empty(0)
    return np.array(differences(erosion, others))


def _gained(
    finals, split: str, user: int, other: str, measure: str, found: np.ndarray, profile: Profile
) -> str:
    if len(found):
        return spread(found, sign=True, seeds=few_seeds(len(found), len(profile.seeds)))
    statuses = {scheme: finals[split, user, scheme, measure].status for scheme in ("WE", other)}
    return (
        "; ".join(f"{scheme} {word}" for scheme, word in statuses.items() if word != "ran")
        or "no seed in common"
    )


def clear(gained: np.ndarray) -> bool:
    """Whether a gain is larger than `CLEAR` points and than two standard deviations over the
    seeds.
    """
    return bool(
        len(gained) and gained.mean() > max(CLEAR, 2 * gained.std(ddof=1) if len(gained) > 1 else 0)
    )


def grid(find: Find, profile: Profile) -> pd.DataFrame:
    """Weight Erosion on AGE_STRICT for each user of Figure 2 and each pair of penalties.

    Columns user, p_d, p_s, accuracy (percent predicted rightly in the end), others (the mean weight
    of the other agents over all rounds), alone (the round from which they all weigh 0, nan if
    never) and status; nan in all three unless the status is "ran".  Without a distance penalty p_s
    has no part, so those rows are one run.
    """
    rows = []
    for user, (p_d, p_s) in itertools.product(paper.FIGURE_2_USERS, paper.PENALTIES):
        at = f"user {user}", paper.of_penalties(p_d, p_s), profile, profile.seeds[0]
        result = find(paper.GRID.spec(*at))
        accuracy = mean = alone = np.nan
        if status(result) == "ran":
            others = np.delete(result.weights, user, axis=1)
            gone = alone_from(result.weights, user)
            accuracy, mean = 100 * result.last_accuracy, others.mean()
            alone = np.nan if gone is None else gone
        row = {"user": user, "p_d": p_d, "p_s": p_s, "accuracy": accuracy, "others": mean}
        rows.append(row | {"alone": alone, "status": status(result)})
    return profile.table(rows)


def grid_in_words(grid: pd.DataFrame) -> pd.DataFrame:
    """The rows of `grid` as they are read: accuracy or status, "0.512" for the others' weight,
    "round 12" or "never".
    """
    ran = grid["status"] == "ran"
    alone = grid["alone"].map(lambda r: "never" if np.isnan(r) else f"round {r:.0f}")
    frame = grid[["user"]].assign(
        p_d=grid["p_d"].map("{:g}".format),
        p_s=grid["p_s"].map("{:g}".format),
        accuracy=grid["accuracy"].map("{:.1f}".format).where(ran, grid["status"]),
        others=grid["others"].map("{:.3f}".format).where(ran, "–"),
        alone=alone.where(ran, "–"),
    )
    frame.attrs.update(grid.attrs)
    names = {
        "accuracy": "accuracy (%)",
        "others": "mean weight of the others",
        "alone": "alone from",
    }
    return frame.rename(columns=names)


def ends_of_grid(find: Find, profile: Profile) -> pd.DataFrame:
    """What the grid lies between: columns user, scheme (FedAvg or Local), accuracy (%) after the
    last round, or its status.
    """
    ends = paper.single(["AGE_STRICT"], paper.FIGURE_2_USERS, ["FedAvg", "Local"])
    frame = ends.frame(profile.with_seeds(1), find)
    frame = frame[frame["metric"] == RIGHT]
    accuracy = frame["value"].astype(object).where(frame["status"] == "ran", frame["status"])
    user = frame["setting"].str.removeprefix("user ").astype(int)
    return profile.table({"user": user, "scheme": frame["method"], "accuracy (%)": accuracy})


def spread(values: np.ndarray, sign: bool = False, seeds: str = "") -> str:
    """ "78.5 ± 0.7": mean and sample standard deviation of one value or more, and behind it `seeds`
    in brackets.
    """
    mean = f"{values.mean():{'+' if sign else ''}.1f}"
    words = (mean if len(values) == 1 else f"{mean} ± {values.std(ddof=1):.1f}").replace("-", "−")
    return f"{words} ({seeds})" if seeds else words
