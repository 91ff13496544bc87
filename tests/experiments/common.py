"""What the tests of experiments share: short descriptions of short runs, and equal bits."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pfl_lib import Schedule
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.experiments.training import Run
from pfl_lib.methods import FedAvg
from pfl_lib.results.result import Result

FILE = """
from dataclasses import dataclass

FACTOR = {factor}


def halved(theta):
    return theta * FACTOR  # {comment}


@dataclass(frozen=True)
class Shrunk:
    '''A method in a file.'''

    times: int = 1
    name, title, version = "shrunk", "Shrunk", {version}

    def start(self, fed):
        return fed.initial()

    def round(self, fed, state, r):
        return {{"theta": halved(state["theta"]), "statistics": state["statistics"]}}, {{}}

    def served(self, fed, state):
        return state
"""


def spec(method=None, rounds: int = 2, clients: int = 2, lr: float = 0.1, **settings) -> RunSpec:
    """A run on the digits: LeNet-5, two clients with 140 images each."""
    schedule = Schedule(rounds, lr=lr, **settings.pop("schedule", {}))
    return RunSpec(
        method or FedAvg(), schedule, **{"dataset": "digits", "clients": clients, **settings}
    )


def finished(run: Run) -> Run:
    """The run after its last round."""
    assert list(run.rounds())[-1] == run.done
    return run


def same_bits(one: Result, other: Result) -> bool:
    """Whether two results are equal to the last bit, with what they say of themselves but when."""
    pd.testing.assert_frame_equal(one.metrics, other.metrics, check_exact=True)
    assert one.model.keys() == other.model.keys() and one.matrices.keys() == other.matrices.keys()
    pairs = [
        (one.weights, other.weights),
        (one.weights_rounds, other.weights_rounds),
        (one.matrices_rounds, other.matrices_rounds),
        *((one.matrices[name], other.matrices[name]) for name in one.matrices),
    ]
    told = [
        json.dumps([{**r.config, "finished": ""}, r.diverged, r.bytes], sort_keys=True)
        for r in (one, other)
    ]
    return (
        told[0] == told[1]
        and one.non_finite == other.non_finite
        and all((a is b is None) or np.array_equal(a, b) for a, b in pairs)
        and all(torch.equal(one.model[name], other.model[name]) for name in one.model)
    )


def method_file(folder: Path, factor: float = 0.5, version: int = 1, comment: str = "half") -> str:
    """A file with a method in it; returns what names the method."""
    path = folder / f"method_{factor}_{version}_{comment}.py"
    path.write_text(FILE.format(factor=factor, version=version, comment=comment))
    return f"{path}:Shrunk"
