"""What WAFFLE's section 4 says about CIFAR10, and whether our runs say the same.

Of APFL it says "we get similar results as MNIST": its sentences are read of B, C, A* and B*, as
those about MNIST.  That WAFFLE and Weight Erosion are "approximately the same" follows on concept
shift and is read of A* and B*.
"""

import math
import re

import numpy as np
import pandas as pd

from pfl_lib.papers import claims as of_table
from pfl_lib.papers.claims import Claim, about_table, answer, every_pair
from pfl_lib.papers.metrics import ACCURACY
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.table import Find
from pfl_lib.papers.waffle import GLOBAL, SHIFTED
from pfl_lib.papers.waffle.cifar10 import TABLE
from pfl_lib.papers.waffle.claims import PERSONALISED
from pfl_lib.results.summary import HAIR

WHERE = "section 4, CIFAR10"
HETEROGENEOUS = ("B", "C", *SHIFTED)


CLAIMS = (
    Claim(
        "[on CIFAR10] global FL methods outperform personalized methods on the IID distribution",
        WHERE,
        every_pair(("A",), GLOBAL, PERSONALISED),
    ),
    Claim(
        "[on the IID distribution global methods] present a significant improvement compared to"
        " Local",
        WHERE,
        every_pair(("A",), GLOBAL, ("Local",)),
    ),
    Claim(
        "Distribution B and C (label skew) produce results close to those of MNIST, where WAFFLE"
        " and WE outperform others",
        WHERE,
        every_pair(("B", "C"), ("WE", "WAFFLE"), ("Local", *GLOBAL, "APFL")),
    ),
    Claim(
        "Concerning concept shift, personalized FL methods are still a great improvement compared"
        " to global FL or Local",
        WHERE,
        every_pair(SHIFTED, PERSONALISED, (*GLOBAL, "Local")),
    ),
    Claim(
        "APFL performs better than the global FL methods",
        WHERE,
        every_pair(HETEROGENEOUS, ("APFL",), GLOBAL),
    ),
    Claim("[APFL] is better than Local", WHERE, every_pair(HETEROGENEOUS, ("APFL",), ("Local",))),
    Claim(
        "compared to the other two customized methods, [APFL] performs much worse",
        WHERE,
        every_pair(HETEROGENEOUS, ("WE", "WAFFLE"), ("APFL",)),
    ),
)
SAME = Claim(
    "The accuracy of WAFFLE and WE is approximately the same",
    WHERE,
    every_pair(SHIFTED, ("WAFFLE",), ("WE",)),
)
"""The last sentence: its comparisons hold where two methods are at most `limit` points apart."""


def limit() -> float:
    """The largest difference that the paper itself calls approximately the same, in points."""
    printed = {(where, method): of.value for (_, where, method, _), of in TABLE.printed().items()}
    return max(abs(printed[where, "WAFFLE"] - printed[where, "WE"]) for where in SHIFTED)


def answers(profile: Profile, find: Find) -> pd.DataFrame:
    """Answers to the sentences about CIFAR10, `SAME` last; columns as in `claims.answers`."""
    told = about_table((*CLAIMS, SAME), TABLE, profile, find)
    last = told.index[-1]
    told.at[last, "by the paper's own numbers"] = "yes"  # by definition: they make `limit`
    if profile.name == "quick":
        return told
    behind = comparisons(profile, find)
    of = behind[behind["claim"] == len(told)]
    word = answer({"yes": True, "no": False}.get(holds) for holds in of["holds"])
    if told.at[last, "here"] != "not run":
        told.at[last, "here"] = re.sub("^(yes|no|undecided)", word, told.at[last, "here"])
        apart = of[of["holds"] != "yes"].to_dict("records")
        words = (f"{row['distribution']}: {row['holds']}" for row in apart)
        told.at[last, "not confirmed here"] = "; ".join(words) or "nothing"
    return told


def comparisons(profile: Profile, find: Find) -> pd.DataFrame:
    """The comparisons behind these sentences; columns as in `claims.comparisons`.

    Those behind `SAME` are differences without their sign.
    """
    behind = about_table((*CLAIMS, SAME), TABLE, profile, find, of_table.comparisons)
    last, most = behind["claim"] == len(CLAIMS) + 1, limit()
    behind.loc[last, ["paper", "here"]] = behind.loc[last, ["paper", "here"]].abs()
    behind.loc[last, "better"] = "WE and WAFFLE"
    behind.loc[last, "worse"] = f"at most {most:.1f} points apart"
    if profile.name != "quick":
        rows = behind[last].to_dict("records")
        behind.loc[last, "holds"] = [answer([_same(row, most)]) for row in rows]
    return behind


def _same(row: dict, most: float) -> bool | None:
    """Whether two methods are at most so far apart; None where the margin reaches across the limit
    or there is no number.  The margin is the larger of the floor, on fewer than three seeds a whole
    point, and two standard errors of the mean.
    """
    floor = ACCURACY.floor if row["seeds"] >= of_table.ENOUGH else ACCURACY.near
    margin = max(floor, np.nan_to_num(row["plus or minus"]))
    if math.isnan(row["here"]) or abs(row["here"] - most) < margin - HAIR:
        return None
    return row["here"] <= most + HAIR
