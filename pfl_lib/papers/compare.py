"""Printed tables beside ours: value by value (`beside`) and row by row (`pairs`, `orders`).

Facts stand in columns; what is shown is a pivot of these frames.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

import pandas as pd

from pfl_lib.papers import judge
from pfl_lib.papers.judge import ORDERS, Seeds
from pfl_lib.papers.metrics import Metric
from pfl_lib.papers.runs import PLACE, VALUE, Runs
from pfl_lib.papers.table import UNPRINTED, Table
from pfl_lib.papers.values import PAPERS, Printed

NAN = float("nan")
EMPTY = ("–", "not run", "left out")
# What `NAMED` has as a reader says it: regular expressions, applied in this order
IN_WORDS = {r"\blatent_D(\d+)": r"\1 latent distributions", r"\bnon_iid_(\d)": r"non-IID.\1"}
IN_WORDS |= {r"\bdp_sigma(\d)": r"DP, sigma \1", r"(_D5)?_(\d+)_clients": ", \\2\u00a0clients"}
IN_WORDS |= {r"\bout_of_distribution": "out of distribution", r"\bvalidation_(?=\d)": "validation "}
IN_WORDS |= {r"\baccuracy_percent\b": "accuracy, %", r"\bcommunication_MB\b": "communication, MB"}
IN_WORDS |= {r"\bdOmega\b": "ΔΩ", r"\b(label\d)_share\b": r"\1 share"}
IN_WORDS |= {f"^{name}$": title for name, title in PAPERS.items()} | {r"^table(?=\d$)": "Table "}
NAMED = {"paper", "table", "setting", "settings", "row", "metric"}  # columns and levels
BECAME = ("diverged", "ran", "not measured", "not run")  # of a place, by what one of its runs did


def beside(runs: Runs) -> pd.DataFrame:
    """A row for each printed value, and for each place that is the reader's own; a row that the
    reader changed has what is printed for the row it changes, without difference and verdict.

    Columns of the place, metric, profile, own, printed, printed std, ours and ours std (mean and
    sample standard deviation over seeds, in the metric's unit), last (mean of the last round),
    seeds (how many finished), paper seeds, difference (ours - printed), allowed and compatible (how
    far apart they may be), status ("ran", "diverged", "not measured", "not run" or "left out"),
    diverged (the first round, of the runs that did), verdict (of `judge.LEVELS`; only in the paper
    profile, "" elsewhere and of what stands in), and run (the first's slug).
    """
    frame, values = _places(runs), runs.values
    if frame.empty:
        return frame
    planned, ran = (of.groupby(VALUE) for of in (values, values[values["status"] == "ran"]))
    ours = {"ours": ("value", "mean"), "ours std": ("value", "std"), "last": ("last", "mean")}
    read = ran.agg(**ours, seeds=("seed", "size"), run=("run", "first"))
    became = {"status": ("status", lambda of: min(of, key=BECAME.index))}
    read = planned.agg(diverged=("diverged", "min"), **became).join(read)
    frame = frame.join(read, on=VALUE)
    frame = frame.fillna({"seeds": 0, "run": "", "status": "left out"}).astype({"seeds": int})
    lost = frame["status"] == "diverged"
    frame.loc[lost, ["ours", "ours std", "last"]] = NAN
    of_paper = frame["profile"] != "quick"
    frame["difference"] = (frame["ours"] - frame["printed"]).where(of_paper & ~frame["own"])
    judged = [
        _judged(line, runs.seeds(*(line[name] for name in VALUE)))
        for line in frame.to_dict("records")
    ]
    frame[["allowed", "compatible", "verdict"]] = pd.DataFrame(judged, frame.index)
    before = [*VALUE, "profile", "own", "printed", "printed std", "ours", "ours std", "last"]
    middle = ["seeds", "paper seeds", "difference", "allowed", "compatible"]
    return frame[[*before, *middle, "status", "diverged", "verdict", "run"]]


def with_exact(smaller: pd.DataFrame, exact: Iterable[Runs]) -> pd.DataFrame:
    """The frame of `beside` of smaller runs, with what the exact setting gave at the same places,
    where it was run: ours, ours std, seeds, status, diverged and verdict, as "exact ours", ...
    """
    names = ["ours", "ours std", "seeds", "status", "diverged", "verdict"]
    every = [beside(runs).query("status in ('ran', 'diverged')") for runs in exact]
    every = [frame.set_index(VALUE)[names].add_prefix("exact ") for frame in every if len(frame)]
    return smaller.join(pd.concat(every), on=VALUE) if every else smaller


def pairs(runs: Runs) -> pd.DataFrame:
    """A row for each pair of methods that the paper's row separates, in order of the tables.

    Columns of the place but method, metric, profile, higher and lower (in the paper) and order (of
    `judge.ORDERS`; "not compared" where one of the two diverged or was not run, or the data are
    not the paper's).
    """
    lines = [line for row in _rows(runs) for line in _pairs(row)]
    names = [*PLACE[:-1], "metric", "profile", "higher", "lower", "order"]
    return pd.DataFrame(lines, columns=names)


def orders(runs: Runs) -> pd.DataFrame:
    """What each row of a table says as a whole, of the methods that ran: a row each.

    Columns of the place but method, metric, profile, pairs (that the paper separates), stands,
    turned, open, not compared, tau (Kendall's, between the printed values and ours), best printed
    (of all methods of the row, ties together), best ours ("–" where fewer than two ran), best
    agrees ("yes", "level", "no"; "–" too where the best printed was not run), and in the paper
    profile wrong pairings and how many of them pass as reproduced.
    """
    lines = []
    for row in _rows(runs):
        means = {name: values.mean() for name, values in row.seeds.items() if not values.empty}
        if not row.comparable or not means or len(row.printed) < 2:
            continue
        words = Counter(pair["order"] for pair in _pairs(row))
        known = pd.Series({name: one.value for name, one in row.printed.items()})
        both = pd.DataFrame({"printed": known[[*means]], "ours": means})
        printed, ours = (_best(of, row.metric) for of in (known, both["ours"]))
        judged = (row.printed, row.paper_seeds, row.seeds, row.metric)
        exact = row.place["profile"] == "paper"
        passing, wrong = judge.wrong_pairings(*judged) if exact else (0, 0)
        line = {"pairs": words.total()} | {one: words[one] for one in (*ORDERS, "not compared")}
        line["tau"] = both["printed"].corr(both["ours"], method="kendall", min_periods=2)
        line |= {"best printed": ", ".join(printed), "best ours": "–", "best agrees": "–"}
        if len(means) > 1:
            line["best ours"] = ", ".join(ours)
            line["best agrees"] = _agrees(printed, ours, row.seeds, row.metric)
        lines.append(row.place | line | {"wrong pairings": wrong, "of these pass": passing})
    return pd.DataFrame(lines)


def leaders(runs: Runs, table: Table) -> pd.Series:
    """The methods of a table that none is decided to be above (`judge.order`), the best first: a
    list for each data set and setting that ran, the reader's own methods and settings too.
    """
    found, metric = {}, table.metrics[0]
    sign = 1 if metric.higher_is_better else -1
    for row in table.rows:
        place = (table.paper, table.name, row.dataset, row.setting)
        seeds = {of.name: sign * runs.seeds(*place, of.name, metric.name) for of in table.columns}
        ran = [name for name in seeds if not seeds[name].empty]
        ran.sort(key=lambda name: -seeds[name].mean())
        words = {(a, b): judge.order(seeds[a], seeds[b], metric) for a, b in product(ran, ran)}
        level = [name for name in ran if "stands" not in {words[a, name] for a in ran}]
        found |= {place[2:]: level or ran[:1]} if ran else {}
    index = pd.MultiIndex.from_tuples([*found], names=["data set", "distribution"])
    return pd.Series([*found.values()], index, dtype=object, name="best first")


def behind(beside: pd.DataFrame, table: Table) -> pd.DataFrame:
    """By how much each method's number is below the highest of its row, of rows in which several
    ran: a column for each method, a row for each data set and setting of a table.
    """
    of = beside[beside["table"] == table.name]
    rows = of.pivot_table("ours", ["dataset", "setting"], "method", sort=False).dropna(thresh=2)
    return rows.rsub(rows.max(axis=1), axis=0)


def as_printed(compared: pd.DataFrame) -> pd.DataFrame:
    """The frame of `beside` in the paper's layout: a column for each method, for each setting a
    line with the printed values, ours, the difference and the verdicts; no line without any, and
    no column of a method that was neither printed nor run.
    Columns `mark` and `exact mark`, where the frame has them, stand behind our values; what
    `with_exact` adds has a line of its own, and its verdicts.
    """
    names, apart = {"": ("ours", "difference")}, {"": compared["difference"]}
    if "exact ours" in compared:
        names = {"exact ": ("ours, exact", "exact less printed")}
        names[""] = ("ours, smaller", "smaller less printed")
        apart["exact "] = compared["exact ours"] - compared["printed"]
    lines = {"printed": with_spread(compared["printed"], compared["printed std"])}
    for which, (ours, less) in names.items():
        lines[ours] = _ran(compared, which) + compared.get(f"{which}mark", "")
        lines[less] = apart[which].round(2).map("{:+z.2f}".format, na_action="ignore")
        lines.setdefault("verdict", compared[f"{which}verdict"])  # the exact setting's come first
    index = ["dataset", "setting"] + ["metric"] * (compared["metric"].nunique() > 1)
    frame = compared[[*index, "method"]].assign(**lines).set_index([*index, "method"])
    cells = frame.rename_axis(columns="value").stack(future_stack=True)
    table = cells.unstack("method").fillna("–").replace("", "–")
    rows = compared[index].drop_duplicates().itertuples(index=False, name=None)
    table = table.loc[[(*row, name) for row in rows for name in lines]]
    table = table[(table != "–").any(axis=1)]
    there = table.columns[~table.isin(EMPTY).all()]
    names = dict.fromkeys(compared["method"])
    return table[[name for name in names if name in there] or [*names]]


def said(name: object) -> object:
    """A setting's or metric's name as a reader says it."""
    for pattern, words in IN_WORDS.items() if isinstance(name, str) else ():
        name = re.sub(pattern, words, name)
    return name


def in_words(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with what `NAMED` has as a reader says it, in headings too."""
    for name in NAMED & {*frame.columns}:
        frame = frame.assign(**{name: frame[name].map(said)})
    for axis in (0, 1):
        for name in NAMED & {*frame.axes[axis].names}:
            frame = frame.rename(said, axis=axis, level=name)
    return frame


def _ran(compared: pd.DataFrame, which: str = "") -> pd.Series:
    """Our values of a frame of `beside` with their spreads, or what became of the runs."""
    names = ("ours", "ours std", "status", "diverged")
    mean, spread, status, lost = (compared[which + name] for name in names)
    became = status.where(status != "diverged", "diverged at round " + lost.astype(str))
    return with_spread(mean, spread).where(status == "ran", became)


def with_spread(means: pd.Series, spreads: pd.Series, digits: int = 2) -> pd.Series:
    """Numbers as "98.50 ± 0.12", without a spread where there is none, "–" without a number."""
    number = f"{{:.{digits}f}}".format
    spread = spreads.map(lambda s: "" if math.isnan(s) else f" ± {number(s)}").to_numpy(object)
    return (means.map(number) + spread).where(means.notna(), "–")


def _places(runs: Runs) -> pd.DataFrame:
    """A row for each place and metric of the tables, with its metric as `of`.  What the paper
    prints there is NaN for columns and rows that it does not have; places that it leaves empty are
    left out.
    """
    lines = []
    for table in runs.tables:
        known = table.printed()
        for row, metric, column in product(table.rows, table.metrics, table.columns):
            place = (row.dataset, row.setting, column.name, metric.name)
            value = known.get(place, UNPRINTED)
            if place not in known or not math.isnan(value.value):
                line = dict(zip(VALUE, (table.paper, table.name, *place), strict=True))
                line |= {"of": metric, "profile": table.profile, "own": row.own or column.own}
                line |= {"printed": value.value, "printed std": value.std}
                line |= {"paper seeds": table.paper_seeds, "stands in": bool(row.stands_in)}
                lines.append(line)
    return pd.DataFrame(lines)


class _Row(NamedTuple):
    """A row of a table for one metric: what the paper prints and our values by seed, by method;
    `comparable`: whether these are of the paper's data.
    """

    place: dict[str, str]
    metric: Metric
    printed: dict[str, Printed]
    seeds: dict[str, Seeds]
    paper_seeds: int
    comparable: bool


def _rows(runs: Runs) -> Iterator[_Row]:
    places, by = _places(runs), [*PLACE[:-1], "metric", "profile"]
    known = pd.DataFrame(columns=by)
    if len(places):
        known = places[places["printed"].notna() & ~places["own"]]
    for place, of in known.groupby(by, sort=False):
        first = of.iloc[0]
        yield _Row(
            dict(zip(by, place, strict=True)),
            first["of"],
            dict(zip(of["method"], map(Printed, of["printed"], of["printed std"]), strict=True)),
            {name: runs.seeds(*place[:4], name, place[4]) for name in of["method"]},
            first["paper seeds"],
            first["profile"] != "quick" and not first["stands in"],
        )


def _pairs(row: _Row) -> Iterator[dict[str, object]]:
    for higher, lower in judge.clear_pairs(row.printed, row.metric):
        one, other = row.seeds[higher], row.seeds[lower]
        compared = row.comparable and len((one - other).dropna())
        order = judge.order(one, other, row.metric) if compared else "not compared"
        yield row.place | {"higher": higher, "lower": lower, "order": order}


def _judged(line: dict, ours: Seeds) -> tuple[float, float, str]:
    """Allowed, compatible and the verdict of a row of `beside`."""
    without = line["stands in"] or line["own"] or math.isnan(line["printed"])
    if line["profile"] != "paper" or without:
        return NAN, NAN, ""
    value, n = Printed(line["printed"], line["printed std"]), line["paper seeds"]
    limits = judge.allowed(value, n, line["seeds"], line["of"]) if line["seeds"] else (NAN, NAN)
    lost = line["status"] == "diverged"
    return *limits, "diverged" if lost else judge.level(value, n, ours, line["of"])


def _best(values: pd.Series, metric: Metric) -> list[str]:
    best = values.max() if metric.higher_is_better else values.min()
    return list(values.index[(values - best).abs() <= judge.HAIR])


def _agrees(printed: list[str], ours: list[str], seeds: dict[str, Seeds], metric: Metric) -> str:
    """Whether one of the best printed is one of our best, or level with it; "–" where none ran."""
    if {*printed} & {*ours}:
        return "yes"
    sign, best = 1 if metric.higher_is_better else -1, seeds[ours[0]]
    ran = [name for name in printed if len((best - seeds[name]).dropna())]  # on common seeds
    words = {judge.order(sign * best, sign * seeds[name], metric) for name in ran}
    return "–" if not ran else "no" if words == {"stands"} else "level"
