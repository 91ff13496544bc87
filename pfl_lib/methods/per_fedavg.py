"""Per-FedAvg (Fallah et al. 2020): a shared model that one local step makes good for a client."""

from dataclasses import dataclass, replace

from pfl_lib.errors import A_STEP, ABOVE_0, check_settings, choose, flag, setting
from pfl_lib.federation.federation import Federation
from pfl_lib.methods.fedavg import FedAvg, averaged_training
from pfl_lib.methods.scaffold import gradients_at
from pfl_lib.rows import Batch, Gradient, Rows, copies, descend, model, with_models


@dataclass(frozen=True)
class PerFedAvg:
    """Per-FedAvg, Algorithm 1, for F(w) = mean_i f_i(w - alpha grad f_i(w)).  Each local step, with
    independent batches D and D':
        w~ = w - alpha grad f(w; D),   w <- w - beta (I - alpha H(w; D)) grad f(w~; D');
    the server averages the participants' models uniformly.

    * `hessian`: "none" leaves the term with H out (the paper's FO); "differences" (HF) takes H v as
      (grad f(w + delta v; D) - grad f(w - delta v; D)) / (2 delta), for v = grad f(w~; D').
    * beta is the schedule's learning rate.  Neither FedFomo nor pFedLA gives alpha [our choice:
      0.01, which suits networks at rates from 0.01 to 0.1; the local learning rate would be as
      good a reading].  alpha 0 is FedAvg with uniform weights, in a network without BatchNorm.
    * D and D' are the two halves of a mini-batch, each in either part, and the two gradients are
      averaged: as many local steps and as many examples as any other method has [our choice; the
      paper draws batches at will, and a further one for H].  As the paper's, it estimates the
      gradient of F with a bias, since w~ is a step along a mini-batch's gradient.  A
      batch of fewer than four is both halves, since BatchNorm cannot train on one example.
    * Served is what F evaluates: w - alpha grad f_i(w), one step along the gradient of all of the
      client's training examples [our choice; one batch of them would be cheaper].  Each evaluation
      costs a pass over them, which `cost` counts.  The released code of pFedMe, which FedFomo used,
      takes that step on a batch of test examples, a leak.  Where the schedule augments images, this
      step's are moved and mirrored too, alike in every round.  `adapt=False` serves w itself.
    * The meta-gradient takes the place of the gradient in SGD with weight decay and momentum.
      BatchNorm's statistics are those met at w~, averaged, and served as they are.
    """

    alpha: float = setting(0.01, *A_STEP)
    hessian: str = setting("none", choose, ("none", "differences"))
    delta: float = setting(1e-3, *ABOVE_0)
    adapt: bool = setting(True, flag)

    name, title, version = "per_fedavg", "Per-FedAvg", 1
    __post_init__ = check_settings
    start = FedAvg.start

    def cost(self, passes: float, read: float) -> float:
        """Two gradients an example, four with the Hessian; and a pass where a model is read."""
        each = 4 if self.hessian == "differences" else 2
        return each * passes + (read if self.adapt else 0)

    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]:
        return averaged_training(fed, state, r, "uniform", self._step)

    def served(self, fed: Federation, state: Rows) -> Rows:
        if not self.adapt or not self.alpha:
            return model(state)
        clients = fed.evaluated_clients
        own = copies(state, len(clients))
        slopes = gradients_at(fed, state, 1, clients, "adaptation", clip=None)
        own["theta"] = own["theta"] - self.alpha * slopes
        return with_models(copies(state, len(fed)), clients, own)

    def _step(self, rows: Rows, gradient: Gradient, batch: Batch) -> None:
        """A step along the gradient of F, each half weighing as many as its examples are."""
        first, second = halves(batch)
        w, meta, examples = rows["theta"], 0, first.y.shape[-1] + second.y.shape[-1]
        for inner, outer in ((first, second), (second, first)):
            unmoved = rows["statistics"].clone()  # only those met at w~ are kept
            adapted = w - self.alpha * gradient(w, inner, unmoved)
            part = gradient(adapted, outer, rows["statistics"])
            if self.hessian == "differences":
                ahead = gradient(w + self.delta * part, inner, unmoved)
                behind = gradient(w - self.delta * part, inner, unmoved)
                part = part - self.alpha * (ahead - behind) / (2 * self.delta)
            meta = meta + part * (outer.y.shape[-1] / examples)
        descend(rows, "theta", meta, batch)


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """A batch's two halves, of one client or many; one of fewer than four examples, twice."""
    examples = batch.y.dim() - 1  # the dimension of x and y that counts examples
    if batch.y.shape[examples] < 4:
        return batch, batch
    parts = zip(batch.x.chunk(2, examples), batch.y.chunk(2, examples), strict=True)
    return tuple(replace(batch, x=x, y=y) for x, y in parts)
