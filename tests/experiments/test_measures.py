"""What a run records beside accuracy and loss: means over test batches, the initial model."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from pfl_lib.experiments import runner
from pfl_lib.experiments.measures import balanced_accuracy, batch_accuracy
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg, Local
from tests.common import refusal
from tests.experiments import common


def federation(alice: int | None = None) -> Federation:
    """Class 1 wins where x > 0.  Client 0's five test examples: four in the first batch, three of
    them right; one in the second, right.
    """
    module = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-1.0], [1.0]]))
    x = torch.tensor([[1.0], [1.0], [-1.0], [1.0], [1.0]])
    pairs = [(x, [1, 0, 0, 1, 1]), (x, [0, 1, 1, 0, 0])]
    return Federation.from_arrays(
        pairs, pairs, module, Schedule(1, batch_size=4), alice=alice, device="cpu"
    )


def finished(method, fed: Federation, *measures: str) -> runner.Run:
    return common.finished(runner.Run(method, fed, measures))


def test_batch_accuracy_is_the_plain_mean_over_batches_whatever_their_size():
    """Client 0: (3/4 + 1) / 2 = 0.875, 4 of 5 are right; client 1: (1/4 + 0) / 2, 1 of 5 is."""
    fed = federation()
    measured = batch_accuracy(fed, fed.initial(), [0, 1], 1)["batch_accuracy"]
    assert measured.tolist() == [0.875, 0.125]
    each = {name: row.expand(2, -1) for name, row in fed.initial().items()}
    measured = batch_accuracy(fed, each, [0, 1], 1)["batch_accuracy"]
    assert measured.tolist() == [0.875, 0.125]
    assert fed.evaluate(fed.initial())[1].tolist() == pytest.approx([0.8, 0.2])
    # Client 0: 1 of 2 and 3 of 3 of each label, client 1: none of 3 and 1 of 2.
    balanced = balanced_accuracy(fed, each, [0, 1], 1)["balanced_accuracy"]
    assert balanced.tolist() == pytest.approx([3 / 4, 1 / 4])


@pytest.mark.parametrize("method", [FedAvg("uniform"), Local()])
def test_start_records_the_initial_model_as_round_0(method):
    fed = federation(alice=0)
    run = common.finished(runner.Run(method, fed, ("start", "batch_accuracy"), evaluate_every=4))
    metrics = run.result({}).metrics
    assert metrics["round"].tolist() == [0, 1] and metrics["batch_accuracy"][0] == 0.875
    assert metrics["accuracy"][0] == pytest.approx(0.8) and metrics.notna().all(axis=None)
    assert len(run.weights) == 1


def pulls(**settings) -> Federation:
    """f = (theta - target)^2 / 2 for each example, written as a network whose logits are (theta -
    x) and its negative; two clients of different data, one of validation data too.
    """
    x = torch.tensor([[1.0], [2.0], [-1.0], [3.0]])
    train = [(x, [1, 1, 0, 1]), (-x, [1, 1, 0, 1])]
    module = nn.Linear(1, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.5], [-0.5]]))
        module.bias.zero_()
    schedule = Schedule(3, local_epochs=2, batch_size=2, lr=0.5, lr_decay=0.5, momentum=0.5)
    return Federation.from_arrays(
        train, train, module, schedule, validation=train[::-1], device="cpu", **settings
    )


def test_the_served_model_is_trained_on_for_evaluation_as_the_schedule_says():
    """What local training of the served model gives, with batches of its own."""
    fed = pulls()
    run = finished(FedAvg(), fed, "trained")
    metrics = run.result({}).metrics
    served = {name: row.expand(2, -1) for name, row in run.state.items()}
    after, steps = fed.train(served, 3, [0, 1], purpose="evaluation")
    loss, accuracy = fed.evaluate(after)
    assert steps.tolist() == [4, 4]
    assert metrics["loss_trained"].tolist()[-2:] == loss.tolist()
    assert metrics["accuracy_trained"].tolist()[-2:] == accuracy.tolist()
    assert (metrics["loss_trained"] < metrics["loss"]).all()
    other, _ = fed.train(served, 3, [0, 1])
    assert not torch.equal(other["theta"], after["theta"])


def test_a_model_that_training_breaks_has_no_accuracy_after_it():
    pairs = [(torch.eye(3), torch.zeros(3, dtype=torch.long))] * 2
    fed = Federation.from_arrays(pairs, pairs, nn.Linear(3, 2), Schedule(1), device="cpu")
    broken = {name: row * float("nan") for name, row in fed.initial().items()}
    loss, accuracy = fed.evaluate(broken)
    assert loss.isnan().all() and accuracy.isnan().all()


@pytest.mark.parametrize("method", [FedAvg(), Local()], ids=["shared", "own"])
def test_measuring_changes_nothing_of_the_run(method):
    plain, measured = finished(method, pulls()), finished(method, pulls(), "trained", "validation")
    assert torch.equal(plain.state["theta"], measured.state["theta"])
    plain, measured = (run.result({}).metrics for run in (plain, measured))
    assert measured[plain.columns].equals(plain)
    assert [name for name in measured if name not in plain] == [
        *("accuracy_trained", "loss_trained", "accuracy_validation", "loss_validation")
    ]


def test_validation_is_measured_on_validation_data():
    """Each client's validation data are the other's test data."""
    metrics = finished(FedAvg(), pulls(), "validation").result({}).metrics
    for name in ("accuracy", "loss"):
        by_round = metrics[f"{name}_validation"].to_numpy().reshape(3, 2)
        assert by_round[:, ::-1].tolist() == metrics[name].to_numpy().reshape(3, 2).tolist()


def test_validation_without_validation_data_is_refused_before_training():
    assert refusal(runner.Run, FedAvg(), federation(), ("validation",)) == (
        "measure 'validation' needs validation data, and the clients have none: give a validation"
        " share, or leave the measure out"
    )
    lacking = pulls()
    held = lacking.clients.splits
    held["validation"] = replace(held["validation"], index=(torch.arange(2), torch.arange(0)))
    told = refusal(runner.Run, FedAvg(), lacking, ("validation",))
    assert told.startswith("measure 'validation' needs validation data, and a client has none")
