"""SCAFFOLD (Karimireddy et al. 2020): control variates take the drift out of local training."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, check_settings, choose, number, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.rows import (
    Batch,
    Gradient,
    Rows,
    as_kept,
    average,
    copies,
    descend,
    each_sends_a_model,
    select_rows,
    uniform,
    with_rows,
)

OPTION = (choose, ("I", "II"))
CLIP = (number, "a norm above 0, or None", lambda v: 0 < v < math.inf)


@dataclass(frozen=True)
class Scaffold:
    """SCAFFOLD, Algorithm 1, with server step 1.

    client:  y <- x;  K times  y <- y - lr (g_i(y) - c_i + c);   c_i <- by `option` (line 12)
    server:  x <- mean y_i;   c <- mean over all N clients of c_i

    * `option`: "I" is c_i <- the gradient at x, the server's model, over all of the client's data:
      "an additional pass over the local data" (section 4), in the schedule's batches.  "II" is
      c_i <- the mean of the K raw gradients g_i(y), which costs nothing; implementations use it.
    * The paper's formula for II, c_i - c + (x - y) / (K lr), is that mean without momentum and
      weight decay.  With them it is too large (tenfold at momentum 0.9), so the mean is kept.
    * The correction is added to the raw gradient, before weight decay and momentum.
    * Under partial participation too, c is the mean of all c_i.
    * `clip`: every mini-batch's gradient is shortened to at most this norm before anything else, so
      that the control variates are bounded by it too.  No paper does so; without it
      option II diverged on MNIST with ReLU units, no norms and a learning rate of 0.1.
    """

    option: str = setting("II", *OPTION)
    clip: float | None = setting(None, *CLIP)

    name, title, version = "scaffold", "SCAFFOLD", 1
    one_model = True  # the same for all clients
    later = ("option", "clip")
    look = ("#56b4e9", "^", "-.")
    served = as_kept
    __post_init__ = check_settings

    def cost(self, passes: float, read: float) -> float:
        return passes + (self.option == "I")

    def start(self, fed: Federation) -> Rows:
        return {**fed.initial(), "control": fed.zeros(), "controls": fed.zeros(len(fed))}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients = fed.participants(r)
        trained, own = corrected_training(fed, state, r, clients, self.option, self.clip)
        controls = with_rows(state["controls"], clients, own)
        weights = uniform(len(clients))
        control = uniform(len(fed)).to(controls) @ controls
        log = each_sends_a_model(weights, clients, len(fed), models=2)
        return {**average(weights, trained), "control": control, "controls": controls}, log


def corrected_training(
    fed: Federation, state: Rows, r: int, clients: list[int], option: str, clip: float | None
) -> tuple[Rows, Tensor]:
    """The clients' trained models and their control variates after them, [n, P]."""
    rows = copies(state, len(clients))
    rows["correction"] = state["control"] - select_rows(state["controls"], clients)

    def step(rows: Rows, gradient: Gradient, batch: Batch) -> None:
        # y <- y - lr (g_i(y) - c_i + c)
        raw = clipped(gradient(rows["theta"], batch, rows["statistics"]), clip)
        descend(rows, "theta", raw + rows["correction"], batch)
        if option == "II":
            rows["gradient sum"].add_(raw)

    if option == "I":
        if fed.schedule.private:
            why = "option 'I' weighs gradients by how many examples each batch drew"
            raise BadInput(f"{why}, which DP-SGD does not protect: give option='II'")
        trained, _ = fed.train(rows, r, clients, step)
        return trained, gradients_at(fed, state, r, clients, "control variates", clip)
    rows["gradient sum"] = fed.zeros(1).expand(len(clients), -1)
    trained, steps = fed.train(rows, r, clients, step, trained=("theta", "gradient sum"))
    return trained, trained.pop("gradient sum").div_(steps.to(fed.device, fed.dtype)[:, None])


def gradients_at(
    fed: Federation, state: Rows, r: int, clients: list[int], purpose: str, clip: float | None
) -> Tensor:
    """Gradients [n, P] of one model over all of each client's data; running statistics stay."""

    def add(rows: Rows, gradient: Gradient, batch: Batch) -> None:
        found = clipped(gradient(rows["theta"], batch, rows["statistics"].clone()), clip)
        rows["gradient sum"].add_(found, alpha=batch.y.shape[-1])

    rows = {**copies(state, len(clients)), "gradient sum": fed.zeros(1).expand(len(clients), -1)}
    sums, _ = fed.train(rows, r, clients, add, trained=("gradient sum",), epochs=1, purpose=purpose)
    return sums["gradient sum"].div_(fed.sizes(clients).to(fed.device, fed.dtype)[:, None])


def clipped(gradient: Tensor, clip: float | None) -> Tensor:
    """Gradients [P] or [n, P], each shortened to a norm of at most `clip`."""
    if clip is None:
        return gradient
    length = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
    return gradient * (clip / length.clamp(min=clip))
