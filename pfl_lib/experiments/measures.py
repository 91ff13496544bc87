"""What a run may record beside each round's accuracy and loss: measurements of the served model, by
name.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pfl_lib.federation.federation import Federation
from pfl_lib.rows import Rows

START = "start"
"""The measure that is no column: the served model is also evaluated before the first round, as
round 0.
"""

Measure = Callable[[Federation, Rows, Sequence[int]], Tensor]
"""A federation, a model ([P]) or each client's own ([n, P]), and the n clients to one number for
each, [n] in float64.
"""


def batch_accuracy(fed: Federation, model: Rows, clients: Sequence[int]) -> Tensor:
    """Accuracy as Weight Erosion's code reports it: the plain mean over test batches, whatever
    their size, 0 to 1.

    Batches are the schedule's, in the order of the test set, so a short last batch weighs as much
    as a full one.  In AGE_STRICT agent 2's 162 test passengers make batches of 161 and of 1: that
    one passenger is half of the accuracy, and is why the paper sees more than 90 % where 85 % are
    right.
    """
    values = []
    for k, client in enumerate(clients):
        one = (
            model
            if model["theta"].dim() == 1
            else {name: matrix[k] for name, matrix in model.items()}
        )
        _, correct = fed.examples(one, "test", client)
        values.append(
            torch.stack([batch.mean() for batch in correct.split(fed.schedule.batch_size)]).mean()
        )
    return torch.stack(values)


MEASURES: dict[str, Measure] = {"batch_accuracy": batch_accuracy}

VERSIONS: dict[str, int] = {}
"""Part of a result's key: raised by hand when a measure gives other numbers; 1 where not named."""
