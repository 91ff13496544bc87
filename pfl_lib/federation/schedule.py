"""How long, how often and with which optimiser clients train."""

from dataclasses import MISSING, dataclass

from pfl_lib import errors
from pfl_lib.engine.augment import AUGMENTATIONS
from pfl_lib.engine.private import DPSGD
from pfl_lib.errors import BadInput, check_settings, choose, number, setting, whole

MOST = 1_000_000  # rounds, epochs or batches that no run gets to: more are a slip of the pen
SHARE = (number, "a number above 0 and at most 1", lambda v: 0 < v <= 1)


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
    seed, round, client and batch); data sets of images only.  `private` trains by DP-SGD (`DPSGD`).
    """

    later = ("augment", "private")

    rounds: int = setting(MISSING, whole, 1, MOST)
    local_epochs: int = setting(1, whole, 1, MOST)
    local_batches: int | None = setting(None, whole, 1, MOST)
    order: str = setting("shuffled", choose, ("shuffled", "fixed"))
    batch_size: int = setting(32, whole, 1, MOST)
    lr: float = setting(0.1, *errors.ABOVE_0)
    lr_decay: float = setting(1.0, *SHARE)
    momentum: float = setting(0.0, *errors.BELOW_1)
    weight_decay: float = setting(0.0, *errors.NOT_NEGATIVE)
    participation: float = setting(1.0, *SHARE)
    availability: tuple[tuple[int, int, int], ...] = ()
    augment: str = setting("none", choose, AUGMENTATIONS)
    private: DPSGD | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.private, DPSGD | None):
            raise BadInput(f"private {self.private!r}: give DPSGD(noise=1.0, max_norm=1.0) or None")
        if self.local_batches is not None and self.local_epochs != 1:
            both = f"local_epochs {self.local_epochs} beside local_batches {self.local_batches}"
            raise BadInput(f"{both}: give one of them")
        such = "(client, first round, last round)"
        if not isinstance(self.availability, tuple):
            raise BadInput(f"availability {self.availability!r}: give a tuple of {such}")
        for entry in self.availability:
            three = isinstance(entry, tuple) and [type(part) for part in entry] == [int] * 3
            if not (three and 0 <= entry[0] and 1 <= entry[1] <= entry[2]):
                raise BadInput(f"availability entry {entry!r}: give {such} with 1 <= first <= last")

    @property
    def all_take_part(self) -> bool:
        """Whether every client is in every round."""
        return self.participation == 1 and not self.availability

    def sgd_at(self, round: int) -> dict[str, float]:
        """SGD's settings in a round, counted from 1; what is trained before it has the first's."""
        lr = self.lr * self.lr_decay ** (max(round, 1) - 1)
        return {"lr": lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
