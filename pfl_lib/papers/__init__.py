"""What each paper prints, which runs each of its tables and figures needs, and how the two compare.

`EXHIBITS` lists every page by its id ("waffle-table1"), in reading order.
"""

from types import MappingProxyType

from pfl_lib.errors import choose
from pfl_lib.papers import fedfomo, pfedla, waffle, weight_erosion
from pfl_lib.papers.exhibits import Exhibit, by_notebook
from pfl_lib.papers.overview import Shown
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.verdicts import PROFILES
from pfl_lib.papers.waffle import pages as of_waffle

__all__ = ["EXHIBITS", "PRINTED", "PROFILES", "Exhibit", "Profile", "exhibit"]

# These show the package or what is stored, not the data of one paper: they are the same in every
# profile.
_ALWAYS_QUICK = dict.fromkeys(PROFILES, waffle.QUICK)

_FIRST = (
    ("index", ("Index: what is here, and where to start", "00_index.ipynb")),
    (
        "quickstart",
        ("Quickstart: one run, its accuracy and its weights", "01_quickstart.ipynb"),
        waffle.quickstart,
    ),
    ("scorecard", ("Scorecard: every printed value and every sentence", "02_scorecard.ipynb")),
    ("your-method", ("Your method: twenty lines, compared with others", "03_your_method.ipynb")),
    ("your-data", ("Your data: a table, arrays, a partition", "04_your_data.ipynb")),
    ("proof", ("Proof: what each method must equal", "05_proof.ipynb")),
    (
        "hostile-clients",
        ("Hostile clients: what each method loses", "06_hostile_clients.ipynb"),
        by_notebook("06_hostile_clients.ipynb"),
    ),
    ("by-hand", ("Runs by hand", "07_by_hand.ipynb")),
)

EXHIBITS: MappingProxyType[str, Exhibit] = MappingProxyType(
    {
        page.id: page
        for page in (
            *(Exhibit(id, "", *named, _ALWAYS_QUICK, *runs) for id, named, *runs in _FIRST),
            *of_waffle.PAGES,
            *weight_erosion.PAGES,
            *pfedla.PAGES,
            *fedfomo.PAGES,
        )
    }
)


def exhibit(id: str) -> Exhibit:
    """The table or figure with that id; raises `BadInput` listing the ids when there is none."""
    return EXHIBITS[choose("table or figure", id, EXHIBITS)]


PRINTED = tuple(
    Shown(id, table, page.profiles) for id, page in EXHIBITS.items() for table in page.tables
)
"""The printed tables that pages set beside ours."""
