"""A paper's printed table beside ours, from its description and what is stored.

`compare` makes the rows, one a printed value; the others are pivots of these rows.
"""

import math
from collections.abc import Sequence

import pandas as pd

from pfl_lib.display import latex
from pfl_lib.display.table_format import NONE, Strong, keep, of_runs, run_on, written
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.papers.exhibits import Exhibit
from pfl_lib.papers.metrics import Metric
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import UNPRINTED, Table, gathered
from pfl_lib.papers.verdicts import MEANINGS, Printed, Verdict, judge, ranking, wrong_pairings
from pfl_lib.results.store import Store
from pfl_lib.results.summary import NOTHING, Ours

OF_ROUND = {
    "best": "best of {rounds} rounds",
    "last": "after {rounds} rounds",
    "best on validation": "best of {rounds} rounds on validation data",
}
OVER = {
    "alice": " on Alice's test set",
    "clients": ", mean over the clients' test sets",
    "worst": ", worst client",
    "p10": ", client at the worst tenth",
}
SHORT = {"best": "best round", "last": "last round", "best on validation": "best on validation"}


def compare(table: Table, profile: Profile, store: Store) -> pd.DataFrame:
    """One row for each printed value: what the paper prints, what `store` has, the verdict.

    Columns: profile, dataset and setting (the paper's), run on (our data set, empty where this
    package has no runs), method, metric, paper and paper std, ours and ours std (mean and sample
    standard deviation over seeds, by the table's protocol), last round (mean), seeds (how many
    finished), run (the first's slug, where there is a mean), difference (ours - paper; none for the
    quick profile, whose data are not the paper's), protocol, status ("ran", "not run", "diverged at
    round 7"), verdict, and, the same for a whole row of the table, ranking (in words), clear pairs,
    pairs compared, pairs in order, wrong pairings that pass and wrong pairings.  Behind a row's
    printed values stand the columns that the paper does not print, such as the user's own methods,
    without a verdict.  Numbers in the metric's unit, NaN where there is none; the banner says what
    was run.
    """
    frame = table.frame(profile, store.find)
    by_row = ["dataset", "setting", "metric", "protocol"]
    ours = {key: gathered(lines) for key, lines in frame.groupby(by_row, sort=False)}
    finished = frame[frame["status"] == "ran"].groupby([*by_row, "method"], sort=False)
    first_runs = finished["run"].first().to_dict()
    explained = {
        place
        for place, page in table.explained_by.items()
        if _explains(page, place, profile, store)
    }
    described = {(row.dataset, row.setting): row for row in table.rows}
    rows: dict[tuple, dict[str, Printed]] = {}
    for (dataset, setting, method, metric), printed in table.printed().items():
        if not math.isnan(printed.value):
            rows.setdefault((dataset, setting, metric), {})[method] = printed
    lines = []
    metrics = {metric.name: metric for metric in table.metrics}
    for (dataset, setting, name), row in rows.items():
        found = ours[dataset, setting, name, table.protocol]
        last = ours[dataset, setting, name, "last"]
        of_paper = {method: found[method] for method in row}
        common = _of_row(row, of_paper, profile, metrics[name])
        of_row = described[dataset, setting]
        if of_row.stands_in and common["ranking"] != "not run":
            common |= {"ranking": "–"} | dict.fromkeys(list(common)[1:], 0)
        run = profile.make(of_row.at) if of_row.at else None
        for method, printed in (row | dict.fromkeys(table.unprinted_columns, UNPRINTED)).items():
            of, place = found[method], (dataset, setting, method)
            page = table.explained_by[place] if place in explained else ""
            verdict = NONE
            if method in row:
                verdict = judge(
                    profile.name, method, row, found, profile.paper_seeds, metrics[name], page
                )
                if of_row.stands_in and of.ran:
                    verdict = Verdict("no verdict", of_row.stands_in)
            lines.append(
                {
                    "profile": profile.name,
                    "dataset": dataset,
                    "run on": run.dataset if run else "",
                    "setting": setting,
                    "method": method,
                    "metric": name,
                    "paper": printed.value,
                    "paper std": printed.std,
                    "ours": of.mean,
                    "ours std": of.std,
                    "last round": last[method].mean,
                    "seeds": len(of.seeds),
                    "run": first_runs[dataset, setting, name, table.protocol, method]
                    if of.comparable
                    else "",
                    "difference": math.nan if profile.name == "quick" else of.mean - printed.value,
                    "protocol": _protocol(table, run),
                    "status": of.status,
                    "verdict": str(verdict),
                    **common,
                }
            )
    return profile.table(lines)


