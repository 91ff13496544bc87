"""What each paper prints, which runs each of its tables and figures needs, and how the two compare.

Which pages there are, their notebooks say (`pages.registry`).
"""

from pfl_lib.papers import fedfomo, pfedla, waffle
from pfl_lib.papers.overview import Shown
from pfl_lib.papers.profiles import PROFILES, Profile

__all__ = ["PRINTED", "PROFILES", "Profile"]

PRINTED = (  # the printed tables that pages set beside ours
    Shown("waffle-table1", waffle.TABLE1, waffle.ALL_PROFILES),
    Shown("waffle-cifar10", waffle.CIFAR10_TABLE, waffle.CIFAR10_PROFILES),
    Shown("pfedla-table1", pfedla.TABLE1, pfedla.profiles(pfedla.TABLE1)),
    Shown("pfedla-table2", pfedla.TABLE2, pfedla.profiles(pfedla.TABLE2)),
    Shown("pfedla-table3", pfedla.TABLE3, pfedla.profiles(pfedla.TABLE3, mnist=True)),
    Shown("fedfomo-table1", fedfomo.TABLE1, fedfomo.profiles(fedfomo.TABLE1)),
    Shown("fedfomo-table2", fedfomo.TABLE2, fedfomo.profiles(fedfomo.TABLE2)),
    Shown("fedfomo-table3", fedfomo.TABLE3, fedfomo.profiles(fedfomo.TABLE3, fedfomo.SHUFFLINGS)),
    Shown("fedfomo-table4", fedfomo.TABLE4, fedfomo.profiles(fedfomo.TABLE4)),
    Shown("fedfomo-table4", fedfomo.TABLE6, fedfomo.profiles(fedfomo.TABLE4)),
    Shown("fedfomo-table5", fedfomo.TABLE5, fedfomo.profiles(fedfomo.TABLE5)),
)
