"""How much the one hyper-parameter of WAFFLE and of Weight Erosion decides on MNIST: "WAFFLE can
work very well without tuning, as opposed to WE which requires hyperparameter tuning to perform
well" (section 3).

WAFFLE's slope has one value in the whole paper, and Weight Erosion's p_d has one for each
distribution (Table 3).  Both are tried here below and above the paper's.  A factor of p_d is not
the same step of tuning as a factor of the slope: p_d decides how fast weights fall, the slope only
how abruptly, about a middle that stays at half the rounds.
"""

import math
from dataclasses import replace

import pandas as pd

from pfl_lib.display.table_format import keep, written
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import Waffle, WeightErosion
from pfl_lib.papers.claims import QUICK, answer, with_seeds
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, gathered
from pfl_lib.papers.waffle import DISTRIBUTIONS, TABLE1, p_d, printed_setting
from pfl_lib.results.summary import HAIR

SLOPES = (1, 2, 3.2, 5, 10)
FACTORS = (0.25, 0.5, 1, 2, 4)
"""Of Table 3's p_d of the distribution."""
DEFAULTS = {"WAFFLE": 3.2, "WE": 1}


def _erosion(factor: float):
    def made(setting: Setting) -> WeightErosion:
        default = p_d(setting.partition, setting.schedule.rounds)
        return WeightErosion(p_d=factor * default, p_s=0.0)

    return made


COLUMNS = {
    "WAFFLE": {slope: Column(f"WAFFLE, slope {slope:g}", Waffle(slope=slope)) for slope in SLOPES},
    "WE": {factor: Column(f"WE, p_d × {factor:g}", _erosion(factor)) for factor in FACTORS},
}
"""Each method's columns, by the value that is tried."""
TABLE = replace(
    TABLE1.only(datasets=["MNIST"]),
    name="tuning",
    columns=tuple(column for of_method in COLUMNS.values() for column in of_method.values()),
    explained_by={},
    values={},
)


def runs(profile: Profile) -> tuple[RunSpec, ...]:
    """Every value of either method on every distribution, for the profile's first seed."""
    return TABLE.runs(profile.with_seeds(1))


def _frame(profile: Profile, store) -> pd.DataFrame:
    frame = TABLE.run_in(profile).frame(profile.with_seeds(1), store.find)
    return frame[frame["protocol"] == TABLE.protocol]


def grid(profile: Profile, store) -> pd.DataFrame:
    """A row for each distribution that the profile runs, method and value.

    Columns distribution, method, tried ("slope 5", "p_d × 2"), factor (of the paper's value), best
    round (percent; nan unless the run ended well) and status.
    """
    tried = {
        column.name: {"method": method, "factor": value / DEFAULTS[method]}
        for method, columns in COLUMNS.items()
        for value, column in columns.items()
    }
    frame = _frame(profile, store)
    rows = [
        {
            "distribution": line["setting"],
            "method": tried[line["method"]]["method"],
            "tried": line["method"].partition(", ")[2],
            "factor": tried[line["method"]]["factor"],
            "best round": line["value"],
            "status": line["status"],
        }
        for line in frame.to_dict("records")
    ]
    return keep(frame, rows)


def by_value(grid: pd.DataFrame, method: str) -> pd.DataFrame:
    """A row for each distribution, a column for each value tried: the best round in percent, or
    what became of the run.
    """
    of_method = grid[grid["method"] == method]
    shown = of_method["best round"].astype(object)
    shown = shown.where(of_method["status"] == "ran", of_method["status"])
    wide = of_method.assign(shown=shown).pivot(
        index="distribution", columns="tried", values="shown"
    )
    wide = wide.loc[of_method["distribution"].unique(), of_method["tried"].unique()]
    return keep(grid, wide.rename_axis(columns=None).reset_index())


