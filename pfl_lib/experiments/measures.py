"""What a run may record beside accuracy and loss: measurements of the served model, by name."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, choose
from pfl_lib.federation.federation import Federation
from pfl_lib.rows import Rows, copies

START = "start"
"""The measure without a column: the served model is evaluated before round 1 too, as round 0."""

Clients, Columns = Sequence[int], dict[str, Tensor]
Measure = Callable[[Federation, Rows, Clients, int], Columns]
"""A federation, a model ([P]) or each client's own ([n, P]), the n clients and the round to columns
of one number for each client, [n] in float64.
"""


def batch_accuracy(fed: Federation, model: Rows, clients: Clients, round: int) -> Columns:
    """Accuracy as Weight Erosion's code reports it: the plain mean over test batches, 0 to 1.

    Batches are the schedule's, in the order of the test set, so a short last batch weighs as much
    as a full one.  In AGE_STRICT client 2's 162 test passengers make batches of 161 and of 1: that
    one passenger is half of the accuracy, so the paper sees more than 90 % where 85 % are right.
    """
    rows, means = _rows(model, clients), []
    for k, client in enumerate(clients):
        _, correct = fed.examples({name: row[k] for name, row in rows.items()}, "test", client)
        batches = correct.split(fed.schedule.batch_size)
        means.append(torch.stack([batch.mean() for batch in batches]).mean())
    return {"batch_accuracy": torch.stack(means)}


def balanced_accuracy(fed: Federation, model: Rows, clients: Clients, round: int) -> Columns:
    """The mean over a client's classes of the share of their test examples that are right, 0 to 1:
    of k classes 1 / k for a model that always says one of them.
    """
    rows, means = _rows(model, clients), []
    for k, client in enumerate(clients):
        _, correct = fed.examples({name: row[k] for name, row in rows.items()}, "test", client)
        labels = fed.clients.splits["test"].labels[client].cpu()
        each = [correct[labels == label].mean() for label in labels.unique()]
        means.append(torch.stack(each).mean())
    return {"balanced_accuracy": torch.stack(means)}


def trained(fed: Federation, model: Rows, clients: Clients, round: int) -> Columns:
    """Test accuracy and loss of the served model after each client's own local work of this round.

    Plain SGD by the schedule, on batches drawn for this alone and on the labels of the data, also
    where `Poisoned` clients train on others; the run itself goes on as if it had
    not been measured.  A loss may be infinite or NaN here.
    """
    after, _ = fed.train(_rows(model, clients), max(round, 1), clients, purpose="evaluation")
    loss, accuracy = fed.evaluate(after, clients=clients)
    return {"accuracy_trained": accuracy, "loss_trained": loss}


def validation(fed: Federation, model: Rows, clients: Clients, round: int) -> Columns:
    """Accuracy and loss of the served model on each client's validation data."""
    loss, accuracy = fed.evaluate(model, "validation", clients)
    return {"accuracy_validation": accuracy, "loss_validation": loss}


def _rows(model: Rows, clients: Clients) -> Rows:
    return copies(model, len(clients)) if model["theta"].dim() == 1 else model


MEASURES: dict[str, Measure] = {
    of.__name__: of for of in (batch_accuracy, balanced_accuracy, trained, validation)
}

VERSIONS: dict[str, int] = {}
"""Part of a result's key: raised by hand when a measure gives other numbers; 1 where not named."""


def check_names(names: Sequence[str]) -> None:
    """BadInput for a measure that is none, and for one that is named twice."""
    for name in names:
        choose("measure", name, (START, *MEASURES))
    if len({*names}) < len(names):
        raise BadInput(f"measures {names!r}: give each of them once")


def check(names: Sequence[str], fed: Federation) -> None:
    """BadInput as `check_names`, and for one that needs what the federation does not have."""
    check_names(names)
    if "validation" in names:
        held = fed.clients.splits.get("validation")
        if held is None or not all(len(held.index[i]) for i in fed.evaluated_clients):
            who = "the clients have none" if held is None else "a client has none"
            told = f"measure 'validation' needs validation data, and {who}"
            raise BadInput(f"{told}: give a validation share, or leave the measure out")
