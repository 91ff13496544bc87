"""Printed tables beside ours: value by value (`beside`) and row by row (`orders`).

Facts stand in columns; what is shown is a pivot of these frames.
"""

import math
from collections.abc import Iterator

import pandas as pd

from pfl_lib.papers import judge
from pfl_lib.papers.judge import LEVELS, ORDERS, Seeds
from pfl_lib.papers.metrics import Metric
from pfl_lib.papers.runs import PLACE, Runs
from pfl_lib.papers.table import UNPRINTED, Row, Table
from pfl_lib.papers.values import Printed

NAN = float("nan")


def beside(runs: Runs) -> pd.DataFrame:
    """A row for each printed value, and for each place that is the reader's own.

    Columns of the place, metric, profile, own, printed, printed std, ours and ours std (mean and
    sample standard deviation over seeds, in the metric's unit), last (mean of the last round),
    seeds (how many finished), paper seeds, difference (ours - printed), allowed and compatible (how
    far apart they may be), status ("ran", "diverged", "not run", "left out" or "stands in"),
    diverged (the first round, of the runs that did), verdict (of `judge.LEVELS`; only in the
    paper profile, "" elsewhere and of what stands in), and run (the first's slug).
    """
    lines = []
    for table, row, metric, printed in _rows(runs):
        for name, value in printed.items():
            of = _values(runs, table, row, name, metric)
            ran = of[of["status"] == "ran"]
            lost = of["diverged"].dropna()
            status = _status(row, of)
            mean = ran["value"].mean() if lost.empty else NAN
            judged = table.profile == "paper" and not row.stands_in and value is not UNPRINTED
            known = judged and len(ran) > 0
            limits = judge.allowed(value, table.paper_seeds, len(ran), metric) if known else None
            word = ""
            if judged:
                by_seed = ran.set_index("seed")["value"]
                word = judge.level(value, table.paper_seeds, by_seed, metric)
                word = "diverged" if len(lost) else word
            own = row.own or next(c for c in table.columns if c.name == name).own
            lines.append(
                {
                    **dict(zip(PLACE, (*_place(table, row), name), strict=True)),
                    "metric": metric.name,
                    "profile": table.profile,
                    "own": own,
                    "printed": value.value,
                    "printed std": value.std,
                    "ours": mean,
                    "ours std": ran["value"].std() if lost.empty else NAN,
                    "last": ran["last"].mean() if lost.empty else NAN,
                    "seeds": len(ran),
                    "paper seeds": table.paper_seeds,
                    "difference": NAN if table.profile == "quick" else mean - value.value,
                    "allowed": limits[0] if limits else NAN,
                    "compatible": limits[1] if limits else NAN,
                    "status": status,
                    "diverged": lost.min() if len(lost) else pd.NA,
                    "verdict": word,
                    "run": ran["run"].iloc[0] if len(ran) else "",
                }
            )
    return pd.DataFrame(lines).astype({"diverged": "Int64"}) if lines else pd.DataFrame()


def pairs(runs: Runs) -> pd.DataFrame:
    """A row for each pair of methods that the paper's row separates, in order of the tables.

    Columns of the place but method, metric, profile, higher and lower (in the paper), printed and
    ours (differences; ours the mean over common seeds), seeds (common ones), margin and order (of
    `judge.ORDERS`; "not compared" where one of the two diverged or was not run, or the data are
    not the paper's).
    """
    lines = []
    for table, row, metric, printed in _rows(runs):
        row_of_paper = _printed_only(printed)
        seeds = {name: _seeds(_values(runs, table, row, name, metric)) for name in row_of_paper}
        comparable = table.profile != "quick" and not row.stands_in
        for higher, lower in judge.clear_pairs(row_of_paper, metric):
            one, other = seeds[higher], seeds[lower]
            apart = (one - other).dropna()
            word = "not compared"
            if comparable and len(apart):
                word = judge.order(one, other, metric)
            lines.append(
                {
                    **dict(zip(PLACE, _place(table, row), strict=False)),
                    "metric": metric.name,
                    "profile": table.profile,
                    "higher": higher,
                    "lower": lower,
                    "printed": row_of_paper[higher].value - row_of_paper[lower].value,
                    "ours": apart.mean() if len(apart) else NAN,
                    "seeds": len(apart),
                    "margin": judge.margin(apart, metric) if len(apart) else NAN,
                    "order": word,
                }
            )
    names = [*PLACE[:-1], "metric", "profile", "higher", "lower", "printed", "ours", "seeds"]
    return pd.DataFrame(lines, columns=[*names, "margin", "order"])


