"""How much the one hyper-parameter of WAFFLE and of Weight Erosion decides on MNIST: "WAFFLE can
work very well without tuning, as opposed to WE which requires hyperparameter tuning to perform
well" (section 3.2).

WAFFLE's slope has one value in the whole paper, and Weight Erosion's p_d has one for each
distribution (Table 3).  Both are tried here below and above the paper's.  A factor of p_d is not
the same step of tuning as a factor of the slope: p_d decides how fast weights fall, the slope only
how abruptly, about a middle that stays at half the rounds.
"""

from dataclasses import replace

from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import Waffle, WeightErosion
from pfl_lib.papers.profiles import Profile
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column
from pfl_lib.papers.waffle import TABLE1, p_d

SLOPES = (1, 2, 3.2, 5, 10)
FACTORS = (0.25, 0.5, 1, 2, 4)
"""Of Table 3's p_d of the distribution."""


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
