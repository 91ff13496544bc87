"""pFedLA and HeurpFedLA (Ma et al. 2022): every client mixes all clients' models layer by layer,
and a hypernetwork on the server learns with which weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_lib.engine.layout import Block, Layer, views
from pfl_lib.errors import A_STEP, BadInput, check_settings, choose, setting, whole
from pfl_lib.federation.federation import Federation
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import hypernetwork, partial
from pfl_lib.randomness import generator
from pfl_lib.rows import Rows, model, select_rows, weighted_sum, with_models, with_rows

AT_ONCE = 32
"""Hypernetworks in one operation: a thousand at once would take their 2 GB again for each one."""


def check_retained(name: str, kept: object) -> None:
    """BadInput unless layers are named, each once, or counted."""
    if isinstance(kept, tuple):
        partial.check_names(name, kept)
    else:
        whole(name, kept, 0)


@dataclass(frozen=True)
class PFedLA:
    """pFedLA, Algorithm 1; HeurpFedLA, Algorithm 2, where layers are `retained`.

    server:  alpha_i = HN_i(v_i; psi_i) [L, N]; thetabar_i^l = sum_j alpha_i^{l,j} theta_j^l (Eq. 6)
    client:  theta_i <- thetabar_i, then local training;  Delta_i = theta_i - thetabar_i
    server:  v_i <- v_i + step (d thetabar_i / d v_i)^T Delta_i (Eq. 10), and psi_i alike (Eq. 11)

    Served is thetabar_i of the newest theta and HN (the algorithm's output), without training.
    All theta_j are those of the round's start, and constants in Eqs. 10 and 11.  The sign is "+":
    Delta_i goes down the loss, so the step raises <thetabar_i, Delta_i>.

    `retained`: HeurpFedLA's k.  The k layers with the largest self-weights alpha_i^{l,i} (Eq. 12;
    of equal ones the first) are not mixed: client i goes on with her own, does not download them,
    and they give its hypernetwork no gradient in that round.  Names instead of a number, ("fc1",
    "fc3"), retain these layers at every client.  All layers are uploaded, as in Table 3's costs.

    `scale`: "absolute" is the paper's step.  "relative" divides each client's step by
    ||Delta_i||^2, so that it does not change when all models and updates are scaled.

    The paper refers to a supplement for the hypernetwork and leaves open the rest:

    * hypernetwork: embedding of 100, three hidden layers of 100 with ReLU, one linear head a layer
      (third-party implementations, KarhouTam/pFedLA);
    * weights: softmax over the clients, so that they sum to 1 (Eq. 3).  The heads start at zero,
      hence alpha = 1/N and a first round as FedAvg's (our choice; the third party divides ReLU's
      values by their sum, which may be 0).  All clients' hypernetworks start alike (our choice);
    * `step` 0.5: on CIFAR-10 weights part slowly with it, in 60 rounds of 10 local epochs, where 1
      is more accurate (`papers.pfedla`); with 0.05 pFedLA stays FedAvg (the third party's 0.005
      suits its heads);
    * a layer is weight and bias of one module (from Table 3's costs).  A norm's affine parameters
      are a layer of their own that k never counts (our choice).  Its running statistics describe
      the layer before it, in forward order, so they are mixed with that layer's weights.  The third
      party serves each client's own: with nearly equal weights on CIFAR-10 that cost 8
      points of accuracy (not published);
    * all clients start from one model (our choice; the third party draws one for each);
    * who does not take part keeps theta_j and hypernetwork, and is mixed like all (Eq. 6).

    The N hypernetworks are one matrix [N, K], K = embedding + hidden layers + L N (hidden + 1):
    32 MB in float32 for 100 clients and 5 layers, 2.1 GB for 1,000.
    """

    retained: int | tuple[str, ...] = setting(0, check_retained)
    step: float = setting(0.5, *A_STEP)
    scale: str = setting("absolute", choose, ("absolute", "relative"))
    embedding: int = setting(100, whole, 1, hypernetwork.WIDEST)
    hidden: tuple[int, ...] = setting((100, 100, 100), hypernetwork.check_sizes)

    name, title, version = "pfedla", "pFedLA", 1
    __post_init__ = check_settings

    def versions(self, schedule: Schedule, statistics: bool) -> dict[str, int]:
        """Statistics served: once each client's own, then those mixed by the norm's weights."""
        return {"statistics of the mixture": 3 if statistics else 1}

    def start(self, fed: Federation) -> Rows:
        """N initial models and N equal hypernetworks; BadInput where `retained` does not fit."""
        if isinstance(self.retained, tuple):
            for name in self.retained:
                fed.layout.layer(name)
        elif self.retained > len(countable := _countable(fed.layout.layers)):
            why = f"the network has {len(countable)} layers that are not norms"
            raise BadInput(f"retained {self.retained}: {why}; give {len(countable)} or less")
        row = hypernetwork.drawn(self._blocks(fed), generator(fed.seed, "hypernetwork"))
        rows = {**fed.initial(), "hypernetworks": row.to(fed.device, fed.dtype)}
        return {name: row.expand(len(fed), -1) for name, row in rows.items()}

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        clients, layers = fed.participants(r), fed.layout.layers
        networks = select_rows(state["hypernetworks"], clients)
        weights, kept = self._weights(fed, networks, clients)
        given = mixed_models(weights, state, layers)
        trained, _ = fed.train(given, r, clients)

        updates = trained["theta"] - given["theta"]
        slopes = products(updates, state["theta"], layers).masked_fill(kept[..., None], 0)
        if self.scale == "relative":
            lengths = updates.square().sum(1)[:, None, None]
            slopes = torch.where(lengths > 0, slopes / lengths, 0)
        if self.step:
            networks = self._stepped(networks, slopes, self._blocks(fed))
        after = with_models(state, clients, trained)
        after["hypernetworks"] = with_rows(state["hypernetworks"], clients, networks)
        shown = torch.zeros(len(layers), len(fed), len(fed), dtype=torch.float64)
        shown[:, clients] = weights.transpose(0, 1).double().cpu()
        sizes = torch.tensor([layer.size for layer in layers], dtype=torch.float64)
        sent = len(clients) - (kept.double().cpu() @ sizes).sum().item() / fed.layout.P
        return after, {"weights": shown, "models_up": len(clients), "models_down": sent}

    def served(self, fed: Federation, state: Rows) -> Rows:
        weights, _ = self._weights(fed, state["hypernetworks"], range(len(fed)))
        return mixed_models(weights, state, fed.layout.layers)

    def _blocks(self, fed: Federation) -> tuple[Block, ...]:
        """The columns of a hypernetwork's row."""
        heads = (len(fed.layout.layers), len(fed))
        return hypernetwork.columns((self.embedding,), self.hidden, heads)

    def _weights(
        self, fed: Federation, networks: Tensor, clients: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """`clients`' weights [n, L, N], 1 on their own in the layers that they keep, [n, L]."""
        layers, ids = fed.layout.layers, torch.tensor(clients, device=fed.device)
        blocks = self._blocks(fed)
        alpha = torch.cat([aggregation_weights(rows, blocks) for rows in networks.split(AT_ONCE)])
        own = torch.nn.functional.one_hot(ids, len(fed)).to(alpha)[:, None]
        kept = torch.zeros(alpha.shape[:2], dtype=torch.bool, device=fed.device)
        if isinstance(self.retained, tuple):
            kept[:, [k for k, layer in enumerate(layers) if layer.name in self.retained]] = True
        else:
            countable = torch.tensor(_countable(layers), device=fed.device)
            self_weights = (alpha * own).sum(-1)[:, countable]
            order = self_weights.sort(dim=1, descending=True, stable=True).indices
            kept.scatter_(1, countable[order[:, : self.retained]], True)
        return torch.where(kept[..., None], own, alpha), kept

    def _stepped(self, networks: Tensor, slopes: Tensor, blocks: tuple[Block, ...]) -> Tensor:
        """Eqs. 10 and 11: psi + step (d alpha / d psi)^T slopes, for slopes [n, L, N]."""
        stepped = torch.empty_like(networks, memory_format=torch.contiguous_format)
        parts = (matrix.split(AT_ONCE) for matrix in (networks, slopes, stepped))
        for rows, of_rows, out in zip(*parts, strict=True):
            rows = rows.detach().requires_grad_()
            with torch.enable_grad():
                raised = (aggregation_weights(rows, blocks) * of_rows).sum()
            (gradient,) = torch.autograd.grad(raised, rows)
            torch.add(rows.detach(), gradient, alpha=self.step, out=out)
        return stepped


def aggregation_weights(networks: Tensor, blocks: tuple[Block, ...]) -> Tensor:
    """alpha [n, L, N] of hypernetworks [n, K] (Eq. 3): over the last dimension they sum to 1."""
    named = views(blocks, networks)
    features = hypernetwork.features(named, named["embedding"])
    scores = torch.einsum("nlcf,nf->nlc", named["head weight"], features) + named["head bias"]
    return scores.softmax(-1)


def mixed_models(weights: Tensor, models: Rows, layers: Sequence[Layer]) -> Rows:
    """Eq. 6, layer by layer: weights [n, L, N] and all clients' models, {"theta": [N, P],
    "statistics": [N, S]}, give n models.

    `layers` are in forward order.  A norm's running statistics are those of the layer before it,
    and go with that layer's weights; where a norm comes first, with its own.
    """
    theta, statistics = models["theta"], models["statistics"]
    out = {name: of.new_empty(len(weights), of.shape[1]) for name, of in model(models).items()}
    described = 0
    for k, layer in enumerate(layers):
        described = described if layer.norm else k
        columns = slice(layer.start, layer.stop)
        out["theta"][:, columns] = weighted_sum(weights[:, k], theta[:, columns])
        columns = slice(layer.statistics_start, layer.statistics_stop)
        out["statistics"][:, columns] = weighted_sum(weights[:, described], statistics[:, columns])
    return out


def products(updates: Tensor, theta: Tensor, layers: Sequence[Layer]) -> Tensor:
    """<theta_j^l, Delta_i^l> of updates [n, P] and models [N, P]: [n, L, N], which is how fast
    <thetabar_i, Delta_i> grows with alpha_i^{l,j}.
    """
    columns = [slice(layer.start, layer.stop) for layer in layers]
    return torch.stack([updates[:, of] @ theta[:, of].T for of in columns], 1)


def _countable(layers: Sequence[Layer]) -> list[int]:
    """The positions of the layers that k counts: all but norms."""
    return [k for k, layer in enumerate(layers) if not layer.norm]
