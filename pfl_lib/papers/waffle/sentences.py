"""The sentences that answer most of WAFFLE's pages, made from their numbers: none is typed in."""

from collections.abc import Iterable

import pandas as pd

from pfl_lib.display.table_format import written
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.waffle import readings as of_equation


def listed(words: Iterable[str]) -> str:
    """ "A", "A and B", "A, B and C"; "none" of none."""
    words = list(words)
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "none"


def shift(spreads: pd.DataFrame, apart: pd.DataFrame, profile: Profile) -> str:
    """What the spread over seeds says about the paper's draw, from `shift.spreads`, and which
    option is nearer to the paper, from `shift.apart`.
    """
    own, shared, printed, less = [], [], [], 0
    for _, rows in spreads.groupby(["distribution", "method"], sort=False):
        known = rows.dropna(subset="std").set_index("labels")["std"]
        if "a draw a seed" in known and len(known) > 1:
            own.append(known.pop("a draw a seed"))
            shared += list(known)
            less += int((known < own[-1]).sum())
            printed.append(rows["paper std"].iloc[0])
    if own:
        words = (
            f"Best rounds vary over seeds by {_from_to(own)} points (one standard deviation) where"
            f" each seed draws its labels, by {_from_to(shared)} where seeds share a draw, which is"
            f" less in {less} of {len(shared)} cases; in the paper by {_from_to(printed)}."
        )
    else:
        words = "No two seeds that share a draw were run, so draws and seeds cannot be told apart."
    words += _by_option(apart, levels=profile.name == "paper")
    if profile.name == "quick":
        return f"{words} The quick profile, on other data, says nothing about the paper's seeds."
    return words


def _from_to(numbers: Iterable[float]) -> str:
    """ "0.8 to 7.3", or one number where there is no other."""
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(numbers), max(numbers)))
    return " to ".join(ends)


def _by_option(apart: pd.DataFrame, levels: bool) -> str:
    """How far option I moves each method, and, where levels can be compared, which is nearer."""
    words = ""
    for method, rows in apart.groupby("method", sort=False):
        told = []
        for row in rows.to_dict("records"):
            moved, seeds = written(row["moved"], sign=True, digits=1), row["seeds"]
            within = f" ± {row['plus or minus']:.1f}" if seeds > 1 else ""
            told.append(f"{moved}{within} ({row['distribution']}, {seeds} seed{'s' * (seeds > 1)})")
        words += f" Option I moves {method} by {listed(told)} points"
        if levels:
            nearer = int((rows["I"] < rows["II"]).sum())
            words += (
                f"; it is nearer to the paper on {nearer} of {len(rows)} distributions, on average"
                f" {rows['I'].mean():.1f} points away, option II {rows['II'].mean():.1f}"
            )
        words += "."
    return words + (" Plus or minus: two standard errors." if (apart["seeds"] > 1).any() else "")


def readings(read: pd.DataFrame, profile: Profile) -> str:
    """Which reading the paper's value on A* asks for, from `readings.accuracies`."""
    rows = read[(read["distribution"] == of_equation.DECIDED_ON[0]) & (read["status"] == "ran")]
    if len(rows) < len(of_equation.READINGS):
        return f"Both readings have to be run on {of_equation.DECIDED_ON[0]} to be told apart."
    words = "; ".join(
        f"*{row['reading']}* {row['best round']:.2f} in the best round, {row['last round']:.2f} in"
        " the last"
        for row in rows.to_dict("records")
    )
    head = f"On {of_equation.DECIDED_ON[0]} the paper prints {rows['paper'].iloc[0]:.2f}: {words}."
    if profile.name != "paper":
        return f"{head} Only the paper profile compares such numbers with the printed one."
    near = rows.loc[rows["apart"] <= rows["allowed"], "reading"].tolist()
    seeds = rows["seeds"].min()
    told = " and ".join(f"*{name}*" for name in near) or "neither"
    fewest = f"{seeds} seed" + ("s" if seeds > 1 else "")
    return f"{head} Near enough to count as reproduced, with {fewest}: {told}."
