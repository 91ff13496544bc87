"""WAFFLE (Beaussart et al. 2021): SCAFFOLD whose averages move from all clients to Alice."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, check_alice, check_settings, choose, number, setting
from pfl_lib.federation.federation import Federation, alice_of
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods.scaffold import CLIP, OPTION, Scaffold, corrected_training
from pfl_lib.rows import (
    Rows,
    as_kept,
    average,
    distances,
    each_sends_a_model,
    finite_rows,
    select_rows,
    with_rows,
)

TRANSITIONS = ("sigmoid", "linear", "step")
SAME = "same"


@dataclass(frozen=True)
class Waffle:
    """WAFFLE, Algorithms 1 and 2, for the client `fed.alice`.

    clients: as SCAFFOLD's;  server: x <- sum_i w_i y_i,  c <- sum_i w_i c_i  (Eq. 1), with w the
    mean of this round's weights and the last two rounds' (Algorithm 1, line 10); the history keeps
    the unsmoothed ones, starts at 1/N, or 1/|S| for the first participants S, and skips rounds in
    which a client was absent.

    * `slope` is Omega's and Psi's (Eq. 4): 3.2 throughout the paper (Table 3).
    * `control`: "mean" is c <- sum_i w_i c_i; "literal" is Eq. (1) as printed, c <- c + sum_i w_i
      (c_i_new - c_i).  Both are SCAFFOLD while all weights are 1/N, and local training where all
      weight is Alice's from round 1 on (section 2.1).  They differ once weights change: as
      printed, c keeps contributions of clients whose weight is zero, and Alice's last, local phase
      is biased by a constant.  The default has no such bias.
    * `transition`: Omega falls along Eq. 4's "sigmoid", along a "linear" line from 1 to 0, or in a
      "step" from 1 to 0 after half the rounds; the paper leaves other functions open.  `shift` is
      the value that section 2.2 proposes to add to r, as a share of R: above 0 local training comes
      earlier, below 0 later.
    * `psi`: Psi is the "same" function as Omega, as in the paper's experiments, or has a transition
      of its own, with the same `slope` and `shift`.  Eqs. 2 and 3 allow for two functions: Omega
      says how far Alice is set apart from the nearest client, Psi whose distance still counts.
    * `option` and `clip` are SCAFFOLD's; the paper names no option and no clip.  Server step 1.
    * With partial participation, of which the paper has none, weights are computed among the
      participants S, and Alice always takes part.  "mean" is then the mean over S, not over all N
      as SCAFFOLD's c, so that it still ends at Alice's own c_i; "literal" adds |S|/N of the change,
      as SCAFFOLD does, without which c would grow to N/|S| times a gradient.
    """

    slope: float = setting(3.2, number, "a number 0 or more, as 3.2", lambda v: 0 <= v < math.inf)
    control: str = setting("mean", choose, ("mean", "literal"))
    option: str = setting("II", *OPTION)
    clip: float | None = setting(None, *CLIP)
    transition: str = setting("sigmoid", choose, TRANSITIONS)
    shift: float = setting(0.0, number, "a share of the rounds, such as 0.1", math.isfinite)
    psi: str = setting(SAME, choose, (SAME, *TRANSITIONS))

    name, title, version = "waffle", "WAFFLE", 1
    __post_init__ = check_settings
    later = ("option", "clip", "transition", "shift", "psi")
    look = ("#d55e00", "D", "-")
    cost, served = Scaffold.cost, as_kept

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        # c as printed was once not scaled by the share of the clients that take part.
        unscaled = self.control == "literal" and schedule.participation < 1
        # A round of absence once counted as one of weight 0.
        history = {"history where clients are absent": 1 if schedule.all_take_part else 2}
        return {"literal control under participation": 2 if unscaled else 1} | history

    def degrees(self, round: int, rounds: int) -> tuple[float, float]:
        """Omega and Psi in a round."""
        of_psi = self.transition if self.psi == SAME else self.psi
        both = (self.transition, of_psi)
        return tuple(omega(round, rounds, self.slope, one, self.shift) for one in both)

    def start(self, fed: Federation) -> Rows:
        alice_of(fed, self.title)
        uniform = 1 / len(fed.participants(1))
        history = torch.full((2, len(fed)), uniform, dtype=torch.float64)
        return Scaffold().start(fed) | {"history": history}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        alice = clients.index(alice_of(fed, self.title))
        trained, own = corrected_training(fed, state, r, clients, self.option, self.clip)

        before = select_rows(state["controls"], clients)
        # Between models as between updates, since all start from one x.
        apart = distances(trained["theta"], trained["theta"][alice])
        # A client whose training ended in NaN or infinity is infinitely far away: it has no weight
        # and keeps its control variate.  Where that is Alice, the run diverges.
        sound = finite_rows(own) & finite_rows(trained["statistics"])
        lost = ~(apart.isfinite() & sound.cpu())
        near = (~lost).nonzero()[:, 0].tolist()
        now = torch.zeros(len(clients), dtype=torch.float64)
        if lost[alice]:
            now[:] = math.nan
        elif 100 * r >= 95 * fed.schedule.rounds:  # Algorithm 1: the last twentieth is Alice's
            now[alice] = 1
        else:
            degrees = self.degrees(r, fed.schedule.rounds)
            now[near] = weights(apart[near], near.index(alice), *degrees)
        smoothed = torch.stack([*state["history"][:, clients], now]).nanmean(0)
        if lost[alice]:
            smoothed[:] = math.nan
        elif lost.any():
            smoothed[lost] = 0
            own = torch.where(lost.to(own.device)[:, None], before, own)
        smoothed /= smoothed.sum()

        moved = own if self.control == "mean" else (own - before) * (len(clients) / len(fed))
        control = smoothed.to(moved) @ moved + (0 if self.control == "mean" else state["control"])
        controls = with_rows(state["controls"], clients, own)
        here = torch.full((len(fed),), math.nan, dtype=torch.float64)
        here[clients] = now
        history = torch.stack([state["history"][1], here])
        kept = {"control": control, "controls": controls, "history": history}
        log = each_sends_a_model(smoothed, clients, len(fed), models=2)
        return average(smoothed, trained) | kept, log


def omega(
    round: int, rounds: int, slope: float = 3.2, transition: str = "sigmoid", shift: float = 0.0
) -> float:
    """Eq. 4: 1 / (1 + exp(slope (r / (R/2) - 1))): near 1 early (global training), 0.5 half-way,
    near 0 late (local training).

    "linear" is 1 - r/R, "step" 1 up to r = R/2, then 0, both without slope.  r grows by `shift` R.
    """
    if not 1 <= round <= rounds:
        raise BadInput(f"round {round} is not between 1 and {rounds}, the number of rounds")
    # Alice's weight needs more than zero, such as 1e-304; beyond 700 the exponential is no float.
    if choose("transition", transition, TRANSITIONS) == "linear":
        return min(max(1 - round / rounds - shift, 1e-304), 1.0)
    if transition == "step":
        return 1.0 if round / rounds + shift <= 0.5 else 1e-304
    return 1 / (1 + math.exp(min(slope * (2 * round / rounds - 1 + 2 * shift), 700.0)))


def weights(distances: Tensor, alice: int, omega: float, psi: float) -> Tensor:
    """Algorithm 1, lines 3 to 6 and 9: one round's unsmoothed weights [N], float64, from
    distances [N] to Alice's update (zero at Alice).

    Alice gets a distance of her own, d = dm (1 - (dM - dm)/dM (1 - Omega)) (Eq. 2), with dm, dM the
    smallest and largest of the others'; then alpha_i = max(Psi - (d_i - d) / (dM - min_j d_j), 0),
    normalised (Eq. 3; Algorithm 1's minimum over all j, which for Omega <= 1 is Alice's own).  The
    farthest client always gets 0 while Psi < 1.  Where the others' distances are all equal (always
    with two clients, and when no update differs) the rule says nothing: uniform weights.  Raises
    BadInput for a distance that is negative or not finite, and for omega or psi outside (0, 1].
    """
    distances = torch.as_tensor(distances, dtype=torch.float64).clone()
    n = len(distances)
    check_alice(alice, n)
    if not (0 < omega <= 1 and 0 < psi <= 1):
        raise BadInput(f"omega {omega!r} and psi {psi!r}: each is above 0 and at most 1")
    others = torch.cat([distances[:alice], distances[alice + 1 :]])
    if not bool((others >= 0).all() and others.isfinite().all()):
        raise BadInput(f"distances {others.tolist()}: give finite numbers, 0 or more")
    if n == 1 or others.max() == others.min():
        return torch.full((n,), 1 / n, dtype=torch.float64)
    low, high = others.min(), others.max()
    distances[alice] = low * (1 - (high - low) / high * (1 - omega))
    alpha = (psi - (distances - distances[alice]) / (high - distances.min())).clamp(min=0)
    return alpha / alpha.sum()
