"""The papers' sentences with their answers: those that compare methods by what is stored
(`papers.sentences`), the others as their pages answered them from the published runs
(`answers.csv`, which `make scorecard` collects from the executed notebooks).
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from pfl_lib.papers import sentences
from pfl_lib.papers.overview import Shown
from pfl_lib.papers.sentences import ANSWERS, COUNTS
from pfl_lib.papers.table import Find
from pfl_lib.papers.values import PAPERS

COLUMNS = ["paper", "quote", "where", "answer", "evidence", "profile", "page"]


def answered(shown: Iterable[Shown], find: Find) -> pd.DataFrame:
    """A row for each sentence, with `COLUMNS`: its paper, quote and place, the answer (of
    `ANSWERS`), the numbers behind it, the profile they are from ("" where nothing was run) and the
    page that shows it.
    """
    compared = pd.concat(_compared(one, find) for one in shown)
    frame = pd.concat([compared, of_pages()])
    order = frame["paper"].map(list(PAPERS.values()).index)
    return frame.iloc[order.argsort(kind="stable")].reset_index(drop=True)


def of_pages() -> pd.DataFrame:
    """The sentences that a page answers in its own cells, as collected."""
    file = Path(__file__).with_name("answers.csv")
    return pd.read_csv(file, keep_default_na=False)[COLUMNS]


def counts(found: pd.DataFrame) -> pd.DataFrame:
    """Columns paper, sentences, then how many of `answered` have each answer; `all` in the end."""
    table = pd.crosstab(found["paper"], found["answer"], margins=True, margins_name="all")
    table = table.reindex([*PAPERS.values(), "all"], columns=["all", *ANSWERS], fill_value=0)
    return table.rename(columns={"all": "sentences"}).rename_axis(columns=None).reset_index()


def _compared(shown: Shown, find: Find) -> pd.DataFrame:
    """A table's sentences, each in the exact setting where that has run, else in smaller runs."""
    frame = pd.concat(sentences.answers(runs, shown.page) for runs in shown.runs(find))
    if frame.empty:
        return pd.DataFrame(columns=COLUMNS)
    frame["missing"] = frame["answer"] == "not run"
    first = frame.sort_values("missing", kind="stable").drop_duplicates(["quote", "where"])
    said = first[[*COUNTS]].rename(columns={"holds": "hold"})
    evidence = said.apply(lambda of: "; ".join(f"{n} {word}" for word, n in of.items()), axis=1)
    evidence += ("; against: " + first["against"]).where(first["against"] != "", "")
    first = first.assign(paper=first["paper"].map(PAPERS), evidence=evidence)
    first.loc[first["missing"], ["evidence", "profile"]] = ""
    return first[COLUMNS]
