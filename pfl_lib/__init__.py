"""Personalised federated learning, reproduced: WAFFLE, Weight Erosion, FedFomo, pFedLA and the baselines they compare against."""

from pfl_lib.errors import BadInput
from pfl_lib.federation import Federation
from pfl_lib.running import run
from pfl_lib.schedule import Schedule
from pfl_lib.store import Result

__all__ = ["BadInput", "Federation", "Result", "Schedule", "run"]
__version__ = "0.1.0"
