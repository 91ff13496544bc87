"""pFedHN (Shamsian et al. 2021): a hypernetwork makes each client's model of an embedding."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.engine.layout import Block, views
from pfl_lib.errors import A_STEP, ABOVE_0, BELOW_1, NOT_NEGATIVE, check_settings, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import hypernetwork
from pfl_lib.randomness import generator
from pfl_lib.rows import Rows, select_rows, with_rows


@dataclass(frozen=True)
class PFedHN:
    """pFedHN, Algorithm 1, with all of a round's participants in one step.

    server:  theta_i = h(v_i; phi), sent to client i
    client:  local training from theta_i;   Delta_i = after - theta_i
    server:  (phi, v) <- (phi, v) + step * mean over i of (d theta_i / d (phi, v))^T Delta_i

    The server's step is a vector-Jacobian product.  Served is theta_i of the newest hypernetwork.

    * The authors take one client a step, 0.01 with momentum 0.9, for 5,000 steps.  Here the
      participants train side by side from one hypernetwork, as in every other method, and the step
      is for their mean, however many (our choice): `step` 0.1 is 0.01 for each of ten.
    * `momentum`, `weight_decay` and `clip` (of the mean gradient's norm) are those of the server's
      SGD, embeddings included, with the authors' values.
    * Embeddings of 1 + N // 4 numbers, drawn from a normal distribution, and hidden layers of 100
      with ReLU, as the authors'; they have one linear layer more, without ReLU, before the heads.
    * One linear head makes all P parameters, norms' too.  Its weights start at zero and its bias at
      the initial model (our choice; the authors draw it): all clients start from one model.
    * Running statistics stay with the client (our choice; the authors' networks have none), so that
      one that never took part is served the initial model's.

    The hypernetwork has about P (hidden + 1) parameters: 49 MB in float32 for pfedla_cnn, kept
    twice (its momentum).
    """

    step: float = setting(0.1, *A_STEP)
    momentum: float = setting(0.9, *BELOW_1)
    weight_decay: float = setting(1e-3, *NOT_NEGATIVE)
    clip: float = setting(50.0, *ABOVE_0)
    embedding: int | None = setting(None, whole, 1, hypernetwork.WIDEST)
    hidden: tuple[int, ...] = setting((100, 100, 100), hypernetwork.check_sizes)

    name, title, version = "pfedhn", "pFedHN", 1
    __post_init__ = check_settings

    def start(self, fed: Federation) -> Rows:
        """The hypernetwork as one row, its momentum, and all clients' running statistics."""
        initial, blocks = fed.initial(), self._blocks(fed)
        row = hypernetwork.drawn(blocks, generator(fed.seed, "hypernetwork"))
        row = row.to(fed.device, fed.dtype)
        row[blocks[-1].start :] = initial["theta"]
        return {
            "hypernetwork": row,
            "momentum": torch.zeros_like(row),
            "statistics": initial["statistics"].expand(len(fed), -1),
        }

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients, network = fed.participants(r), state["hypernetwork"]
        blocks = self._blocks(fed)
        statistics = select_rows(state["statistics"], clients)
        given = {"theta": models(network, blocks, clients), "statistics": statistics}
        trained, _ = fed.train(given, r, clients)
        updates = trained["theta"] - given["theta"]

        leaf = network.detach().requires_grad_()
        with torch.enable_grad():
            raised = (models(leaf, blocks, clients) * updates).sum() / len(clients)
        (gradient,) = torch.autograd.grad(raised, leaf)
        gradient = gradient * (self.clip / torch.linalg.vector_norm(gradient)).clamp(max=1)
        moving = self.momentum * state["momentum"] + gradient - self.weight_decay * network
        after = {
            "hypernetwork": network + self.step * moving,
            "momentum": moving,
            "statistics": with_rows(state["statistics"], clients, trained["statistics"]),
        }
        return after, {"models_up": len(clients), "models_down": len(clients)}

    def served(self, fed: Federation, state: Rows) -> Rows:
        theta = models(state["hypernetwork"], self._blocks(fed), range(len(fed)))
        return {"theta": theta, "statistics": state["statistics"]}

    def _blocks(self, fed: Federation) -> tuple[Block, ...]:
        """The columns of the hypernetwork's row."""
        width = 1 + len(fed) // 4 if self.embedding is None else self.embedding
        return hypernetwork.columns((len(fed), width), self.hidden, (fed.layout.P,))


def models(network: Tensor, blocks: tuple[Block, ...], clients: range | list[int]) -> Tensor:
    """h(v_i; phi): the models [n, P] that a hypernetwork [K] makes for `clients`."""
    named = views(blocks, network)
    features = hypernetwork.features(named, select_rows(named["embedding"], clients))
    return features @ named["head weight"].T + named["head bias"]