def orders(runs: Runs) -> pd.DataFrame:
    """What each row of a table says as a whole, of the methods that ran: a row each.

    Columns of the place but method, metric, profile, pairs (that the paper separates), stands,
    turned, open, not compared, tau (Kendall's, between the printed values and ours), best printed
    and best ours (methods), best agrees ("yes", "level", "no"), and in the paper profile wrong
    pairings and how many of them pass as reproduced.
    """
    counted = pairs(runs)
    lines = []
    for table, row, metric, printed in _rows(runs):
        row_of_paper = _printed_only(printed)
        if table.profile == "quick" or row.stands_in or len(row_of_paper) < 2:
            continue
        seeds = {name: _seeds(_values(runs, table, row, name, metric)) for name in row_of_paper}
        means = {name: values.mean() for name, values in seeds.items() if not values.empty}
        if not means:
            continue
        place = dict(zip(PLACE, _place(table, row), strict=False))
        of = counted[(counted[list(place)] == pd.Series(place)).all(axis=1)]
        words = of.loc[of["metric"] == metric.name, "order"].value_counts()
        both = pd.DataFrame({"printed": {n: row_of_paper[n].value for n in means}, "ours": means})
        best = both.idxmax() if metric.higher_is_better else both.idxmin()
        passing, wrong = 0, 0
        if table.profile == "paper":
            passing, wrong = judge.wrong_pairings(row_of_paper, table.paper_seeds, seeds, metric)
        lines.append(
            {
                **place,
                "metric": metric.name,
                "profile": table.profile,
                "pairs": int(words.sum()),
                **{word: int(words.get(word, 0)) for word in (*ORDERS, "not compared")},
                "tau": both["printed"].corr(both["ours"], method="kendall"),
                "best printed": best["printed"],
                "best ours": best["ours"],
                "best agrees": _agrees(best["printed"], best["ours"], seeds, metric),
                "wrong pairings": wrong,
                "of these pass": passing,
            }
        )
    return pd.DataFrame(lines)


def one_model(runs: Runs) -> frozenset[str]:
    """The columns whose method makes one model for all clients."""
    methods = ((run.column.name, run.spec.method) for run in runs.planned)
    return frozenset(name for name, method in methods if getattr(method, "one_model", False))


def as_printed(compared: pd.DataFrame, digits: int = 2) -> pd.DataFrame:
    """The frame of `beside` in the paper's layout: a column for each method, for each setting a
    line with the printed values, ours, the difference and the verdicts, as far as there are any.
    A column `mark`, where the frame has one, stands behind our values.
    """
    frame = compared.assign(
        printed=with_spread(compared["printed"], compared["printed std"], digits),
        ours=with_spread(compared["ours"], compared["ours std"], digits).where(
            compared["status"] == "ran", _became(compared)
        )
        + (compared["mark"] if "mark" in compared else ""),
        difference=compared["difference"].map(lambda x: "–" if x != x else f"{x:+.{digits}f}"),
    )
    shown = ["printed", "ours", "difference"]
    shown += ["verdict"] if compared["verdict"].any() else []
    index = ["dataset", "setting"] + (["metric"] if compared["metric"].nunique() > 1 else [])
    place = {"index": index, "columns": "method", "sort": False}
    tables = {name: frame.pivot(values=name, **_without_sort(place)) for name in shown}
    table = pd.concat(tables, names=["value"]).fillna("–")
    table = table.reorder_levels([*index, "value"])
    rows = frame[index].drop_duplicates().itertuples(index=False, name=None)
    table = table.loc[[(*row, name) for row in rows for name in shown]]
    return table[list(dict.fromkeys(compared["method"]))]


