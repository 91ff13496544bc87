"""What FedFomo's round costs beside FedAvg's: what it evaluates, and all else."""

import dataclasses
import statistics
import time

from benchmarks.parts import Row
from benchmarks.timing import peak_memory
from benchmarks.workloads import WORKLOADS, Workload, federation
from pfl_lib.experiments.training import one_thread
from pfl_lib.methods import FedAvg, FedFomo

# Few images a client, all of whom take part: the less they train, the more the rest weighs.
WORKLOAD = dataclasses.replace(
    WORKLOADS["fedfomo"], title="FedFomo's round, 100 clients of 20 images", clients=100, images=20
)
HELD_OUT = 0.2  # of the images, as in the paper


def candidates(repeats: int, workload: Workload = WORKLOAD) -> list[Row]:
    """One row, in seconds of processor time, medians of rounds taken in turn: a round of FedAvg, of
    FedFomo, what of that goes into evaluating references and candidates on validation examples, and
    the rest as a multiple of FedAvg's.
    """
    fed = federation(workload, validation=HELD_OUT)
    evaluate, evaluations = fed.evaluate, []

    def clocked(*args, **settings):
        began = time.process_time()
        found = evaluate(*args, **settings)
        evaluations.append(time.process_time() - began)
        return found

    fed.evaluate = clocked
    methods = (FedAvg(), FedFomo(n=min(5, workload.clients)))
    states = [method.start(fed) for method in methods]
    rounds: list[tuple[float, float, float]] = []
    with one_thread():
        for r in range(1, repeats + 2):
            seconds = []
            for k, method in enumerate(methods):
                evaluations.clear()
                began = time.process_time()
                states[k], _ = method.round(fed, states[k], r)
                seconds.append(time.process_time() - began)
            rounds.append((*seconds, sum(evaluations)))
    # The first round also warms up.
    timed = rounds[1:] or rounds
    plain, whole, asked = (statistics.median(times) for times in zip(*timed, strict=True))
    return [
        {
            "workload": workload.title,
            "reference": "FedAvg's round",
            "CPU s/round": whole,
            "FedAvg CPU s/round": plain,
            "evaluation CPU s/round": asked,
            "times FedAvg's": whole / plain,
            "times FedAvg's without evaluation": (whole - asked) / plain,
        }
    ]


def memory() -> int:
    """Peak memory, in bytes, of a process that has done nothing but a round of each."""
    candidates(0)
    return peak_memory()
