"""How long, how often and with which optimiser clients train."""

import math
from dataclasses import dataclass

from pfl_lib.engine.augment import AUGMENTATIONS
from pfl_lib.engine.private import DPSGD
from pfl_lib.errors import BadInput, choose, number, whole

MOST = 1_000_000
"""Rounds, epochs or batches that no run gets to: more are a slip of the pen."""


@dataclass(frozen=True)
class Schedule:
    """Rounds, local work per round and plain SGD's settings.

    A client takes `local_epochs` passes over its own data per round, or, where given,
    `local_batches` mini-batches, continuing where the previous round stopped (Weight Erosion's
    Titanic runs use one); the place in a pass goes on in rounds without the client too.  `order`:
    "shuffled" (by seed, round and client) or "fixed".  The learning rate of round r (from 1) is
    `lr * lr_decay ** (r - 1)`; `momentum` and `weight_decay` are torch.optim.SGD's, with momentum
    buffers made anew each round.  `participation` is the fraction of the available clients drawn
    each round (at least one; Alice, where there is one, always).  `availability` lists (client,
    first round, last round) for clients that are not there all the time, several where one comes
    back.  `augment` "crop_flip" moves and mirrors the images of every training batch at random (by
    seed, round, client and batch); data sets of images only.  `private` trains by DP-SGD (`DPSGD`,
    which says how batches are then drawn).
    """

    later = ("augment", "private")

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
    augment: str = "none"
    private: DPSGD | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "local_epochs", "batch_size"):
            whole(name, getattr(self, name), 1, MOST)
        if self.local_batches is not None:
            whole("local_batches", self.local_batches, 1, MOST)
        choose("order", self.order, ("shuffled", "fixed"))
        choose("augment", self.augment, AUGMENTATIONS)
        if not isinstance(self.private, DPSGD | None):
            raise BadInput(f"private {self.private!r}: give DPSGD(noise=1.0, max_norm=1.0) or None")
        number("lr", self.lr, "a number above 0", lambda v: 0 < v < math.inf)
        for name in ("lr_decay", "participation"):
            wanted = "a number above 0 and at most 1"
            number(name, getattr(self, name), wanted, lambda v: 0 < v <= 1)
        number("momentum", self.momentum, "a number from 0 to below 1", lambda v: 0 <= v < 1)
        number("weight_decay", self.weight_decay, "a number 0 or more", lambda v: 0 <= v < math.inf)
        if not isinstance(self.availability, tuple):
            raise BadInput(
                f"availability {self.availability!r}: give a tuple of (client, first round, last"
                " round)"
            )
        for entry in self.availability:
            three = isinstance(entry, tuple) and [type(part) for part in entry] == [int] * 3
            if not (three and 0 <= entry[0] and 1 <= entry[1] <= entry[2]):
                raise BadInput(
                    f"availability entry {entry!r}: give (client, first round, last round) with 1"
                    " <= first <= last"
                )

    def lr_at(self, round: int) -> float:
        """Learning rate of a round, counted from 1."""
        return self.lr * self.lr_decay ** (round - 1)