def lost(grid: pd.DataFrame) -> pd.DataFrame:
    """How much the value decides, in points: a row for each distribution and method.

    Columns distribution, method, best value and best round (the highest of the grid), then what is
    lost against it by the paper's value ("paper's"), by the median and by the worst of the grid,
    and what the median and the worst lose against the paper's (below 0 where they are better).
    All nan where a run is missing or diverged; status names it.
    """
    rows = []
    for (distribution, method), of_place in grid.groupby(["distribution", "method"], sort=False):
        found = of_place.set_index("tried")["best round"]
        best, median, worst = found.max(), found.median(), found.min()
        default = of_place.loc[of_place["factor"] == 1, "best round"].iloc[0]
        away = of_place[of_place["status"] != "ran"]
        row = {
            "best value": "–" if len(away) else found.idxmax(),
            "best round": best,
            "paper's": best - default,
            "median": best - median,
            "worst": best - worst,
            "median against the paper's": default - median,
            "worst against the paper's": default - worst,
        }
        if len(away):
            row |= dict.fromkeys(list(row)[1:], math.nan)
        words = "; ".join(away["tried"] + ": " + away["status"]) or "ran"
        rows.append({"distribution": distribution, "method": method, **row, "status": words})
    return keep(grid, rows)


def fixed(grid: pd.DataFrame) -> pd.DataFrame:
    """What one value for all distributions costs against the best of the grid on each, in points:
    a row for each method and value.

    Columns method, tried, factor, mean lost and most lost (over the distributions) and on (where
    it loses most).  Methods of which a run is missing or diverged are left out.
    """
    rows = []
    for method, of_method in grid.groupby("method", sort=False):
        if (of_method["status"] != "ran").any():
            continue
        best = of_method.groupby("distribution")["best round"].transform("max")
        points = of_method.assign(points=best - of_method["best round"])
        for tried, of_value in points.groupby("tried", sort=False):
            rows.append(
                {
                    "method": method,
                    "tried": tried,
                    "factor": of_value["factor"].iloc[0],
                    "mean lost": of_value["points"].mean(),
                    "most lost": of_value["points"].max(),
                    "on": of_value.loc[of_value["points"].idxmax(), "distribution"],
                }
            )
    columns = ["method", "tried", "factor", "mean lost", "most lost", "on"]
    return keep(grid, pd.DataFrame(rows, columns=columns))


def answers(grid: pd.DataFrame, profile: Profile, store) -> pd.DataFrame:
    """The paper's sentences, each as a comparison on every distribution, answered as in
    `papers.claims`: *yes* where all hold, *no* where one is contradicted, else *undecided*.

    Columns claim, where, compared, here and points (by distribution).  The floor is 0.4 points,
    which one seed cannot tell from nothing.

    * A range is the best less the worst of the grid.  Weight Erosion's above WAFFLE's by more than
      the floor holds, below it by more than the floor is contradicted.
    * A loss of WAFFLE's slope 3.2 up to the floor holds, one beyond it is contradicted.
    * A loss of Weight Erosion's median beyond the floor holds; up to the floor it decides nothing.
    """
    table = lost(grid).set_index(["method", "distribution"])
    on = grid["distribution"].unique()
    waffle, erosion = table.loc["WAFFLE"].loc[on], table.loc["WE"].loc[on]
    tuned = erosion["best round"] - (waffle["best round"] - waffle["paper's"])
    ranges = erosion["worst"] - waffle["worst"]
    compared = (
        (
            "Out of the two methods, WAFFLE is the easiest to parametrize",
            "section 3",
            "WE's range less WAFFLE's",
            ranges,
            _beyond(ranges),
        ),
        (
            "WAFFLE can work very well without tuning",
            "section 3",
            "what slope 3.2 loses against the best slope",
            waffle["paper's"],
            _up_to(waffle["paper's"]),
        ),
        (
            "as opposed to WE which requires hyperparameter tuning to perform well",
            "section 3",
            "what the median p_d loses against the best",
            erosion["median"],
            [holds or None for holds in _beyond(erosion["median"])],
        ),
        (
            "a fixed default value for its single hyperparameter yields competitive results in all"
            " test cases",
            "section 6",
            "what slope 3.2 loses against the best p_d",
            tuned,
            _up_to(tuned),
        ),
    )
    ours = gathered(_frame(profile, store), ["setting", "method"])
    default = {method: COLUMNS[method][value].name for method, value in DEFAULTS.items()}
    pairs = [(ours[name, default["WAFFLE"]], ours[name, default["WE"]]) for name in on]
    rows = []
    for claim, where, what, points, holds in compared:
        word = with_seeds(answer(holds), pairs, profile)
        numbers = [f"{name}: {written(value)}" for name, value in points.items()]
        rows.append(
            {
                "claim": claim,
                "where": where,
                "compared": what,
                "here": QUICK if profile.name == "quick" else word,
                "points": "; ".join(numbers),
            }
        )
    return keep(grid, rows)


