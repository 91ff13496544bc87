"""The papers' sentences by answer, from the pages that answer them all; `papers.overview` has the
printed values.  FedFomo's are answered on the pages of its tables and figures alone.
"""

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pandas as pd

from pfl_lib.papers import EXHIBITS
from pfl_lib.papers.exhibits import Exhibit, most_stored
from pfl_lib.papers.overview import PAPERS
from pfl_lib.papers.pfedla import claims as of_pfedla
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.sentences import ANSWERS
from pfl_lib.papers.waffle import cifar10_claims as of_cifar10
from pfl_lib.papers.waffle import claims as of_waffle
from pfl_lib.papers.weight_erosion import AVERAGES, FIGURES, tables
from pfl_lib.papers.weight_erosion import claims as of_weight_erosion
from pfl_lib.results.store import Store


def sentences(store: Store) -> pd.DataFrame:
    """One row a sentence: paper, claim, where, answer (of `ANSWERS`), in full, profile and page.

    Weight Erosion's are answered as the authors ran it; `done right` is the other answer, empty for
    the other papers.
    """
    return _claims(SimpleNamespace(find=functools.cache(store.find)))  # many pages share a run


def counts(found: pd.DataFrame) -> pd.DataFrame:
    """Columns paper, sentences, then how many of `sentences` have each answer; `all` in the end."""
    table = pd.crosstab(found["paper"], found["answer"], margins=True, margins_name="all")
    table = table.reindex(columns=[*ANSWERS, "all"], fill_value=0).rename(
        columns={"all": "sentences"}
    )
    table = table.loc[[name for name in (*PAPERS.values(), "all") if name in table.index]]
    return table[["sentences", *ANSWERS]].rename_axis(columns=None).reset_index()


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


def _pfedla(profile: Profile, store: Store) -> pd.DataFrame:
    return _told(of_pfedla.all_claims(profile, store.find))


def _told(answers: pd.DataFrame, column: str = "here") -> pd.DataFrame:
    frame = answers[["claim", "where", column]].rename(columns={column: "in full"})
    return frame.assign(**{"done right": ""}).reset_index(drop=True)


SENTENCES: Mapping[str, Callable[[Profile, Store], pd.DataFrame]] = {
    "waffle-claims": _waffle,
    "waffle-cifar10": _cifar10,
    "weight-erosion-claims": _weight_erosion,
    "pfedla-claims": _pfedla,
}
"""The pages that answer a paper's sentences, and how."""
