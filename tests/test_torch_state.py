"""What else a process does with torch changes no number: its defaults, autocast, other threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import pfl_lib
from pfl_lib import DPSGD, Federation
from pfl_lib.experiments.spec import FederationRun, RunSpec
from pfl_lib.experiments.training import one_thread
from pfl_lib.explore.of_training import Training
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg
from pfl_lib.results.store import Store
from pfl_lib.rows import copies

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


@pytest.fixture
def unusual():
    """Torch as others may have left it; as it was, afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_grad_enabled(False)
    torch.set_default_device("meta")
    torch.set_float32_matmul_precision("medium")  # bfloat16 where the processor has it
    yield
    torch.set_grad_enabled(True)
    torch.set_default_device(None)
    torch.set_float32_matmul_precision(before)


def test_gradients_off_another_default_device_and_a_lower_precision_change_no_number(
    unusual, tmp_path
):
    asked = {"dataset": "digits", "model": "linear", "rounds": 2}
    ours = pfl_lib.run("fedavg", **asked, results_dir=tmp_path / "unusual").metrics
    left = torch.is_grad_enabled(), torch.get_default_device().type
    assert left == (False, "meta") and torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    with one_thread():
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
    torch.set_grad_enabled(True)
    torch.set_default_device(None)
    assert ours.equals(pfl_lib.run("fedavg", **asked, results_dir=tmp_path / "plain").metrics)


def test_a_federation_made_with_gradients_off_has_the_key_that_it_has_with_them():
    pairs = [(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))]
    network, keys = torch.nn.Linear(2, 2), []
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            fed = Federation.from_arrays(pairs, pairs, network, Schedule(1), name="mine")
        keys.append(FederationRun(FedAvg(), fed).key)
    assert fed.behaviour and keys[0] == keys[1]


def test_clients_in_threads_compute_with_the_runs_own_number_of_torchs_threads():
    """A new thread has the number that any thread has set last."""
    told = []

    def step(rows, gradient, batch):
        told.append(torch.get_num_threads())

    pairs = [(torch.zeros(2, 2), torch.tensor([0, 1]))] * 4
    fed = Federation.from_arrays(pairs, pairs, torch.nn.Linear(2, 2), Schedule(1), threads=2)
    with one_thread(), ThreadPoolExecutor(1) as other:
        other.submit(torch.set_num_threads, 2).result()
        fed.train(copies(fed.initial(), 4), 1, range(4), step)
    assert set(told) == {1}


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
