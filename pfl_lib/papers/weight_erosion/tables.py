"""The tables of Weight Erosion's pages: pivots of one long frame, and who holds which rows.

Accuracies are in percent, under two names: *as the paper measures* is its mean over test batches,
*predicted rightly* the share of Alice's test examples (see `measures.batch_accuracy`).  A run that
is not there, or that diverged, is a word, never a number.
"""

from collections.abc import Mapping
from importlib.resources import files
from itertools import product

import numpy as np
import pandas as pd
from torch import Tensor

from pfl_lib import partitions
from pfl_lib.data.source import Dataset
from pfl_lib.display.table_format import keep, of_runs, written
from pfl_lib.display.tables import by_round, vanishing
from pfl_lib.papers import weight_erosion as paper
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import NOT_MEASURED, Find, Table, gathered
from pfl_lib.papers.weight_erosion import BEFORE, OTHERS, RIGHT, RUN
from pfl_lib.results.result import Result
from pfl_lib.results.summary import Ours, differences, few_seeds

SHORT = {RUN: "as measured", RIGHT: "right"}
ACCURACY_PERCENT = "accuracy (%)"
# Points; a gain is clear when it is larger, and larger than two standard deviations over the seeds
CLEAR = 2.0

# Read off the authors' Figure 1 (top), final round, in percent; Global for client 2 jumps between
# 20 and 30.
READ_OFF = {
    ("AGE_STRICT", 0): {"Local": 72.0, "WE": 78.5, "Global (code)": 67.0},
    ("AGE_STRICT", 1): {"Local": 78.0, "WE": 78.0, "Global (code)": 61.0},
    ("AGE_STRICT", 2): {"Local": 92.5, "WE": 92.0, "Global (code)": 30.0},
    ("AGE_STRICT", 3): {"Local": 73.0, "WE": 73.0, "Global (code)": 55.0},
}

# --- the long frame and its pivots ---


def long(profile: Profile, find: Find, *tables: Table) -> pd.DataFrame:
    """All numbers of a page, one row for each run and measure: columns of `Table.frame`, data set,
    setting and metric under the names split, client (Alice's number) and measure, and table.
    """
    parts = [
        table.frame(paper.of_table(table, profile), find).assign(table=table.name)
        for table in tables
    ]
    names = {"dataset": "split", "setting": "client", "metric": "measure"}
    frame = profile.table(pd.concat(parts, ignore_index=True).rename(columns=names))
    return frame.assign(client=frame["client"].str.removeprefix("client ").astype(int))


def _of(frame: pd.DataFrame, table: Table, measure: str, *index: str) -> pd.DataFrame:
    lines = frame[(frame["table"] == table.name) & (frame["measure"] == measure)]
    return lines.set_index(list(index)) if index else lines.reset_index(drop=True)


def _worded(lines: pd.DataFrame) -> pd.Series:
    """Numbers, and the status in place of a number that a run does not have."""
    numbered = lines["status"].isin(["ran", NOT_MEASURED])
    return lines["value"].astype(object).where(numbered, lines["status"])


def in_the_end(frame: pd.DataFrame, split: str, profile: Profile) -> pd.DataFrame:
    """The single runs' accuracies after the last round, a row for each client and method, beside
    the authors' figure.

    Columns client, method, read off Figure 1 (none for the quick profile), as the paper measures,
    predicted rightly, before round 1 (as the paper measures), weight of the others (Weight
    Erosion's mean after the last round, percent) and run (its slug).
    """
    of_split = frame[frame["split"] == split]
    of = {
        measure: _of(of_split, paper.FIGURES, measure, "client", "method")
        for measure in (RUN, RIGHT, BEFORE, OTHERS)
    }
    places = of[RUN].index
    read_off = {} if profile.name == "quick" else READ_OFF
    # Runs of one client start from one model, those that diverged too
    before = of[BEFORE]["value"].groupby("client").transform("first")
    columns = {
        "read off Figure 1": [read_off.get((split, c), {}).get(name, np.nan) for c, name in places],
        RUN: _worded(of[RUN]),
        RIGHT: _worded(of[RIGHT]),
        BEFORE: before.where(of[BEFORE]["status"] != "not run"),
        OTHERS: of[OTHERS]["value"].where(places.get_level_values("method") == "WE"),
        "run": of[RUN]["run"],
    }
    return profile.table(pd.DataFrame(columns, index=places).reset_index())


