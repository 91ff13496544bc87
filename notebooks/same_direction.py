"""A method of twenty lines: the example of 03_your_method.ipynb and docs/own_work.md."""

from dataclasses import dataclass

import torch

from pfl_lib.rows import copies


@dataclass(frozen=True)
class SameDirection:
    """Average, for each client, the models of those whose update points the way its own does."""

    power: float = 1.0  # of the cosine: the higher, the more a client keeps to its likes
    name, title, version = "same_direction", "Same direction", 1

    def start(self, fed):
        """The state: a row for each client, all from one initial model."""
        return copies(fed.initial(), len(fed))

    def round(self, fed, state, r):
        """Train who takes part; mix their models by the cosines between their updates."""
        there = fed.participants(r)
        before = {name: matrix[there] for name, matrix in state.items()}
        trained, _ = fed.train(before, r, there)
        updates = torch.nn.functional.normalize(trained["theta"] - before["theta"])  # [n, P]
        weights = (updates @ updates.T).clamp(min=0).double() ** self.power
        weights.fill_diagonal_(1)  # an update of 0 points nowhere: such a client keeps its own
        weights = weights / weights.sum(1, keepdim=True)  # row i: client i's model
        after = {name: matrix.clone() for name, matrix in state.items()}
        for name, matrix in trained.items():
            after[name][there] = (weights @ matrix.double()).to(matrix.dtype)
        return after, {"weights": weights}

    def served(self, fed, state):
        """Each client its own row."""
        return state
