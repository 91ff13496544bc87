"""What else a process does with torch changes no number: its defaults, autocast, other threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import pfl_lib
from pfl_lib import DPSGD
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.explore.of_training import Training
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg
from pfl_lib.results.store import Store

COMMON = {"model": "linear", "rounds": 2, "alice": None}


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("fedavg", {"model": "lenet5"}),
        ("pfedhn", {}),
        ("fedfomo", {"validation": 0.2}),
        ("fedavg", {"private": DPSGD(1.0, 1.0)}),
    ],
)
def test_torchs_default_type_and_autocast_change_no_number(method, given, tmp_path):
    plain = pfl_lib.run(method, **COMMON | given, results_dir=tmp_path / "plain").metrics
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu"):
            double = pfl_lib.run(method, **COMMON | given, results_dir=tmp_path / "double").metrics
    finally:
        torch.set_default_dtype(torch.float32)
    assert plain.equals(double)


def test_runs_in_threads_of_one_process_are_those_of_runs_alone(tmp_path):
    def losses(place):
        kept = {"results_dir": tmp_path / place, "rounds": 1, "local_batches": 1}
        return lambda seed: pfl_lib.run("fedavg", seed=seed, **COMMON | kept).metrics["loss"].sum()

    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(losses("together"), range(1, 7)))
    assert together == list(map(losses("alone"), range(1, 7)))


def test_a_cell_may_draw_random_numbers_while_a_run_goes_on_beside_it(tmp_path):
    run = Training(RunSpec(FedAvg(), Schedule(4), "digits", model="linear"), Store(tmp_path))
    run.start()
    while run.state == "training":
        np.random.rand(3)  # noqa: NPY002  a user's draw
        torch.rand(3)
    assert run.state == "finished and stored"
