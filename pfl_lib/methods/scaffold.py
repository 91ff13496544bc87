"""SCAFFOLD (Karimireddy et al. 2020): control variates take the drift out of local training."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from pfl_lib.federation.federation import Federation
from pfl_lib.rows import (
    Batch,
    Gradient,
    Rows,
    average,
    copies,
    descend,
    model,
    select_rows,
    uniform,
    weights_of_all,
    with_rows,
)


@dataclass(frozen=True)
class Scaffold:
    """SCAFFOLD, Algorithm 1, with server step 1 and option II for the control variates.

    client:  y <- x;  K times  y <- y - lr (g_i(y) - c_i + c);   c_i <- mean of the K raw gradients
    g_i(y) server:  x <- mean y_i;   c <- mean over all N clients of c_i

    Option II, c_i - c + (x - y) / (K lr), is that mean of gradients when there is no momentum and
    no weight decay; with them it would overestimate the gradient (tenfold at momentum 0.9), so the
    mean itself is kept.  The correction is added to the raw gradient, before weight decay and
    momentum.  c stays the mean of the c_i under partial participation too, since each round changes
    it by 1/N of the participants' changes.  WAFFLE's paper gives neither option nor server step.
    """

    name: ClassVar[str] = "scaffold"
    title: ClassVar[str] = "SCAFFOLD"
    version: ClassVar[int] = 1

    def start(self, fed: Federation) -> dict[str, Tensor]:
        return {**fed.initial(), "control": fed.zeros(), "controls": fed.zeros(len(fed))}

    def round(
        self, fed: Federation, state: dict[str, Tensor], r: int
    ) -> tuple[dict[str, Tensor], dict]:
        clients = fed.participants(r)
        trained, controls = corrected_training(fed, state, r, clients)
        weights = uniform(len(clients))
        control = uniform(len(fed)).to(controls) @ controls
        log = {
            "weights": weights_of_all(weights, clients, len(fed)),
            "models_up": 2 * len(clients),
            "models_down": 2 * len(clients),
        }
        return {**average(weights, trained), "control": control, "controls": controls}, log

    def served(self, fed: Federation, state: dict[str, Tensor]) -> Rows:
        return model(state)


def corrected_training(
    fed: Federation, state: dict[str, Tensor], r: int, clients: list[int]
) -> tuple[Rows, Tensor]:
    """The clients' part of a round: their trained models ([n, P]) and all control variates after it
    ([N, P]).
    """
    rows = {
        **copies(state, len(clients)),
        "correction": state["control"] - select_rows(state["controls"], clients),
        "gradient sum": fed.zeros(1).expand(len(clients), -1),
    }
    trained, steps = fed.train(rows, r, clients, corrected_step, trained=("theta", "gradient sum"))
    del rows  # with a thousand clients every [n, P] counts
    means = trained.pop("gradient sum").div_(steps.to(fed.device, fed.dtype)[:, None])
    return trained, with_rows(state["controls"], clients, means)


def corrected_step(rows: Rows, gradient: Gradient, batch: Batch) -> None:
    """y <- y - lr (g_i(y) - c_i + c)."""
    raw = gradient(rows["theta"], batch, rows["statistics"])
    rows["gradient sum"].add_(raw)
    descend(rows, "theta", raw + rows["correction"], batch)