def of_the_paper(compared: pd.DataFrame) -> pd.DataFrame:
    """The rows of `compare` that have a printed value: without what only we show."""
    return keep(compared, compared[compared["paper"].notna()])


def at_full_size(
    page: Exhibit, shown: Profile, store: Store, seeds: int | None = None
) -> tuple[pd.DataFrame, tuple[RunSpec, ...]]:
    """What was run of a page's printed tables at the paper's own size, for a page of the small
    profile, whose numbers cannot be held against levels: the rows of `compare` that have a run, and
    these runs.  Nothing on pages of other profiles.
    """
    if shown.name != "small":
        return pd.DataFrame(), ()
    full = page.profile("paper", seeds)
    rows = pd.concat([of_the_paper(compare(table, full, store)) for table in page.tables])
    runs = dict.fromkeys(run for table in page.tables for run in table.runs(full))
    ran = rows[~rows["status"].isin(NOTHING)]
    return ran, tuple(run for run in runs if store.find(run) is not None)


def _of_row(
    row: dict[str, Printed], ours: dict[str, Ours], profile: Profile, metric: Metric
) -> dict[str, object]:
    order = ranking(row, ours, metric=metric)
    passing, pairings = wrong_pairings(row, ours, profile.paper_seeds, metric)
    ran = any(found.ran for found in ours.values())
    return {
        "ranking": "not run" if not ran else "–" if profile.name == "quick" else str(order),
        "clear pairs": order.pairs,
        "pairs compared": order.pairs - len(order.unknown),
        "pairs in order": len(order.stand),
        "wrong pairings that pass": passing if profile.name == "paper" else 0,
        "wrong pairings": pairings if profile.name == "paper" else 0,
    }


def _protocol(table: Table, run) -> str:
    words = SHORT[table.protocol]
    if run is not None:
        words = OF_ROUND[table.protocol].format(rounds=run.schedule.rounds)
    trained = ", after its own epochs" if table.model == "trained" else ""
    return f"{words}{OVER[table.over]}{trained}"


def _explains(page: str, place: tuple[str, str, str], profile: Profile, store: Store) -> bool:
    """Whether a page exists, all the runs behind it do, and its numbers reach the printed value."""
    from pfl_lib.papers import EXHIBITS

    if page not in EXHIBITS:
        return False
    exhibit, (_, setting, method) = EXHIBITS[page], place
    its = exhibit.profile(profile.name)
    runs = exhibit.runs(its)
    if not runs or not all(store.find(run) is not None for run in runs):
        return False
    return exhibit.explains is None or exhibit.explains(setting, method, its, store.find)


def in_words(compared: pd.DataFrame) -> pd.DataFrame:
    """The rows of `compare` as they are read: numbers as text, ours linking to their runs, words
    where there is no number.
    """
    signed = compared["difference"].map(lambda number: written(number, sign=True))
    words = [_ours(row.ours, row.status) for row in compared.itertuples()]
    ours = pd.Series(of_runs(words, compared["run"]), compared.index, dtype=object)
    columns = {name: compared[name] for name in ("dataset", "run on", "setting", "method")}
    if compared["metric"].nunique() > 1:
        columns["metric"] = compared["metric"]
    return keep(
        compared,
        columns
        | {
            "paper": compared["paper"].map(written),
            "paper std": compared["paper std"].map(written),
            "ours": ours,
            "ours std": compared["ours std"].map(written),
            "last round": compared["last round"].map(written),
            "seeds": compared["seeds"].astype(str),
            "difference": signed,
            "protocol": compared["protocol"],
            "verdict": compared["verdict"],
        },
    )


