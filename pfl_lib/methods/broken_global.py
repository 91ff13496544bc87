"""The baseline "Global" of Weight Erosion's Figure 1, which is not an average."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.engine.layout import Layout, views
from pfl_lib.errors import BadInput
from pfl_lib.federation.federation import Federation
from pfl_lib.rows import Rows, as_kept, average, copies, uniform


@dataclass(frozen=True)
class BrokenGlobal:
    """What Weight Erosion's Figure 1 calls FedAvg, as its authors' code computes it; see `FedAvg`.

    The code adds the clients' updates with `reduce(lambda a, b: tree_multimap(sum, a, b), updates)`
    and divides by their number (EPFLiGHT/coML-Personalized-v2, Jax_federated_learning.ipynb,
    `average_params`).  Python's sum(a, b) is not a + b: it starts at b and adds the rows of a,

        sum(a, b) = b + a[0] + a[1] + ...,

    so only the last client's update keeps its entries; every other client's are summed over the
    inputs (a bias over the classes), and that one number is added everywhere.  Each later sum
    repeats this: with the Titanic's nine inputs Alice's own update, the first of four, comes in
    81-fold.  Hence the small learning rate of 0.07, and the jumps from round to round.

    * Alice's update comes first, the others follow in ascending order, as in the authors' list.
    * Haiku keeps weights as [inputs, outputs]: the authors' rows are the last axis in torch.
    * Made for linear models; running statistics, which those do not have, are averaged.
    """

    name, title, version = "broken_global", "Global (authors' code)", 1
    one_model = True  # the same for all clients
    served = as_kept

    def start(self, fed: Federation) -> Rows:
        for block in fed.layout.parameters:
            if len(block.shape) > 2:
                found = f"parameter {block.name} has shape {block.shape}"
                raise BadInput(f"{self.title} is made for linear models: {found}")
        return fed.initial()

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = sorted(fed.participants(r), key=lambda client: (client != fed.alice, client))
        trained, _ = fed.train(copies(state, len(clients)), r, clients)
        total = broken_sum(trained["theta"] - state["theta"], fed.layout)
        after = average(uniform(len(clients)), trained)
        after["theta"] = state["theta"] + total / len(clients)
        return after, {"models_up": len(clients), "models_down": len(clients)}


def broken_sum(updates: Tensor, layout: Layout) -> Tensor:
    """Python's sum(...sum(sum(u_1, u_2), u_3)..., u_n) of updates [n, P] by parameter: [P]."""
    total, *others = updates
    for update in others:
        tensors = views(layout.parameters, total).values()
        # Over inputs; of a bias over its entries
        added = [one.sum(-1, keepdim=True).expand_as(one).reshape(-1) for one in tensors]
        total = update + torch.cat(added)
    return total
