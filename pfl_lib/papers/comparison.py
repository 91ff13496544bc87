"""The paper's printed values beside ours."""

import math
from collections.abc import Sequence
from itertools import groupby

import pandas as pd

from pfl_lib.display.table_format import Strong, keep, written
from pfl_lib.papers.verdicts import MEANINGS, judge, ranking
from pfl_lib.results.store import Store
from pfl_lib.results.summary import Ours, gather


def compare_with_paper(exhibit, profile, store: "Store") -> pd.DataFrame:
    """One row for each printed result of an exhibit (`papers.Exhibit`): what the paper prints, what
    `store` has, the verdict.

    Columns: profile, dataset and distribution (the paper's), run on (our data set, empty where this
    package has no runs), method, paper and paper std, ours and ours std (mean and sample standard
    deviation over seeds of the best round, the papers' protocol), last round (mean), seeds (how
    many finished), difference (ours - paper; none for the quick profile, whose data are not the
    paper's), protocol, status ("ran", "not run", "diverged at round 7") and verdict.  Numbers in
    percent, NaN where there is none; `attrs["banner"]` says what was run.
    """
    rows = []
    for _, of_row in groupby(exhibit.entries(profile), key=lambda entry: entry.row):
        of_row = list(of_row)
        ours = {
            entry.method: gather((spec.seed, store.find(spec)) for spec in entry.runs)
            for entry in of_row
        }
        order = ranking({entry.method: entry.printed for entry in of_row}, ours)
        for entry in of_row:
            found = ours[entry.method]
            verdict = judge(
                profile.name, entry.printed, found, order, entry.reason, profile.paper_seeds
            )
            rows.append(_line(entry, profile, ours[entry.method], str(verdict)))
    frame = pd.DataFrame(rows)
    frame.attrs["banner"] = profile.banner
    return frame


def _line(entry, profile, ours: Ours, verdict: str) -> dict[str, object]:
    comparable = profile.name != "quick"
    return {
        "profile": profile.name,
        "dataset": entry.dataset,
        "run on": profile.dataset if entry.runs else "",
        "distribution": entry.setting,
        "method": entry.method,
        "paper": entry.printed.value,
        "paper std": entry.printed.std,
        "ours": ours.mean,
        "ours std": ours.std,
        "last round": ours.last_mean,
        "seeds": len(ours.seeds),
        "difference": ours.mean - entry.printed.value if comparable else math.nan,
        "protocol": f"best of {profile.rounds} rounds on Alice's test set",
        "status": ours.status,
        "verdict": verdict,
    }


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `beside` as they are read: numbers as text, words where there is no number."""
    signed = table["difference"].map(lambda number: written(number, sign=True))
    ours = [_ours(row.ours, row.status) for row in table.itertuples()]
    return keep(
        table,
        {
            "dataset": table["dataset"],
            "run on": table["run on"],
            "distribution": table["distribution"],
            "method": table["method"],
            "paper": table["paper"].map(written),
            "paper std": table["paper std"].map(written),
            "ours": ours,
            "ours std": table["ours std"].map(written),
            "last round": table["last round"].map(written),
            "seeds": table["seeds"].astype(str),
            "difference": signed,
            "protocol": table["protocol"],
            "verdict": table["verdict"],
        },
    )


def as_printed(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `beside` in the paper's layout: a column for each method; for each distribution
    the paper's value, ours (best round), ours in the last round, the difference, and the verdict in
    one word.  The highest of each line of values is `Strong`.
    """
    lines = []
    several = table["dataset"].nunique() > 1
    for (dataset, distribution), rows in table.groupby(["dataset", "distribution"], sort=False):
        kinds = {
            "paper": _best(
                rows["paper"],
                [_spread(row["paper"], row["paper std"]) for _, row in rows.iterrows()],
            ),
            "ours, best round": _best(
                rows["ours"],
                [_ours(row["ours"], row["status"], row["ours std"]) for _, row in rows.iterrows()],
            ),
            "ours, last round": _best(rows["last round"], rows["last round"].map(written)),
        }
        if not rows["profile"].eq("quick").all():
            kinds["difference"] = [written(number, sign=True) for number in rows["difference"]]
            kinds["verdict"] = [verdict.partition(":")[0] for verdict in rows["verdict"]]
        for kind, words in kinds.items():
            place = f"{dataset}, {distribution}" if several else distribution
            lines.append(
                {
                    "distribution": place,
                    "value": kind,
                    **dict(zip(rows["method"], words, strict=True)),
                }
            )
    return keep(table, pd.DataFrame(lines, dtype=object))


def legend(table: pd.DataFrame) -> pd.DataFrame:
    """What the verdicts in the rows of `beside` mean, a row for each word that stands there."""
    there = [word for word in MEANINGS if table["verdict"].str.match(rf"{word}\b").any()]
    return pd.DataFrame({"verdict": there, "means": [MEANINGS[word] for word in there]})


def _spread(value: float, std: float) -> str:
    return written(value) if math.isnan(std) else f"{written(value)} ± {written(std)}"


def _ours(mean: float, status: str, std: float = math.nan) -> str:
    return _spread(mean, std) if status == "ran" else status


def _best(numbers: pd.Series, words: Sequence[str]) -> list[str]:
    highest = numbers.round(2).max()
    return [
        Strong(word) if round(number, 2) == highest else word
        for number, word in zip(numbers, words, strict=True)
    ]
