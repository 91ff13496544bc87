"""All printed values by verdict, and all sentences by answer: what came out of four papers so far.

The index of pages, the scorecard's notebook, `pfl-lib compare` and the README's table are made from
`scorecard`.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import pandas as pd

from pfl_lib.papers import EXHIBITS, comparison, values, verdicts
from pfl_lib.papers.exhibits import Exhibit, most_stored
from pfl_lib.papers.fedfomo import TABLE1 as FEDFOMO_1
from pfl_lib.papers.fedfomo import TABLE2 as FEDFOMO_2
from pfl_lib.papers.fedfomo import TABLE5 as FEDFOMO_5
from pfl_lib.papers.fedfomo import claims as of_fedfomo
from pfl_lib.papers.pfedla import claims as of_pfedla
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.waffle import cifar10_claims as of_cifar10
from pfl_lib.papers.waffle import claims as of_waffle
from pfl_lib.papers.waffle import inputs as of_waffle_inputs
from pfl_lib.papers.weight_erosion import AVERAGES, FIGURES, tables
from pfl_lib.papers.weight_erosion import claims as of_weight_erosion
from pfl_lib.results.store import Store
from pfl_lib.results.summary import LEFT_OUT, NOT_RUN

PAPERS = {
    "waffle": "WAFFLE",
    "weight_erosion": "Weight Erosion",
    "fedfomo": "FedFomo",
    "pfedla": "pFedLA",
}
"""The papers by their names in `paper_values.csv`, as pages call them."""
ABSENT = (NOT_RUN, LEFT_OUT)  # without a result, whether or not a profile has it
RESULTS = tuple(word for word in verdicts.MEANINGS if word != LEFT_OUT)
USED, REPLACED = "used as printed", "replaced"
SETTINGS = (USED, REPLACED)
ANSWERS = ("yes", "no", "undecided", "not run")
PLACE = ["paper", "table", "dataset", "setting", "method", "metric"]


@dataclass(frozen=True)
class Scorecard:
    """`values`: one row a printed value: paper, table, dataset, setting, method, metric, kind
    ("result" or "setting"), value, std, ours, seeds, profile, verdict (one word of `RESULTS` or
    `SETTINGS`), because, page (the id of the page that shows it, empty where there is none) and run
    (the slug of the first run behind ours, empty where there is no mean).

    `claims`: one row a sentence: paper, claim, where, answer (of `ANSWERS`), in full, profile and
    page.  Weight Erosion's are answered as the authors ran it; `done right` is the other answer,
    empty for the other papers.
    """

    values: pd.DataFrame
    claims: pd.DataFrame

    def counts(self) -> pd.DataFrame:
        """Columns paper, printed values, then how many have each verdict, and `all` in the end."""
        return _counted(self.values, "verdict", (*RESULTS, *SETTINGS), "printed values")

    def answers(self) -> pd.DataFrame:
        """Columns paper, sentences, then how many have each answer, and `all` in the end."""
        return _counted(self.claims, "answer", ANSWERS, "sentences")

    def sentence(self) -> str:
        """What came out, in a sentence."""
        results = self.values[self.values["kind"] == "result"]
        of = results["verdict"].value_counts()
        ran = len(results) - of.get("not run", 0)
        told = ", ".join(
            f"{of[word]} {word}" for word in RESULTS if word != "not run" and word in of
        )
        words = f"Four papers print {len(results)} results, of which {ran} were run"
        words += f": {told}." if told else "."
        reduced = int((results["profile"] == "small").sum())
        if reduced:
            words += (
                f" {reduced} of the {ran} were run in the small profile alone, with fewer rounds,"
                " images or seeds than the papers have."
            )
        full = results[(results["profile"] == "paper") & (results["seeds"] > 0)]
        for (paper, table, dataset), of_table in results.groupby(
            ["paper", "table", "dataset"], sort=False
        ):
            exact = full.loc[full.index.intersection(of_table.index)]
            if len(exact) == len(of_table):
                seeds = " to ".join(map(str, dict.fromkeys((exact.seeds.min(), exact.seeds.max()))))
                hit = int((exact["verdict"] == "reproduced").sum())
                words += (
                    f" Table {table.removeprefix('table')} of {paper} on {dataset} was run whole in"
                    f" the exact setting: {hit} of {len(exact)} values reproduced, on {seeds}"
                    " seeds."
                )
        few = (
            full["because"]
            .str.extract(r"\((?:pairs on )?(\d+) of \d+ seeds\)")[0]
            .dropna()
            .astype(int)
        )
        if len(few):
            words += (
                f" Of the {len(full)} in the exact setting {len(few)} are judged on fewer seeds"
                f" than the papers average, {int((few == 1).sum())} on a single one."
            )
        used = int((self.values["verdict"] == USED).sum())
        settings = int((self.values["kind"] == "setting").sum())
        return f"{words} {settings} further values are settings: {used} are used as printed."

    def claims_sentence(self) -> str:
        """What became of the sentences, in a sentence."""
        of = self.claims["answer"].value_counts()
        told = ", ".join(f"{of[word]} {word}" for word in ANSWERS if word in of)
        turned = (self.claims["answer"] == "yes") & (self.claims["done right"] == "no")
        words = f"Of {len(self.claims)} sentences about these results the answer is: {told}."
        small = self.claims.loc[self.claims["profile"] == "small", "answer"].value_counts()
        of_small = [f"{small[word]} of the {word}" for word in ("yes", "no") if word in small]
        if of_small:
            words += f" Of these, {' and '.join(of_small)} rest on the small profile."
        if turned.any():
            (paper,) = self.claims.loc[turned, "paper"].unique()
            whose = self.claims["paper"] == paper
            words += (
                f" {turned.sum()} of the {(whose & (self.claims['answer'] == 'yes')).sum()} yes of"
                f" {paper} hold only as its authors computed them: with a true average and the"
                " share of right predictions they do not."
            )
        return words


def scorecard(store: Store) -> Scorecard:
    """Every printed value and sentence with what `store` has: of each value the paper profile's
    verdict, where that was not run the small profile's.
    """
    once = SimpleNamespace(find=functools.cache(store.find))  # many pages share a run
    judged = {tuple(row[name] for name in PLACE): row for row in _judged(once)}
    used = of_waffle_inputs.used()
    lines = []
    for row in values.load().to_dict("records"):
        place = tuple(row[name] for name in PLACE)
        line = {name: row[name] for name in (*PLACE, "kind", "value", "std")}
        if row["kind"] == "setting":
            lines.append(line | _setting(place[1:], row["value"], used[place[1:]]))
        else:
            lines.append(line | judged.get(place, _NOT_RUN))
    shown = [name for name in lines[0] if name not in PLACE]
    frame = pd.DataFrame(lines)[[*PLACE, *shown]]
    frame["paper"] = frame["paper"].map(PAPERS)
    return Scorecard(frame, _claims(once))


_NOT_RUN = {
    "ours": math.nan,
    "seeds": 0,
    "profile": "",
    "verdict": "not run",
    "because": "",
    "page": "",
    "run": "",
}


def _setting(place: tuple, printed: float, used: float) -> dict[str, object]:
    same = math.isclose(printed, used, rel_tol=1e-9, abs_tol=1e-12)
    return _NOT_RUN | {
        "ours": used,
        "profile": "paper",
        "verdict": USED if same else REPLACED,
        "because": "" if same else f"{used:g} in its place",
        "page": of_waffle_inputs.page(place, same),
    }


def _judged(store: Store) -> Iterable[dict[str, object]]:
    """A row for each value that a page sets beside ours."""
    for id, exhibit in EXHIBITS.items():
        for table in exhibit.tables:
            compared = [
                comparison.compare(table, exhibit.profile(name), store)
                for name in ("paper", "small")
            ]
            for rows in zip(*(frame.to_dict("records") for frame in compared), strict=True):
                words = [verdicts.word(row["verdict"]) for row in rows]
                ran = (pair for pair in zip(rows, words, strict=True) if pair[1] not in ABSENT)
                row, word = next(ran, (rows[0], "not run"))
                yield {
                    "paper": table.paper,
                    "table": table.name,
                    **{name: row[name] for name in PLACE[2:]},
                    "ours": row["ours"],
                    "seeds": row["seeds"],
                    "profile": "" if word == "not run" else row["profile"],
                    "verdict": word,
                    "because": row["verdict"].removeprefix(word).lstrip(": ")
                    if word not in ABSENT
                    else "",
                    "page": id,
                    "run": row["run"],
                }


def _claims(store: Store) -> pd.DataFrame:
    frames, find = [], store.find
    for id, answered in SENTENCES.items():
        exhibit: Exhibit = EXHIBITS[id]
        profile = most_stored(exhibit, find) or exhibit.profile("paper")
        frame = answered(profile, store)
        stored = any(find(run) is not None for run in exhibit.runs(profile))
        words = frame["in full"].str.extract(rf"^({'|'.join(ANSWERS)})\b")[0]
        frame = frame.assign(
            paper=exhibit.paper,
            answer=words.fillna("not run") if stored else "not run",
            profile=profile.name if stored else "",
            page=id,
        )
        frames.append(frame)
    columns = ["paper", "claim", "where", "answer", "in full", "done right", "profile", "page"]
    return pd.concat(frames, ignore_index=True)[columns]


def _waffle(profile: Profile, store: Store) -> pd.DataFrame:
    return _told(of_waffle.accuracy_claims(profile, store))


def _cifar10(profile: Profile, store: Store) -> pd.DataFrame:
    return _told(of_cifar10.answers(profile, store.find))


def _weight_erosion(profile: Profile, store: Store) -> pd.DataFrame:
    frame = tables.long(profile, store.find, FIGURES, AVERAGES)
    answers = of_weight_erosion.answers(frame, profile, store.find)
    return _told(answers, "as run").assign(**{"done right": answers["done right"]})


def _fedfomo(profile: Profile, store: Store) -> pd.DataFrame:
    told = of_fedfomo.about_tables([FEDFOMO_1, FEDFOMO_2, FEDFOMO_5], profile, store.find)
    told["where"] = "Table " + told["table"] + ", " + told["dataset"]
    return _told(pd.concat([told, of_fedfomo.ablations(profile, store.find)], ignore_index=True))


def _pfedla(profile: Profile, store: Store) -> pd.DataFrame:
    return _told(of_pfedla.all_claims(profile, store.find))


def _told(answers: pd.DataFrame, column: str = "here") -> pd.DataFrame:
    frame = answers[["claim", "where", column]].rename(columns={column: "in full"})
    return frame.assign(**{"done right": ""}).reset_index(drop=True)


SENTENCES: Mapping[str, Callable[[Profile, Store], pd.DataFrame]] = {
    "waffle-claims": _waffle,
    "waffle-cifar10": _cifar10,
    "weight-erosion-claims": _weight_erosion,
    "fedfomo-claims": _fedfomo,
    "pfedla-claims": _pfedla,
}
"""The pages that answer a paper's sentences, and how."""


def _counted(frame: pd.DataFrame, column: str, words: Iterable[str], what: str) -> pd.DataFrame:
    rows = []
    for paper in [*PAPERS.values(), None]:
        of = frame if paper is None else frame[frame["paper"] == paper]
        found = of[column].value_counts()
        if len(of):
            row = {"paper": paper or "all", what: len(of)}
            rows.append(row | {word: int(found.get(word, 0)) for word in words})
    return pd.DataFrame(rows)
