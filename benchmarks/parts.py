"""What is measured of a workload: speed beside a reference in the same run, or peak memory."""

import math

import torch

from benchmarks.floor import Recorder, fastest
from benchmarks.plain import Plain
from benchmarks.timing import in_turn, peak_memory
from benchmarks.workloads import WORKLOADS, Ours, Workload, federation
from pfl_lib.engine.recording import WORTH_RECORDING
from pfl_lib.experiments.training import one_thread
from pfl_lib.federation.devices import cores

Row = dict[str, object]


def training(workload: Workload, repeats: int) -> list[Row]:
    """Rounds of FedAvg on one core beside the plain loop and beside the network's fastest
    operation, which gives the floor.

    What is timed is a round as nearly all of a paper's are, after the batches that recording takes;
    a slow network's few rounds are timed from the start.
    """
    fed = federation(workload)
    ours, plain = Ours(fed), Plain(workload, fed)
    torch.manual_seed(0)  # the plain loop shuffles with torch's own generator, as most code does
    before = 0 if workload.slow else math.ceil(WORTH_RECORDING / workload.batches)
    with one_thread():
        with Recorder() as needed:
            plain.round()
        with Recorder() as called:
            ours.round()
        several(ours.round, before)
        several(plain.round, before)
        best = fastest([*needed.operations.values(), *called.operations.values()]).repeated()
        seconds, theirs, arithmetic = in_turn(
            (
                lambda: several(ours.round, workload.rounds),
                lambda: several(plain.round, workload.rounds),
                best.call,
            ),
            max(1, repeats // 3) if workload.slow else repeats,
        )
    size = workload.rounds * workload.examples
    row = row_of(workload.title, size / seconds, "plain module and torch.optim.SGD", size / theirs)
    rate = best.count / arithmetic
    row |= {
        "s/round": seconds / workload.rounds,
        "% of floor": 100 * row["examples/s"] * needed.total / workload.examples / rate,
        "GFLOP/s": rate / 1e9,
    }
    if not workload.slow:  # too few rounds of a slow one to have learnt anything
        row |= {"accuracy": ours.accuracy(), "reference accuracy": plain.accuracy()}
    return [row]


def memory(workload: Workload) -> int:
    """Peak memory, in bytes, of a process that has done nothing but one round of the workload and
    its evaluation.
    """
    ours = Ours(federation(workload))
    with one_thread():
        ours.round()
        ours.accuracy()
    return peak_memory()


def all_cores(repeats: int) -> list[Row]:
    """LeNet-5 in one cell on all cores beside one core: clients side by side."""
    workload = WORKLOADS["lenet5"]
    side_by_side, one = Ours(federation(workload, cores())), Ours(federation(workload))
    with one_thread():
        ours, single = in_turn((side_by_side.round, one.round), repeats)
    size = workload.examples
    row = row_of(
        f"one cell on {count(cores(), 'core')}", size / ours, "the same on one core", size / single
    )
    return [row | {"s/round": ours}]


def several(round, times: int) -> None:
    for _ in range(times):
        round()


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def row_of(workload: str, ours: float, reference: str, theirs: float) -> Row:
    """Examples a second, ours and the reference's, and their ratio."""
    return {
        "workload": workload,
        "examples/s": ours,
        "reference": reference,
        "reference examples/s": theirs,
        "ratio": ours / theirs,
    }
