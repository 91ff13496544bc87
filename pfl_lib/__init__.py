"""Personalised federated learning, reproduced: WAFFLE, Weight Erosion, FedFomo, pFedLA and the
baselines they compare against.
"""

from pfl_lib.api import run
from pfl_lib.errors import BadInput
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.results.result import Result
from pfl_lib.results.several import Results, compare

__all__ = ["BadInput", "Federation", "Result", "Results", "Schedule", "compare", "run"]
__version__ = "0.1.0"
