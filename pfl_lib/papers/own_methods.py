"""A user's methods on a printed table: their accuracy by round beside the paper's methods, and by
how much they are above each, seed by seed.
"""

import pandas as pd

from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find, Table, gathered
from pfl_lib.results.paired import paired
from pfl_lib.results.result import Result
from pfl_lib.results.summary import LEFT_OUT, NOT_RUN


def results_by_row(
    table: Table, profile: Profile, find: Find
) -> dict[str, dict[str, list[Result]]]:
    """What was run of each row of the table, by the row's name: each column's results, one a seed;
    rows in which no method of the user's has run are left out.
    """
    found = {}
    for row in table.rows:
        here = table.only([row.setting], datasets=[row.dataset]).results(find, profile)
        if set(here) & set(table.own_columns):
            found[f"{row.dataset}, {row.setting}"] = here
    return found


def differences(table: Table, profile: Profile, find: Find) -> pd.DataFrame:
    """By how much each method of the user's is above each of the paper's, in points of accuracy, as
    the table reads it: a row for each row of the table and pair of methods that have common seeds.

    Columns data set, setting, method, against, seeds, difference (mean over common seeds), 95 %
    from and 95 % to (Student's t; NaN for one seed) and seen as ("above", "below", "undecided").
    """
    frame = table.frame(profile, find)
    frame = frame[(frame["metric"] == ACCURACY.name) & (frame["protocol"] == table.protocol)]
    lines = []
    for (dataset, setting), rows in frame.groupby(["dataset", "setting"], sort=False):
        ours = gathered(rows)
        for own in table.own_columns:
            for other in ours:
                found = paired(ours[own], ours[other])
                if other in table.own_columns or not found.values:
                    continue
                lines.append(
                    {
                        "data set": dataset,
                        "setting": setting,
                        "method": own,
                        "against": other,
                        "seeds": len(found.values),
                        "difference": found.mean,
                        "95 % from": found.mean - found.half,
                        "95 % to": found.mean + found.half,
                        "seen as": found.words,
                    }
                )
    return profile.table(lines)


def in_a_sentence(table: Table, profile: Profile, find: Find) -> str:
    """How often each of the user's methods is above or below the table's own, or neither for sure
    ("undecided", as always on one seed): over its rows, on common seeds.
    """
    against = differences(table, profile, find)
    frame = table.frame(profile, find)
    words = []
    for own in table.own_columns:
        rows = [row for row in against.to_dict("records") if row["method"] == own]
        seen = [row["seen as"] for row in rows]
        if rows:
            words.append(
                f"{own} (yours): above the others in {seen.count('above')} of {len(seen)}"
                f" comparisons on common seeds, below in {seen.count('below')}, undecided in"
                f" {seen.count('undecided')}."
            )
            if all(row["seeds"] == 1 for row in rows):
                words.append("One seed decides nothing: ask for three.")
        else:
            became = set(frame.loc[frame["method"] == own, "status"]) - {NOT_RUN, LEFT_OUT}
            told = ", ".join(sorted(became))
            if "ran" in became:
                told = "has no seed in common with the others"
            words.append(f"{own} (yours) {told or 'was not run'}.")
    return " ".join(words)
