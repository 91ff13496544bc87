"""The benchmarks measure equal work, count right, and say what they could not measure."""

import dataclasses
import importlib.util
import json
import time

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import candidates, floor, parts, peers, plain, timing, workloads
from pfl_lib.models import LeNet5
from tests.common import fresh

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


def test_peak_memory_is_this_processes_own_and_stays_when_memory_is_given_back():
    program = (
        "from benchmarks.timing import peak_memory\nbefore = peak_memory(); block ="
        " bytearray(200_000_000); del block; print(before, peak_memory())"
    )
    held = bytearray(600_000_000)  # a parent's memory must not count
    before, after = map(int, fresh(program).split())
    del held
    assert 190e6 < after - before < 300e6
    assert before < 500e6


def test_the_textbook_network_is_ours():
    ours = LeNet5()
    textbook = plain.TextbookLeNet5()
    textbook.load_state_dict(ours.state_dict())
    x = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(textbook(x), ours(x))


def test_ours_and_the_plain_loop_do_the_same_work():
    """One batch a client, so that the order of the examples does not matter."""
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


def test_fedfomos_round_is_told_beside_fedavgs_and_without_what_it_evaluates():
    [row] = candidates.candidates(1, dataclasses.replace(candidates.WORKLOAD, clients=3))
    average, whole, evaluated = (
        row[f"{name}CPU s/round"] for name in ("FedAvg ", "", "evaluation ")
    )
    assert 0 < evaluated < whole and average > 0
    assert row["times FedAvg's"] == pytest.approx(whole / average)
    assert row["times FedAvg's without evaluation"] == pytest.approx((whole - evaluated) / average)


def test_the_command_prints_json_with_memory_of_a_fresh_process(capsys):
    assert command.main(["--only", "linear", "--repeats", "1", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
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