def in_words(table: pd.DataFrame, digits: int = 1) -> pd.DataFrame:
    """The rows of `in_the_end` or `ends_of_grid` as they are read: numbers link to their run."""
    shown = {name: table[name].astype(object) for name in table if name != "run"}
    for name in (RUN, RIGHT, OTHERS, ACCURACY_PERCENT):
        if name in shown:
            numbers = shown[name].map(lambda value: isinstance(value, float))
            words = [
                written(value, digits=digits) if is_number else value
                for value, is_number in zip(shown[name], numbers, strict=True)
            ]
            runs = table["run"].where(numbers & table[name].notna(), "")
            shown[name] = pd.Series(of_runs(words, runs), table.index, dtype=object)
    return keep(table, shown)


# --- averages over initial models, and gains ---


def finals(frame: pd.DataFrame) -> dict[tuple, Ours]:
    """(split, client, method, measure) -> the seeds' accuracies after the last round, percent."""
    lines = frame[frame["table"] == paper.AVERAGES.name]
    return gathered(lines, ["split", "client", "method", "measure"])


def averages(finals: Mapping[tuple, Ours], profile: Profile) -> pd.DataFrame:
    """Accuracy over the seeds' initial models, "78.5 ± 0.7" (sample standard deviation), a row for
    each split and client; each links to its runs.
    """
    rows = []
    for measure, split, client in product(SHORT, paper.SPLITS, paper.CLIENTS):
        row: dict[str, object] = {"measure": measure, "split": split, "client": client}
        for method in paper.AVERAGED:
            ours = finals[split, client, method, measure]
            row[method] = ours.status
            if ours.comparable:
                (row[method],) = of_runs([spread(ours.values, profile)], [ours.run])
        rows.append(row)
    return profile.table(pd.DataFrame(rows, dtype=object))  # plain words do not link


def gains(
    finals: Mapping[tuple, Ours], sizes: Mapping[tuple, int] | None, profile: Profile
) -> pd.DataFrame:
    """What Weight Erosion gains over a true FedAvg and over Local: points, seed by seed, and
    whether that is clear.

    *Clear* is more than `CLEAR` points and more than two standard deviations over the seeds,
    however accuracy is measured; "open" where a run is missing or diverged.  `sizes`: (split,
    client) -> number of test examples, from which the gain over FedAvg is also counted in examples;
    None leaves that out.
    """
    rows = []
    for place in product(paper.SPLITS, paper.CLIENTS):
        row: dict[str, object] = dict(zip(("split", "client"), place, strict=True))
        for other in ("FedAvg", "Local"):
            found = [gain(finals, *place, other, measure) for measure in SHORT]
            for (measure, short), points in zip(SHORT.items(), found, strict=True):
                pair = {m: finals[*place, m, measure].status for m in ("WE", other)}
                lost = "; ".join(f"{m} {word}" for m, word in pair.items() if word != "ran")
                row[f"over {other}, {short}"] = (
                    spread(points, profile, sign=True)
                    if len(points)
                    else lost or "no seed in common"
                )
            is_clear = "yes" if all(map(clear, found)) else "no"
            row[f"clear over {other}"] = is_clear if all(map(len, found)) else "open"
        if sizes is not None:
            examples = gain(finals, *place, "FedAvg", RIGHT) * sizes[place] / 100
            row["test examples"] = sizes[place]
            row["over FedAvg, in examples"] = (
                spread(examples, sign=True) if len(examples) else row["over FedAvg, right"]
            )
        rows.append(row)
    return profile.table(rows)


def gain(
    finals: Mapping[tuple, Ours], split: str, client: int, other: str, measure: str
) -> np.ndarray:
    """Weight Erosion's accuracy minus another method's in points, for each seed that has both; none
    if a run of either diverged.
    """
    pair = [finals[split, client, method, measure] for method in ("WE", other)]
    return np.array(differences(*pair) if all(ours.comparable for ours in pair) else [])


def clear(points: np.ndarray) -> bool:
    """Whether a gain is larger than `CLEAR` points and than two standard deviations over the
    seeds.
    """
    deviation = points.std(ddof=1) if len(points) > 1 else 0
    return bool(len(points)) and bool(points.mean() > max(CLEAR, 2 * deviation))


def spread(values, profile: Profile | None = None, sign: bool = False) -> str:
    """ "78.5 ± 0.7": mean and sample standard deviation of one value or more; behind it "(1 of 5
    seeds)" where that is fewer than the profile's seeds.
    """
    values = np.array(values)
    words = f"{values.mean():{'+' if sign else ''}.1f}"
    words += f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    seeds = few_seeds(len(values), len(profile.seeds)) if profile else ""
    return words.replace("-", "−") + (f" ({seeds})" if seeds else "")


# --- weights ---


