"""What WAFFLE's sections 3 and 4 say about MNIST, and whether our runs say the same."""

import pandas as pd

from pfl_lib.papers.claims import Claim, about_table, every_pair
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.waffle import GLOBAL, SHIFTED, TABLE1

PERSONALISED = ("WE", "WAFFLE", "APFL")


CLAIMS = (
    Claim(
        "On MNIST, WAFFLE and WE outperform the other methods for the label skews (B, C)",
        "section 4",
        every_pair(("B", "C"), ("WE", "WAFFLE"), ("Local", "FedAvg", "SCAFFOLD", "APFL")),
    ),
    Claim(
        "like with MNIST, global FL methods outperform personalized methods on the IID"
        " distribution",
        "section 4",
        every_pair(("A",), GLOBAL, PERSONALISED),
    ),
    Claim(
        "For the concept shift distributions (A*, B*), all personalized FL methods improve accuracy"
        " compared to global FL methods",
        "section 4",
        every_pair(SHIFTED, PERSONALISED, GLOBAL),
    ),
    Claim(
        "Among all personalized FL methods, WE performs slightly better in this setting [A*, B*]",
        "section 4",
        every_pair(SHIFTED, ("WE",), ("WAFFLE", "APFL")),
    ),
    Claim(
        "Regarding APFL, the method also performs better than global FL methods except for the IID"
        " distribution (A)",
        "section 4",
        every_pair(("B", "C", *SHIFTED), ("APFL",), GLOBAL),
    ),
    Claim(
        "[APFL] struggles to achieve a better result than the other two personalized FL methods and"
        " Local",
        "section 4",
        every_pair(("B", "C", *SHIFTED), ("WE", "WAFFLE", "Local"), ("APFL",)),
        level=True,  # that APFL is not better is said, not that it is worse
    ),
)


def accuracy_claims(profile: Profile, store) -> pd.DataFrame:
    """Answers to the sentences about Table 1; columns as in `claims.answers`."""
    return about_table(CLAIMS, TABLE1.only(datasets=["MNIST"]), profile, store.find)
