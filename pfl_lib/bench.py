"""`pfl-lib bench`: how fast this machine trains, beside references timed in the same run.

Times on their own say little on a shared machine, so every workload is timed in turn with its reference, A B A B ..., and the ratio
of the medians is what counts.  The data are random: speed does not depend on what is in the pictures.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfl_lib import arguments, clients, models
from pfl_lib.federation import Federation, cores
from pfl_lib.rows import copies
from pfl_lib.schedule import Schedule
from pfl_lib.study import one_thread

CLIENTS, IMAGES, BATCH = 10, 640, 32  # a tenth of a WAFFLE round: the same steps, a tenth as many


def add_parser(subparsers) -> None:
    """Add `bench` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        help="speed beside references, timed in the same run",
        description="Time local training and whole cells beside references in the same run and print examples per second and "
        "ratios.  Run it on a quiet machine; takes about two minutes.",
    )
    parser.add_argument("--repeats", type=arguments.at_least_one, default=7, metavar="N", help="timings of each (7)")
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="for reading, or for programs (table)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Time every workload and print one row each."""
    rows = [local_training(args.repeats), threads(args.repeats), cells(max(3, args.repeats // 2))]
    if args.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    import pandas as pd

    table = pd.DataFrame(rows).set_index("workload")
    print(table.to_string(float_format=lambda value: f"{value:,.2f}" if value < 100 else f"{value:,.0f}"))
    return 0


def local_training(repeats: int) -> dict[str, object]:
    """LeNet-5, ten clients, batch 32, one core: `Federation.train` beside a plain module-and-SGD loop."""
    fed, x, y = _federation(1)
    with one_thread():
        ours, plain = in_turn(lambda: _round(fed), lambda: _plain_round(x, y), repeats)
    return _row(
        "local training, one core",
        CLIENTS * IMAGES / ours,
        "plain module and torch.optim.SGD",
        CLIENTS * IMAGES / plain,
    )


def threads(repeats: int) -> dict[str, object]:
    """One cell on all cores beside one core: clients side by side in threads."""
    one, _, _ = _federation(1)
    several, _, _ = _federation(cores())
    with one_thread():
        ours, single = in_turn(lambda: _round(several), lambda: _round(one), repeats)
    return _row(
        f"one cell on {cores()} cores", CLIENTS * IMAGES / ours, "the same on one core", CLIENTS * IMAGES / single
    )


def cells(repeats: int) -> dict[str, object]:
    """As many cells at once as there are cores, in processes as `run_cells` starts them, beside one cell alone."""
    import joblib

    n = cores()
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1), joblib.Parallel(n_jobs=n) as parallel:
        parallel(joblib.delayed(_cell_seconds)() for _ in range(2 * n))  # start the processes, warm them up
        # Throughput counted over the slowest of those that ran together.
        together = lambda: max(parallel(joblib.delayed(_cell_seconds)() for _ in range(n)))  # noqa: E731
        alone = lambda: parallel([joblib.delayed(_cell_seconds)()])[0]  # noqa: E731
        pairs = [(together(), alone()) for _ in range(repeats)]
    several, single = (statistics.median(times) for times in zip(*pairs, strict=True))
    return _row(f"{n} cells at once", n * CLIENTS * IMAGES / several, "one cell", CLIENTS * IMAGES / single)


def in_turn(ours: Callable[[], None], reference: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Median seconds of both, timed in turn after one unrecorded run of each."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for k, call in enumerate((ours, reference)):
            began = time.perf_counter()
            call()
            if repeat:
                times[k].append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def _row(workload: str, ours: float, reference: str, theirs: float) -> dict[str, object]:
    return {
        "workload": workload,
        "examples/s": ours,
        "reference": reference,
        "reference examples/s": theirs,
        "ratio": ours / theirs,
    }


def _federation(threads: int) -> tuple[Federation, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(0, 256, (CLIENTS * IMAGES, 1, 28, 28), dtype=torch.uint8, generator=generator)
    y = torch.randint(0, 10, (CLIENTS * IMAGES,), generator=generator)
    pairs = list(zip(x.split(IMAGES), y.split(IMAGES), strict=True))
    held = clients.from_arrays(pairs, pairs, classes=10)
    schedule = Schedule(rounds=1, batch_size=BATCH, lr=0.01)
    make = lambda: models.build("lenet5", (1, 28, 28), 10)  # noqa: E731
    return Federation(held, make, schedule, device="cpu", engine="loop", threads=threads), x, y


def _round(fed: Federation) -> None:
    fed.train(copies(fed.initial(), CLIENTS), 1, range(CLIENTS))


def _cell_seconds() -> float:
    os.environ["OMP_NUM_THREADS"] = "1"
    fed, _, _ = _federation(1)
    with one_thread():
        _round(fed)
        began = time.perf_counter()
        for _ in range(3):
            _round(fed)
    return (time.perf_counter() - began) / 3


class _Textbook(models.LeNet5):
    """LeNet-5 as textbooks write it: activation, then pooling."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.max_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def _plain_round(x: Tensor, y: Tensor) -> None:
    """A round as most code writes it: float images in memory, a module and an optimiser per client."""
    images = x.float() / 255
    start = _Textbook().state_dict()
    for inputs, labels in zip(images.split(IMAGES), y.split(IMAGES), strict=True):
        module = _Textbook()
        module.load_state_dict(start)
        optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
        loss_of: nn.Module = nn.CrossEntropyLoss()
        for batch in torch.randperm(IMAGES).split(BATCH):
            optimiser.zero_grad()
            loss_of(module(inputs[batch]), labels[batch]).backward()
            optimiser.step()