def weights_by_round(results: Mapping[int, Mapping[str, Result]]) -> pd.DataFrame:
    """Weight Erosion's weight of each client by round, a column for each Alice and other client; as
    `tables.some_rounds` takes it.
    """
    columns, diverged = {}, {}
    runs = {alice: of_alice["WE"] for alice, of_alice in results.items() if "WE" in of_alice}
    for (alice, run), client in product(runs.items(), paper.CLIENTS):
        if client != alice:
            name = f"Alice {alice}, client {client}"
            weights = np.empty(0) if run.weights is None else run.weights[:, client]
            columns[name] = pd.Series(weights, index=range(1, len(weights) + 1))
            diverged |= {} if run.diverged is None else {name: run.diverged}
    return by_round(columns, diverged)


def authors_weights(split: str) -> dict[int, np.ndarray]:
    """The weights that the authors' own program printed, Alice -> [30, 4] by round and client; they
    exist for AGE_STRICT alone.
    """
    file = files("pfl_lib.papers.weight_erosion") / f"alpha_traces_{split}.csv"
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8") as lines:
        printed = pd.read_csv(lines).sort_values(["user", "round"])
    by_alice = {}
    for alice, rows in printed.groupby("user"):
        # The file has Alice first, then the others in ascending order.
        order = [alice, *(client for client in paper.CLIENTS if client != alice)]
        by_alice[int(alice)] = rows.filter(like="w_slot").to_numpy()[:, np.argsort(order)]
    return by_alice


def against_authors(
    results: Mapping[int, Mapping[str, Result]], authors: Mapping[int, np.ndarray]
) -> pd.DataFrame:
    """Our weights beside the authors' printed ones: mean over rounds, the round from which a weight
    stays 0, and the largest difference in a round.
    """
    rows = []
    for (alice, printed), client in product(authors.items(), paper.CLIENTS):
        run = results.get(alice, {}).get("WE")
        comparable = run and run.weights is not None and run.weights.shape == printed.shape
        if comparable and client != alice:
            ours, theirs = run.weights[:, client], printed[:, client]
            row = {"Alice": alice, "client": client}
            row |= {"mean weight": ours.mean(), "authors' mean": theirs.mean()}
            row["0 from"] = _from(vanishing(run.weights)[client])
            row["authors' 0 from"] = _from(vanishing(printed)[client])
            rows.append(row | {"largest difference": abs(ours - theirs).max()})
    return pd.DataFrame(rows)


def _from(round: float) -> str:
    return "never" if np.isnan(round) else f"round {round:.0f}"


# --- who holds which rows ---


def _labels(dataset: Dataset, profile: Profile, split: str, alice: int) -> tuple[Tensor, Tensor]:
    """The labels of Alice's test and training examples."""
    held = partitions.make(paper.made(profile, split).partition, dataset, alice=alice)
    return dataset.test_y[held.test[alice]], dataset.train_y[held.train[alice]]


def clients(dataset: Dataset, profile: Profile, split: str) -> pd.DataFrame:
    """Who holds what in a split, and what is left for training and testing when the client is
    Alice.

    Columns client, examples, class 1 (percent), as Alice: trains on, tested on, test batches ("161
    + 1").
    """
    setting = paper.made(profile, split)
    batch = setting.schedule.batch_size
    rows = []
    for client in paper.CLIENTS:
        test, train = _labels(dataset, profile, split, client)
        batches = [min(batch, len(test) - start) for start in range(0, len(test), batch)]
        rows.append(
            {
                "client": client,
                "examples": len(test) + len(train),
                "class 1 (%)": 100 * np.concatenate([test, train]).mean(),
                "as Alice: trains on": len(train),
                "tested on": len(test),
                "test batches": " + ".join(map(str, batches)),
            }
        )
    frame = pd.DataFrame(rows)
    frame.attrs["banner"] = f"{split}: {partitions.PARTITIONS[setting.partition].title}"
    return frame


def prevalence(dataset: Dataset, profile: Profile, split: str) -> dict[int, float]:
    """The share of class 1 among each client's test examples, 0 to 1: what always saying 1 would
    reach.
    """
    tested = {client: _labels(dataset, profile, split, client)[0] for client in paper.CLIENTS}
    return {client: labels.double().mean().item() for client, labels in tested.items()}


def test_sizes(dataset: Dataset, profile: Profile) -> dict[tuple[str, int], int]:
    """(split, client) -> the number of the client's test examples."""
    places = product(paper.SPLITS, paper.CLIENTS)
    return {place: len(_labels(dataset, profile, *place)[0]) for place in places}