def as_printed(compared: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The rows of `compare` in the paper's layout: a column for each method; for each row of the
    table the paper's value, ours, ours in the last round, the difference, and the verdict in one
    word, beside it how many of the clear pairs that were compared stand in the paper's order.  The
    best of each line of values is `Strong`.
    """
    lines = []
    better = {metric.name: metric.higher_is_better for metric in table.metrics}
    quick = compared["profile"].eq("quick").all()
    for (dataset, setting, metric), rows in compared.groupby(
        ["dataset", "setting", "metric"], sort=False
    ):
        paper = [latex.spread(row["paper"], row["paper std"]) for _, row in rows.iterrows()]
        ours = [_ours(row["ours"], row["status"], row["ours std"]) for _, row in rows.iterrows()]
        runs = rows["run"]
        high = better[metric]
        kinds = {
            "paper": _best(rows["paper"], paper, high),
            f"ours, {SHORT[table.protocol]}": of_runs(_best(rows["ours"], ours, high), runs),
        }
        if table.protocol != "last":
            last = rows["last round"]
            kinds["ours, last round"] = of_runs(_best(last, last.map(written), high), runs)
        if not quick:
            kinds["difference"] = [written(number, sign=True) for number in rows["difference"]]
            kinds["verdict"] = [verdict.partition(":")[0] for verdict in rows["verdict"]]
        place = f"{dataset}, {setting}" if compared["dataset"].nunique() > 1 else setting
        place += f", {metric}" if len(better) > 1 else ""
        first = rows.iloc[0]
        place += run_on(dataset, first["run on"])
        order = f"{first['pairs in order']} of {first['pairs compared']}"
        if first["pairs compared"] < first["clear pairs"]:
            order += f" compared ({first['clear pairs']} clear)"
        for kind, words in kinds.items():
            of_methods = dict(zip(rows["method"], words, strict=True))
            lines.append({"setting": place, "value": kind, **of_methods})
            if not quick:
                shown = kind == "verdict" and first["ranking"] != "not run"
                lines[-1]["pairs in order"] = order if shown else ""
    shown = pd.DataFrame(lines, dtype=object)
    # Last, also where the first setting lacks a method that a later one has.
    last = [name for name in ("pairs in order",) if name in shown]
    return keep(compared, shown[[*shown.columns.drop(last), *last]].fillna(NONE))


def row_by_row(compared: pd.DataFrame) -> pd.DataFrame:
    """What the rows of a table say as a whole, and what its tolerance can tell apart: columns
    dataset, setting, ranking ("9 of 12 clear pairs in the paper's order, turned here: ...") and, in
    the paper profile, wrong pairings that pass ("24 of 30"), with a line for the whole table in the
    end.
    """
    there = compared[compared["ranking"] != "not run"]
    rows = there.groupby(["dataset", "setting", "metric"], sort=False).first().reset_index()
    columns = ["dataset", "setting", *(["metric"] if rows["metric"].nunique() > 1 else [])]
    shown = rows[[*columns, "ranking"]].astype(object)
    if rows["wrong pairings"].any():
        pairs = "{} of {}".format
        passing = list(map(pairs, rows["wrong pairings that pass"], rows["wrong pairings"]))
        shown["wrong pairings that pass"] = passing
        sums = rows[["pairs in order", "clear pairs"]].sum()
        words = pairs(*sums) + " clear pairs in the paper's order"
        total = dict.fromkeys(columns, "") | {"dataset": "all", "ranking": words}
        passed = rows[["wrong pairings that pass", "wrong pairings"]].sum()
        shown.loc[len(shown)] = total | {"wrong pairings that pass": pairs(*passed)}
    return keep(compared, shown)


def legend(compared: pd.DataFrame) -> pd.DataFrame:
    """What the verdicts in the rows of `compare` mean, a row for each word that stands there."""
    there = [word for word in MEANINGS if compared["verdict"].str.match(rf"{word}\b").any()]
    return pd.DataFrame({"verdict": there, "means": [MEANINGS[word] for word in there]})


def to_latex(compared: pd.DataFrame) -> str:
    """The rows of `compare` as a LaTeX table (package booktabs): a row for each setting, for each
    method the paper's value and ours beside each other.
    """
    methods = list(dict.fromkeys(compared["method"]))
    head = " & ".join(rf"\multicolumn{{2}}{{c}}{{{latex.escape(method)}}}" for method in methods)
    rules = " ".join(rf"\cmidrule(lr){{{2 * k + 2}-{2 * k + 3}}}" for k in range(len(methods)))
    lines = [
        rf"\begin{{tabular}}{{l{'rr' * len(methods)}}}",
        r"\toprule",
        rf" & {head} \\",
        rules,
        " & paper & ours" * len(methods) + r" \\",
        r"\midrule",
    ]
    several = compared["metric"].nunique() > 1
    for (dataset, setting, metric), rows in compared.groupby(
        ["dataset", "setting", "metric"], sort=False
    ):
        of = rows.set_index("method")
        words = [latex.escape(", ".join([dataset, setting, *[metric] * several]))]
        for method in methods:
            if method in of.index:
                row = of.loc[method]
                paper = latex.spread(row["paper"], row["paper std"])
                words += [paper, _ours(row["ours"], row["status"], row["ours std"])]
            else:
                words += [NONE, NONE]
        lines.append(" & ".join(map(latex.number, words)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _ours(mean: float, status: str, std: float = math.nan) -> str:
    return latex.spread(mean, std) if status == "ran" else status


def _best(numbers: pd.Series, words: Sequence[str], high: bool = True) -> list[str]:
    rounded = numbers.round(2)
    best = rounded.max() if high else rounded.min()
    return [
        Strong(word) if number == best else word
        for number, word in zip(rounded, words, strict=True)
    ]
