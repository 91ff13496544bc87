"""WAFFLE's MNIST round in other libraries, each through its own public interface: Apple's `pfl` and
Flower's `flwr[simulation]`.

Equal work: ten clients with the same 6,000 images of each, batches of 32, one epoch of plain SGD,
uniform FedAvg, LeNet-5 in its textbook form from the same initial values, inputs normalised and in
memory before the clock starts, no evaluation between rounds.  Rounds are timed where the library
says that one is done, and the first, which starts what has to be started, is left out.  `pfl` takes
its batches in a fixed order (it has no shuffling of its own), Flower's client shuffles as ours
does.
"""

import dataclasses
import functools
import importlib.util
import itertools
import os
import statistics
import time

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.parts import Row, count, row_of
from benchmarks.plain import Plain, TextbookLeNet5, train
from benchmarks.workloads import WORKLOADS, Ours, Workload, federation
from pfl_lib.experiments.training import one_thread
from pfl_lib.federation.devices import cores
from pfl_lib.federation.federation import Federation

IMAGES = 6_000  # a client's, as in WAFFLE
TITLES = {"pfl": "pfl, one core", "flwr": "flwr[simulation], all cores"}

Timed = tuple[list[float], dict[str, Tensor]]
"""When each round was done, and the shared model afterwards, by name."""


def peer(name: str, repeats: int, images: int = IMAGES) -> list[Row]:
    """Ours on as many cores as the library gets, then the library, then ours again; medians over
    rounds.
    """
    workload = dataclasses.replace(WORKLOADS["lenet5"], images=images)
    threads = cores() if name == "flwr" else 1
    title = f"a WAFFLE round on {count(threads, 'core')}"
    if importlib.util.find_spec(name) is None:
        missing = f"{TITLES[name]}: not installed: pip install -e '.[peers]'"
        return [{"workload": title, "reference": missing}]
    rounds = max(2, min(repeats, 5))
    fed = federation(workload, threads)
    plain = Plain(workload, fed)
    with one_thread():
        before, _ = _ours(fed, rounds)
        moments, model = (_pfl if name == "pfl" else _flwr)(plain, rounds)
        after, accuracy = _ours(fed, rounds)
    seconds = statistics.median(before + after)
    theirs = statistics.median(b - a for a, b in itertools.pairwise(moments))
    plain.module.load_state_dict(model)
    row = row_of(title, workload.examples / seconds, TITLES[name], workload.examples / theirs)
    row |= {"s/round": seconds, "accuracy": accuracy, "reference accuracy": plain.accuracy()}
    return [row]


def _ours(fed: Federation, rounds: int) -> tuple[list[float], float]:
    ours, seconds = Ours(fed), []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        ours.round()
        seconds.append(time.perf_counter() - began)
    return seconds[1:], ours.accuracy()


def _pfl(plain: Plain, rounds: int) -> Timed:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    class Network(TextbookLeNet5):
        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self(x), y)

        def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
            return {"loss": Weighted(F.cross_entropy(self(x), y, reduction="sum").item(), len(y))}

    class Clock(TrainingProcessCallback):
        def __init__(self) -> None:
            self.moments: list[float] = []

        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            self.moments.append(time.perf_counter())
            return False, Metrics()

    module, workload = Network(), plain.workload
    module.load_state_dict(plain.module.state_dict())
    datasets = [PyTorchTensorDataset(pair) for pair in plain.clients]
    sampler = MinimizeReuseUserSampler(list(range(workload.clients)))
    data = FederatedDataset(datasets.__getitem__, sampler)
    clock = Clock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=rounds + 1,
            evaluation_frequency=10**9,  # the first round is evaluated all the same; it is left out
            train_cohort_size=workload.clients,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_batch_size=workload.batch, local_learning_rate=workload.lr
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    return clock.moments, module.state_dict()


def _flwr(plain: Plain, rounds: int) -> Timed:
    os.environ.update(
        FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0"
    )  # both report to their makers by default
    from flwr.app import ArrayRecord, MetricRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server = ClientApp(), ServerApp()
    client.train()(functools.partial(flower_client, workload=plain.workload))
    moments: list[float] = []
    models: list[dict[str, Tensor]] = []

    def done(round: int, arrays: ArrayRecord) -> MetricRecord | None:
        moments.append(time.perf_counter())
        models[:] = [arrays.to_torch_state_dict()] if round == rounds + 1 else []

    @server.main()
    def main(grid, context) -> None:
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0)
        start = ArrayRecord(plain.module.state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds + 1, evaluate_fn=done)

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=plain.workload.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": cores(), "include_dashboard": False, "log_to_driver": False},
        },
    )
    # The first moment is the evaluation before round 1, the second the end of the round that
    # started everything.
    return moments[1:], models[0]


def flower_client(message, context, workload: Workload):
    """What Flower runs for one client in one of its processes: load the shared model, train, send
    it back.
    """
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    with one_thread():
        plain = _in_this_process(workload)
        x, y = plain.clients[int(context.node_config["partition-id"])]
        plain.module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        train(plain.module, x, y, workload.batch, workload.lr)
    content = {
        "arrays": ArrayRecord(plain.module.state_dict()),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(content=RecordDict(content), reply_to=message)


@functools.lru_cache(maxsize=1)
def _in_this_process(workload: Workload) -> Plain:
    return Plain(workload, federation(workload))
