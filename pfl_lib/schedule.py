"""How long, how often and with which optimiser clients train: one frozen description for every method."""

import math
from dataclasses import dataclass

from pfl_lib.errors import BadInput, choose


@dataclass(frozen=True)
class Schedule:
    """Rounds, local work per round and plain SGD's settings.

    `local_epochs` passes over a client's own data per round, unless `local_batches` is given: then that many mini-batches,
    continuing where the previous round stopped (Weight Erosion's Titanic runs use one).  `order` says whether each pass is
    shuffled (by seed, round and client) or takes the examples in their given order.  The learning rate of round r
    (from 1) is `lr * lr_decay ** (r - 1)`; `momentum` and `weight_decay` are torch.optim.SGD's, with momentum buffers made anew each
    round.  `participation` is the fraction of the available clients drawn each round (at least one; Alice, where there is
    one, always).  `availability` lists (client, first round, last round) for clients that are not there all the time.
    """

    rounds: int
    local_epochs: int = 1
    local_batches: int | None = None
    order: str = "shuffled"
    batch_size: int = 32
    lr: float = 0.1
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    participation: float = 1.0
    availability: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("rounds", "local_epochs", "batch_size"):
            _whole(name, getattr(self, name))
        if self.local_batches is not None:
            _whole("local_batches", self.local_batches)
        choose("order", self.order, ("shuffled", "fixed"))
        _number("lr", self.lr, "above 0", lambda v: v > 0)
        _number("lr_decay", self.lr_decay, "above 0 and at most 1", lambda v: 0 < v <= 1)
        _number("momentum", self.momentum, "from 0 to below 1", lambda v: 0 <= v < 1)
        _number("weight_decay", self.weight_decay, "0 or more", lambda v: v >= 0)
        _number("participation", self.participation, "above 0 and at most 1", lambda v: 0 < v <= 1)
        for entry in self.availability:
            if len(entry) != 3 or not (0 <= entry[0] and 1 <= entry[1] <= entry[2]):
                raise BadInput(
                    f"availability entry {entry!r}: give (client, first round, last round) with 1 <= first <= last"
                )

    def lr_at(self, round: int) -> float:
        """Learning rate of a round, counted from 1."""
        return self.lr * self.lr_decay ** (round - 1)


def _whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadInput(f"{name} {value!r}: give a whole number, 1 or more")


def _number(name: str, value: object, allowed: str, fits) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not fits(value):
        raise BadInput(f"{name} {value!r}: give a number {allowed}")