def _beyond(points: pd.Series) -> list[bool | None]:
    """True above the floor, False below minus the floor, None between and where unknown."""
    return [value > 0 if abs(value) > ACCURACY.floor + HAIR else None for value in points.fillna(0)]


def _up_to(points: pd.Series) -> list[bool | None]:
    return [None if math.isnan(value) else bool(value <= ACCURACY.floor + HAIR) for value in points]


def penalties() -> tuple[float, float]:
    """The smallest and the largest p_d that Table 3 prints for MNIST."""
    found = [printed_setting(name, "WE", "p_d") for name in DISTRIBUTIONS]
    return min(found), max(found)


def sentence(grid: pd.DataFrame, answers: pd.DataFrame) -> str:
    """How far either method's accuracy moves over the grid, where WAFFLE's moves less, what one
    value for all distributions costs, and the answer; from `grid` and `answers`.
    """
    ranges = lost(grid).set_index(["method", "distribution"])["worst"]
    waffle, erosion = (ranges.loc[method].dropna() for method in ("WAFFLE", "WE"))
    if waffle.empty and erosion.empty:
        return "No distribution has all its runs."
    words = []
    for name, of_method, over in (
        ("WAFFLE's", waffle, f"slopes {SLOPES[0]:g} to {SLOPES[-1]:g}"),
        ("Weight Erosion's", erosion, f"{FACTORS[0]:g} to {FACTORS[-1]:g} times Table 3's p_d"),
    ):
        if len(of_method):
            moved = ", ".join(f"{points:.2f} on {where}" for where, points in of_method.items())
            words.append(f"{name} best round moves by {moved} (points, over {over})")
    told = [f"{'; '.join(words)}."]
    apart = (erosion - waffle).dropna()
    clear = int((apart > ACCURACY.floor + HAIR).sum())
    told.append(
        f"WAFFLE's range is the smaller one on {int((apart > HAIR).sum())} of {len(apart)}"
        f" distributions, on {clear} by more than {ACCURACY.floor:g} points."
    )
    told += _one_for_all(fixed(grid))
    counts = answers["here"].str.partition(" (")[0].value_counts()
    counted = ", ".join(f"{count} {word}" for word, count in counts.items())
    told.append(
        "A factor of a slope is not the same step of tuning as a factor of p_d, and this is one"
        f" seed. The paper's {len(answers)} sentences about tuning: {counted}."
    )
    return " ".join(told)


def _one_for_all(fixed: pd.DataFrame) -> list[str]:
    words = []
    for method, rows in fixed.groupby("method", sort=False):
        least, papers = rows.loc[rows["most lost"].idxmin()], rows[rows["factor"] == 1].iloc[0]
        if papers["most lost"] <= least["most lost"] + HAIR:
            words.append(f"{method} at most {papers['most lost']:.2f} points ({papers['tried']})")
            continue
        words.append(
            f"{method} at most {least['most lost']:.2f} points ({least['tried']}; with the paper's"
            f" {papers['tried']} {papers['most lost']:.2f})"
        )
    return [f"One value for all distributions costs {'; '.join(words)}."] if words else []
