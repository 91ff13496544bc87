"""The benchmarks measure equal work, count operations right, and say what they could not
measure.
"""

import dataclasses
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import candidates, floor, parts, peers, plain, timing, workloads
from pfl_lib.models import LeNet5

ROOT = Path(__file__).resolve().parents[2]
SMALL = workloads.Workload(
    "small", "pfedla_cnn", (3, 16, 16), clients=3, images=12, batch=5, lr=0.1
)


def test_calls_are_timed_in_turn_and_the_first_round_is_not_counted():
    order, naps = [], iter([0.2, 0.01, 0.03])

    def slow() -> None:
        order.append("a")
        time.sleep(next(naps))

    first, second = timing.in_turn((slow, lambda: order.append("b")), repeats=2)
    assert order == list("ababab")
    assert 0.02 <= first < 0.2 and second < first


def test_operations_of_a_training_step_are_those_counted_by_hand():
    """LeNet-5's multiply-adds: 117,600 and 240,000 in the convolutions, 48,000 + 10,080 + 840
    behind them.

    Backward costs each twice, but for the first layer, whose input needs no gradient; a
    multiply-add is two operations.
    """
    forward = 117_600 + 240_000 + 48_000 + 10_080 + 840
    network, x, y = plain.TextbookLeNet5(), torch.randn(8, 1, 28, 28), torch.arange(8)
    with floor.Recorder() as recorded:
        torch.nn.functional.cross_entropy(network(x), y).backward()
    assert recorded.total == 8 * 2 * (3 * forward - 117_600)


def test_the_floor_is_set_by_the_networks_own_convolutions_where_they_are_the_fastest(monkeypatch):
    """On some processors a library's convolutions are twice as fast as its matrix products: here
    products are made slow.
    """
    convolve = torch.nn.Conv2d(64, 64, 3)
    with floor.Recorder() as recorded:
        convolve(torch.randn(8, 64, 16, 16)).sum().backward()
    names = [like[0].overloadpacket.__name__ for like in recorded.operations]
    assert names == ["convolution", "convolution_backward"]
    multiply = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b: time.sleep(1) or multiply(a, b))
    assert floor.fastest([*recorded.operations.values()]) in recorded.operations.values()


def test_an_operation_is_kept_as_it_was_called_once_for_each_shape_and_order_in_memory():
    a = torch.randn(3, 4)
    with floor.Recorder() as recorded:
        for left in (a, a + 1, a.T.contiguous().T, torch.randn(5, 4)):
            product = left @ torch.eye(4)
            product.zero_()
            left.zero_()
    kept = [operation.call() for operation in recorded.operations.values()]
    assert [out.shape[0] for out in kept] == [3, 3, 5]
    assert all(out.count_nonzero() for out in kept)  # later writes have not reached the copies
    assert recorded.total == (3 + 3 + 3 + 5) * 4 * 4 * 2


def test_peak_memory_is_this_processes_own_and_stays_when_memory_is_given_back():
    program = (
        "from benchmarks.timing import peak_memory\nbefore = peak_memory(); block ="
        " bytearray(200_000_000); del block; print(before, peak_memory())"
    )
    held = bytearray(600_000_000)  # a parent's memory must not count
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    before, after = map(int, printed.split())
    del held
    assert 190e6 < after - before < 300e6
    assert before < 500e6


def test_the_textbook_network_is_ours():
    torch.manual_seed(0)
    ours = LeNet5()
    textbook = plain.TextbookLeNet5()
    textbook.load_state_dict(ours.state_dict())
    x = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(textbook(x), ours(x))


def test_ours_and_the_plain_loop_do_the_same_work():
    """One batch a client, so that the order of the examples does not matter: both end at the same
    model.
    """
    workload = dataclasses.replace(SMALL, batch=12, participation=0.7)
    fed = workloads.federation(workload)
    ours, theirs = workloads.Ours(fed), plain.Plain(workload, fed)
    for _ in range(2):
        ours.round()
        theirs.round()
    assert len(fed.participants(1)) == 2
    model = fed.layout.rows(theirs.module)["theta"]
    torch.testing.assert_close(ours.state["theta"], model)
    assert (model - fed.initial()["theta"]).abs().max() > 1e-3
    assert ours.accuracy() == pytest.approx(theirs.accuracy(), abs=1 / workloads.TEST)


def test_a_workloads_row_holds_speed_reference_ratio_floor_and_accuracy():
    [row] = parts.training(SMALL, repeats=1)
    assert row["ratio"] == pytest.approx(row["examples/s"] / row["reference examples/s"])
    assert row["s/round"] == pytest.approx(36 / row["examples/s"])
    assert 0 < row["% of floor"] < 100 and row["GFLOP/s"] > 0
    assert 0 <= row["accuracy"] <= 1 and 0 <= row["reference accuracy"] <= 1


def test_drawn_classes_can_be_learnt():
    workload = dataclasses.replace(workloads.WORKLOADS["lenet5"], clients=4, images=160)
    ours = workloads.Ours(workloads.federation(workload))
    for _ in range(8):
        ours.round()
    assert ours.accuracy() > 0.5


def test_fedfomos_round_is_told_beside_fedavgs_and_without_what_it_evaluates():
    [row] = candidates.candidates(1, dataclasses.replace(candidates.WORKLOAD, clients=3))
    average, whole, evaluated = (
        row[f"{name}CPU s/round"] for name in ("FedAvg ", "", "evaluation ")
    )
    assert 0 < evaluated < whole and average > 0
    assert row["times FedAvg's"] == pytest.approx(whole / average)
    assert row["times FedAvg's without evaluation"] == pytest.approx((whole - evaluated) / average)


def test_fedfomos_clients_validate_on_their_last_images():
    workload = dataclasses.replace(candidates.WORKLOAD, clients=2)
    fed = workloads.federation(workload, validation=0.2)
    splits = fed.clients.splits
    assert [index.tolist() for index in splits["train"].index] == [[*range(16)], [*range(20, 36)]]
    assert [index.tolist() for index in splits["validation"].index] == [
        [*range(16, 20)],
        [*range(36, 40)],
    ]


def test_the_command_runs_in_a_clone_and_prints_json_with_memory_of_a_fresh_process():
    words = ["--only", "linear", "--repeats", "1", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    (row,) = printed["workloads"]
    assert row["workload"].startswith("linear model") and row["ratio"] > 0
    assert 100 < row["peak MiB"] < 1000
    assert printed["failed"] == {} and printed["candidates"] == []


def test_a_part_that_fails_is_told_in_one_line_and_the_status(capsys, monkeypatch):
    def broken(name: str, repeats: int) -> list:
        raise RuntimeError("no memory left")

    monkeypatch.setattr(command, "measure", broken)
    assert command.main(["--only", "linear"]) == 1
    assert "linear failed: RuntimeError: no memory left" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["pfl", "flwr"])
def test_a_library_that_is_not_installed_is_named_with_what_to_do(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    [row] = peers.peer(name, repeats=2)
    assert row["reference"].endswith("not installed: pip install -e '.[peers]'")
    assert row["reference"].startswith(name) and "ratio" not in row


@pytest.mark.parametrize("name", ["pfl", "flwr"])
def test_a_library_that_is_installed_trains_as_well_as_ours(name):
    pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[peers]'")
    program = (
        "import json; from benchmarks import peers;"
        f" print(json.dumps(peers.peer({name!r}, 2, images=320)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    [row] = json.loads(done.stdout.splitlines()[-1])
    assert row["ratio"] > 0
    assert row["accuracy"] > 0.5 and row["reference accuracy"] > 0.5
