"""Weight Erosion (Grimberg et al. 2020): clients far from Alice lose their weight bit by bit."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import NOT_NEGATIVE, check_settings, choose, number, setting
from pfl_lib.federation.federation import Federation, alice_of
from pfl_lib.rows import Rows, as_kept, average, copies, distances, each_sends_a_model, finite_rows


@dataclass(frozen=True)
class WeightErosion:
    """Weight Erosion, Algorithm 1, for the client `fed.alice`, whom the paper calls the user.

    Every client trains from Alice's model; d_i = ||g_i - g_0|| / ||g_0|| (Eq. 4), alpha_i erodes
    by it (Eq. 5), and the model becomes the alpha-weighted mean of the clients' models (Eq. 6).

    * g_i is the local update y_i - x (footnote 2: "local SGD updates, used in the same way").
    * `p_d`, `p_s`: the paper's 0.01 and 0.2 for the Titanic.  WAFFLE's benchmark uses the p_d of
      its Table 3 and leaves p_s open: 0 there, since Eq. 5 taken literally cannot act within
      MNIST's 100 rounds; on CIFAR-10 it would from round 41 on.
    * passes in Eq. 5: completed passes over the client's own data, as they were made.
      `counting="before"` counts those of earlier rounds, as Eq. 5's (r - 1) does; "after" includes
      this round's, as the authors' code does.  Eq. 5 as printed, floor((r - 1) b / n_i), supposes
      one full batch a round.  It counts fewer passes where a round has more batches, and more
      where the last batch of a pass is short: 17 against 14 for n_i = 263, b = 161, r = 30.
      "batches" is that formula with n_i in batches of b, as in the code of WAFFLE's authors
      (`passes_in_batches`): b times as many as printed.
    * A client that first takes part after the first round starts with the `newcomer` "mean" or
      "median" of the others' weights (section 3), whether it was not there before or was never
      drawn: nothing is known of its distance.  One that comes back has the weight it left with.
    """

    p_d: float = setting(0.01, number, "a penalty of 0 or more", lambda v: v >= 0)
    p_s: float = setting(0.2, *NOT_NEGATIVE)
    counting: str = setting("before", choose, ("before", "after", "batches"))
    newcomer: str = setting("mean", choose, ("mean", "median"))

    name, title, short, version = "weight_erosion", "Weight Erosion", "WE", 1
    look = ("#029e73", "s", "-")
    served = as_kept
    __post_init__ = check_settings

    def start(self, fed: Federation) -> Rows:
        alice_of(fed, self.title)
        unknown = torch.full((len(fed),), float("nan"), dtype=torch.float64)
        return {**fed.initial(), "weights": unknown, "batches": torch.zeros_like(unknown)}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        alice = clients.index(alice_of(fed, self.title))
        trained, steps = fed.train(copies(state, len(clients)), r, clients)
        updates = trained["theta"] - state["theta"]
        # A model whose running statistics alone are infinite is as far away as any other lost one
        updates[~finite_rows(trained["statistics"])] = math.inf

        alphas = welcome(state["weights"], clients, self.newcomer)
        used = state["batches"].clone()
        used[clients] += steps
        if self.counting == "batches":
            passes = passes_in_batches(r, fed.sizes(), fed.schedule.batch_size)
        else:
            batches_a_pass = (fed.sizes() / fed.schedule.batch_size).ceil()
            counted = used if self.counting == "after" else state["batches"]
            passes = (counted / batches_a_pass).floor()
        apart = relative_distances(updates, alice)
        alphas[clients] = erode(alphas[clients], apart, self.p_d, self.p_s, passes[clients])

        weights = alphas[clients] / alphas[clients].sum()
        log = each_sends_a_model(alphas[clients], clients, len(fed))
        return {**average(weights, trained), "weights": alphas, "batches": used}, log


def erode(
    weights: Tensor, distances: Tensor, p_d: float, p_s: float = 0.0, passes: Tensor | float = 0
) -> Tensor:
    """Eq. 5: max(0, alpha_i - (1 + p_s passes_i) p_d d_i), [N]; `passes` counts how often each
    client's data has been used.

    Infinite distances (Alice's own update is zero) give weight 0, unless p_d is 0: then nothing
    erodes.  An infinite p_d leaves weight only where the distance is 0.
    """
    weights = torch.as_tensor(weights, dtype=torch.float64)
    distances = torch.as_tensor(distances, dtype=torch.float64)
    penalty = (1 + p_s * torch.as_tensor(passes, dtype=torch.float64)) * p_d
    eroding = (penalty > 0) & (distances != 0)  # not 0 * infinity
    return (weights - torch.where(eroding, penalty * distances, 0.0)).clamp(min=0)


def passes_in_batches(r: int, sizes: Tensor, batch_size: int) -> Tensor:
    """floor((r - 1) b / n_i) with n_i the client's number of batches, [N] of `sizes` [N]: what
    `compute_weight` of MartinBeaussart/Weight_Erosion_ML is given, in place of examples.
    """
    return ((r - 1) * batch_size / (sizes / batch_size).ceil()).floor()


def relative_distances(updates: Tensor, alice: int) -> Tensor:
    """Eq. 4: ||g_i - g_0|| / ||g_0|| of updates [n, P], [n] in float64; infinite where g_0 is zero
    and g_i is not (Appendix A, Example 3), and where g_i holds NaN and g_0 is finite.
    """
    apart = distances(updates, updates[alice])
    length = torch.linalg.vector_norm(updates[alice]).double().cpu()
    if length.isfinite():
        apart = torch.where(apart.isnan(), math.inf, apart)
    return torch.where(apart == 0, 0.0, apart / length)


def welcome(weights: Tensor, clients: list[int], newcomer: str) -> Tensor:
    """The weights [N], newcomers' (nan) filled in: 1 in the first round, then mean or median."""
    weights, known = weights.clone(), weights[~weights.isnan()]
    known = known if len(known) else torch.ones_like(weights)
    new = [i for i in clients if weights[i].isnan()]
    weights[new] = known.mean() if newcomer == "mean" else known.quantile(0.5)
    return weights