def with_spread(means: pd.Series, spreads: pd.Series, digits: int = 2) -> pd.Series:
    """Numbers as "98.50 ± 0.12", without a spread where there is none, "–" without a number."""
    words = [
        "–" if math.isnan(m) else f"{m:.{digits}f}" + ("" if s != s else f" ± {s:.{digits}f}")
        for m, s in zip(means, spreads, strict=True)
    ]
    return pd.Series(words, means.index)


def counts(compared: pd.DataFrame) -> pd.Series:
    """How many printed values have each verdict of `judge.LEVELS`."""
    words = compared.loc[~compared["own"], "verdict"].value_counts()
    return words.reindex(LEVELS, fill_value=0)


def _without_sort(place: dict) -> dict:
    return {name: value for name, value in place.items() if name != "sort"}


def _became(compared: pd.DataFrame) -> pd.Series:
    rounds = compared["diverged"].astype(object)
    words = [
        f"diverged at round {round}" if status == "diverged" else status
        for status, round in zip(compared["status"], rounds, strict=True)
    ]
    return pd.Series(words, compared.index)


def _agrees(printed: str, ours: str, seeds: dict[str, Seeds], metric: Metric) -> str:
    if printed == ours:
        return "yes"
    sign = 1 if metric.higher_is_better else -1
    return (
        "no"
        if judge.order(sign * seeds[ours], sign * seeds[printed], metric) == "stands"
        else "level"
    )


def _rows(runs: Runs) -> Iterator[tuple[Table, Row, Metric, dict[str, Printed]]]:
    """Each row of each table and metric with its printed values by method, `UNPRINTED` for those
    that the paper does not print; columns that it leaves empty in this row are left out.
    """
    for table in runs.tables:
        known = table.printed()
        for row in table.rows:
            for metric in table.metrics:
                values = {
                    column.name: known.get(
                        (row.dataset, row.setting, column.name, metric.name), UNPRINTED
                    )
                    for column in table.columns
                }
                if known and not row.own:
                    unprinted = {c.name for c in table.columns if not c.printed}
                    values = {
                        name: UNPRINTED if name in unprinted else value
                        for name, value in values.items()
                        if name in unprinted or not math.isnan(value.value)
                    }
                else:
                    values = dict.fromkeys(values, UNPRINTED)
                yield table, row, metric, values


def _values(runs: Runs, table: Table, row: Row, method: str, metric: Metric) -> pd.DataFrame:
    """The lines of `Runs.values` of one place; none where nothing is run there."""
    place = (*_place(table, row), method, metric.name)
    return runs.values_by_place.get(place, runs.values.iloc[:0])


def _seeds(of: pd.DataFrame) -> Seeds:
    """A place's values by seed; none where one of its runs diverged."""
    ran = of[of["status"] == "ran"].set_index("seed")["value"]
    return ran.iloc[:0] if of["diverged"].notna().any() else ran


def _printed_only(values: dict[str, Printed]) -> dict[str, Printed]:
    return {name: value for name, value in values.items() if value is not UNPRINTED}


def _place(table: Table, row: Row) -> tuple[str, str, str, str]:
    return table.paper, table.name, row.dataset, row.setting


def _status(row: Row, of: pd.DataFrame) -> str:
    if row.at is None or of.empty:
        return "left out"
    if of["diverged"].notna().any():
        return "diverged"
    return next((word for word in ("ran", "not measured") if word in set(of["status"])), "not run")
