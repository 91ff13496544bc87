"""WAFFLE's Figure 1 as a run: the personalised model and the clients' local models over three
rounds, in a plane.

The paper draws a sketch.  Here three clients fit linear regressions of two parameters, so that a
model is a point, and the package's own methods train them: Alice (client 0), client 1, whose best
model lies near hers, and client 2, whose best model does not.  Each local epoch is one step with
the gradient over all of a client's examples.  The numbers are chosen for the eye.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from pfl_lib.display.theme import blank, look, theme
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Method, Waffle
from pfl_lib.methods.scaffold import corrected_training
from pfl_lib.papers.profiles import Profile

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    from matplotlib.figure import Figure

ROUNDS, STEPS, LR, ALICE = 3, 6, 0.25, 0
NAMES = ("Alice", "client 1", "client 2")
BEST = ((4.0, 1.0), (3.2, 2.6), (-1.0, 3.4))
"""Where each client's loss is zero."""
INPUTS = (
    ((1.3, 0.2), (-0.2, 0.8)),
    ((1.0, 0.4), (0.3, 0.9)),
    ((0.8, -0.4), (0.4, 1.2)),
)
"""Each client's two examples a, [2]; their targets are a . theta at its best model."""

PROFILES = {
    name: Profile(
        name=name,
        data="three clients and linear regressions of this page's own, the same in every profile",
        seeds=(1,),
        paper_seeds=1,
        settings=(),
    )
    for name in ("quick", "small", "paper")
}


class Regression(nn.Module):
    """Two parameters theta; the cross-entropy of an example (a, b) with label 0 is
    1 + (a . theta - b)^2 / 2, squared error but for the 1.

    With logits (0, z) the cross-entropy of label 0 is log(1 + exp(z)); z = log(exp(q) - 1) makes
    that q.
    """

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        q = 1 + (x[..., :2] @ self.theta - x[..., 2]).square() / 2
        z = q + torch.log(-torch.expm1(-q))
        return torch.stack([torch.zeros_like(z), z], -1)


@dataclass(frozen=True, eq=False)
class Path:
    """What a method did: `models` [rounds + 1, 2], the start first; `weights` [rounds, clients];
    `local` [rounds, clients, steps + 1, 2], each client's models in a round (None where unknown).
    """

    models: np.ndarray
    weights: np.ndarray
    local: np.ndarray | None = None


def federation(steps: int = STEPS) -> Federation:
    """The three clients, with so many steps a round."""
    inputs, best = (torch.tensor(of, dtype=torch.float64) for of in (INPUTS, BEST))
    targets = torch.einsum("nid,nd->ni", inputs, best)
    examples = torch.cat([inputs, targets[..., None]], -1)
    held = [(rows, torch.zeros(len(rows), dtype=torch.int64)) for rows in examples]
    schedule = Schedule(ROUNDS, local_epochs=steps, batch_size=len(INPUTS[0]), lr=LR, order="fixed")
    return Federation.from_arrays(
        held, held, Regression(), schedule, alice=ALICE, device="cpu", dtype=torch.float64
    )


def play(method: Method) -> Path:
    """The method's three rounds; of WAFFLE each client's steps too, for which its rounds are
    trained again with fewer local epochs.
    """
    fed = federation()
    shorter = [federation(steps) for steps in range(1, STEPS + 1)]
    state = method.start(fed)
    models, weights, local = [_served(method, fed, state)], [], []
    for r in range(1, ROUNDS + 1):
        if isinstance(method, Waffle):
            steps = [state["theta"].expand(len(NAMES), -1)]
            for of in shorter:
                clients = list(range(len(NAMES)))
                trained, _ = corrected_training(of, state, r, clients, method.option, method.clip)
                steps.append(trained["theta"])
            local.append(torch.stack(steps, 1).numpy())
        state, log = method.round(fed, state, r)
        models.append(_served(method, fed, state))
        weights.append(np.asarray(log["weights"], dtype=float))
    return Path(np.stack(models), np.stack(weights), np.stack(local) if local else None)


def _served(method: Method, fed: Federation, state: dict) -> np.ndarray:
    theta = method.served(fed, state)["theta"]
    return (theta if theta.dim() == 1 else theta[ALICE]).numpy()


