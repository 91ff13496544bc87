"""What the tests of results share: a run that was never trained, and its result."""

import math

import numpy as np
import pandas as pd
import torch

from pfl_lib import Schedule
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import FedAvg
from pfl_lib.results.result import Result


def described(method=None, seed: int = 1) -> RunSpec:
    """Three rounds on the digits by two clients."""
    return RunSpec(method or FedAvg(), Schedule(3), dataset="digits", clients=2, seed=seed)


RUN = described()


def result(spec: RunSpec = RUN, **changes) -> Result:
    """Three rounds of Alice's, with numbers that decimal rounding would spoil."""
    metrics = {
        "round": [1, 2, 3],
        "client": 0,
        "accuracy": [0.1, 1 / 3, 0.3],
        "loss": [2.0, math.pi, 1e-17],
        "alpha": [1, 0.5, 0],
    }
    parts = {
        "config": {**spec.config(), "key": spec.key, "torch": "2.13"},
        "metrics": pd.DataFrame(metrics),
        "weights": np.array([[1 / 3, 2 / 3]] * 3),
        "diverged": None,
        "seconds": 1.5,
        "model": {"fc.weight": torch.tensor([[[0.1, -2.0]]]), "fc.bias": torch.tensor([[1 / 3]])},
        **changes,
    }
    return Result(**parts)


def layered(spec: RunSpec = RUN, **changes) -> Result:
    """Weights by layer and a matrix in chosen rounds, bytes and a lost client."""
    draw = np.random.default_rng(spec.seed)
    parts = {
        "weights": draw.random((2, 3, 2, 2)).astype(np.float32),
        "weights_rounds": np.array([1, 3]),
        "matrices": {"affinity": draw.random((2, 2, 2)).astype(np.float32)},
        "matrices_rounds": np.array([1, 2]),
        "bytes": (48.0, 0.5),
        "non_finite": {1: 2, 11: 1},
        **changes,
    }
    return result(spec, **parts)


def assert_same(one: Result, other: Result) -> None:
    """All that two results say, but for their models."""
    pd.testing.assert_frame_equal(one.metrics, other.metrics, check_exact=True)
    for name in ("config", "diverged", "seconds", "bytes", "non_finite"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("weights", "weights_rounds", "matrices_rounds"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
        assert getattr(getattr(one, name), "dtype", 0) == getattr(getattr(other, name), "dtype", 0)
    assert one.matrices.keys() == other.matrices.keys()
    assert all(np.array_equal(one.matrices[name], other.matrices[name]) for name in one.matrices)
