"""Personalised federated learning, reproduced: WAFFLE, Weight Erosion, FedFomo, pFedLA and the
baselines they compare against.
"""

import importlib
from typing import TYPE_CHECKING

from pfl_lib.errors import BadInput

if TYPE_CHECKING:
    from pfl_lib import explore as explore
    from pfl_lib.api import run
    from pfl_lib.engine.private import DPSGD
    from pfl_lib.federation.federation import Federation
    from pfl_lib.federation.schedule import Schedule
    from pfl_lib.results.comparison import compare
    from pfl_lib.results.result import Result
    from pfl_lib.results.several import Results

__all__ = ["DPSGD", "BadInput", "Federation", "Result", "Results", "Schedule", "compare", "run"]
__version__ = "0.1.0"

_FROM = {
    "run": "pfl_lib.api",
    "DPSGD": "pfl_lib.engine.private",
    "Federation": "pfl_lib.federation.federation",
    "Schedule": "pfl_lib.federation.schedule",
    "Result": "pfl_lib.results.result",
    "Results": "pfl_lib.results.several",
    "compare": "pfl_lib.results.comparison",
    "explore": "pfl_lib.explore",
}


def __getattr__(name: str):
    """Import what needs torch when it is first asked for: `pfl-lib --help` does without."""
    if name not in _FROM:
        raise AttributeError(f"module 'pfl_lib' has no attribute {name!r}")
    module = importlib.import_module(_FROM[name])
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM})