def from_best(path: Path, client: int = ALICE) -> np.ndarray:
    """How far the served model is from a client's best one, before round 1 and after each round,
    [rounds + 1].
    """
    return np.linalg.norm(path.models - np.array(BEST[client]), axis=1)


def apart(path: Path) -> np.ndarray:
    """The largest distance between two clients' models at the end of a round's local training,
    [rounds].
    """
    ends = path.local[:, :, -1]
    return np.linalg.norm(ends[:, :, None] - ends[:, None], axis=-1).max(axis=(1, 2))


def by_round(path: Path, others: dict[str, Path]) -> pd.DataFrame:
    """The figure's numbers, a row for the start (round 0) and for each round: WAFFLE's model, the
    clients' weights, and how far each method's model is from Alice's best.
    """
    start = np.full((1, len(NAMES)), np.nan)
    weights = np.concatenate([start, path.weights])
    columns = {"round": np.arange(ROUNDS + 1)}
    columns |= {f"model, θ{i + 1}": path.models[:, i] for i in range(2)}
    columns |= {f"weight of {name}": weights[:, i] for i, name in enumerate(NAMES)}
    columns["local models apart"] = np.concatenate([[np.nan], apart(path)])
    columns |= {
        f"{name}: distance": from_best(p) for name, p in ({"WAFFLE": path} | others).items()
    }
    return pd.DataFrame(columns)


def answer(path: Path, fedavg: Path) -> str:
    """The weights of clients 1 and 2 and how far the model ends from Alice's best one."""
    told = [
        f"{NAMES[i]} has weight {', '.join(f'{w:.2f}' for w in path.weights[:, i])}" for i in (1, 2)
    ]
    ours, theirs = from_best(path), from_best(fedavg)
    return (
        f"In rounds 1 to {ROUNDS} {' and '.join(told)}. The personalised model starts {ours[0]:.2f}"
        f" from the one that is best for Alice and ends {ours[-1]:.2f} from it; FedAvg's, after the"
        f" same {ROUNDS} rounds, ends {theirs[-1]:.2f} from it."
    )


LOOKS = (("#cc78bc", "o"), ("#029e73", "s"), ("#949494", "^"))


def draw(path: Path, fedavg: Path) -> tuple["Figure", str]:
    """The plane of models: each client's steps in each round, as wide as its weight, the
    personalised model after each round, FedAvg's, and the clients' best models.
    """
    with theme():
        figure, axes = blank(5.6)
        for i, (name, (colour, marker)) in enumerate(zip(NAMES, LOOKS, strict=True)):
            for of_round, weight in zip(path.local[:, i], path.weights[:, i], strict=True):
                style = {"color": colour, "linewidth": 1 + 6 * weight, "alpha": 0.55}
                axes.plot(*of_round.T, solid_capstyle="butt", **style)
                axes.plot(*of_round[1:].T, marker, color=colour, markersize=4)
            axes.plot([], [], color=colour, marker=marker, label=f"{name}, local steps")
            axes.plot(*BEST[i], "*", color=colour, markersize=17, zorder=4)
            axes.annotate(name, BEST[i], (9, 5), textcoords="offset points")
        axes.plot(*fedavg.models.T, label="FedAvg", **look("FedAvg") | {"linestyle": "--"})
        style = look("WAFFLE") | {"linestyle": "-", "markersize": 8, "zorder": 5}
        axes.plot(*path.models.T, label="WAFFLE, personalised model", **style)
        for r, at in enumerate(path.models):
            axes.annotate(str(r), at, (-4, 9), textcoords="offset points", color=style["color"])
        axes.plot([], [], "*", color="#333333", markersize=12, label="a client's best model")
        axes.set(xlabel="θ1", ylabel="θ2", aspect="equal")
        axes.margins(0.11)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)

    def points(places) -> str:
        return ", ".join(f"({x:.1f}, {y:.1f})" for x, y in places).replace("-", "−")

    told = [
        f"{name}'s best model is {points([best])}, its local training ends at"
        f" {points(path.local[:, i, -1])} in rounds 1 to {ROUNDS}, with weights"
        f" {', '.join(f'{w:.2f}' for w in path.weights[:, i])}"
        for i, (name, best) in enumerate(zip(NAMES, BEST, strict=True))
    ]
    return figure, (
        f"Models as points of a plane. The personalised model goes {points(path.models)}; FedAvg's"
        f" {points(fedavg.models)}. {'; '.join(told)}."
    )
