"""DP-SGD: each example's gradient is clipped, their sum is noised (Abadi et al. 2016, Algorithm 1).

The noise comes from torch's generators by seed, so that runs can be repeated.  Whoever knows the
seed can subtract it: a federation of real clients needs noise of their own.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.layout import views
from pfl_lib.errors import BadInput, choose, number
from pfl_lib.rows import Batch, Gradient

MOST_NUMBERS = 2**26
"""Of gradients of single examples at a time: 256 MB in single precision."""


@dataclass(frozen=True)
class DPSGD:
    """Local training by noised gradients: with B the batch size and g_x an example's gradient,

        (sum over the batch of g_x min(1, max_norm / |g_x|) + noise max_norm N(0, I)) / B.

    * `noise` is sigma, in units of `max_norm`, the clipping bound.  Both must be given.  A bound of
      math.inf clips nothing, and no noise covers it.
    * `sampling` "poisson": every local step draws each example by itself with chance B / n, as the
      accountant assumes; a local epoch is as many steps as it has batches, and the sum is divided
      by B whatever was drawn.  "shuffled": the batches of a run without privacy; the sum is divided
      by their own size, and no epsilon is known.
    """

    noise: float | None = None
    max_norm: float | None = None
    sampling: str = "poisson"

    def __post_init__(self) -> None:
        if self.noise is None or self.max_norm is None:
            raise BadInput(
                f"DP-SGD with noise {self.noise!r} and max_norm {self.max_norm!r}: give both, the"
                " noise multiplier and the clipping bound, such as DPSGD(noise=1.0, max_norm=1.0)"
            )
        number("noise", self.noise, "a number 0 or more", lambda v: 0 <= v < math.inf)
        number("max_norm", self.max_norm, "a number above 0", lambda v: v > 0)
        if self.noise and self.max_norm == math.inf:
            raise BadInput(
                f"noise {self.noise!r} with max_norm inf: noise is in units of the bound, so give a"
                " finite one, or noise=0"
            )
        choose("sampling", self.sampling, ("poisson", "shuffled"))
        for name in ("noise", "max_norm"):  # 1 and 1.0 are one description of one run
            object.__setattr__(self, name, float(getattr(self, name)))


@dataclass(frozen=True, eq=False)
class Noising:
    """One client's noise in one round: the settings, by what sums are divided (None: by the size of
    the batch), and the generator, which is no other client's and no other round's.
    """

    settings: DPSGD
    expected: int | None
    random: torch.Generator

    def afresh(self) -> "Noising":
        """The same noise from where its generator stands, which stays there: a client who is
        trained again gets it again.
        """
        return replace(self, random=self.random.clone_state())

    def noised(self, clipped: Tensor, taken: int) -> Tensor:
        """The noised mean [P] of the clipped gradients of `taken` examples, given their sum [P]."""
        if self.settings.noise:
            scale = self.settings.noise * self.settings.max_norm
            drawn = torch.randn(clipped.shape, generator=self.random, dtype=clipped.dtype)
            clipped = clipped + scale * drawn.to(clipped.device)
        return clipped / (taken if self.expected is None else self.expected)


Clipped = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A model [P] and a batch x [b, ...], y [b] to the sum [P] of the examples' clipped gradients."""


def clip_factors(norms: Tensor, bound: float) -> Tensor:
    """What the examples' gradients of these norms [b] are multiplied by: as in Opacus bound / (norm
    + 1e-6), and a few units of rounding less, so that no product's norm is above the bound.
    """
    within = bound * (1 - 8 * torch.finfo(norms.dtype).eps)
    return (within / (norms + 1e-6)).clamp(max=1.0)


def clipped_sums(flat: FlatModule, bound: float) -> Clipped:
    """The sum of clipped gradients for a network; an example whose gradient is not finite counts
    for nothing, since nothing bounds it.
    """
    flat.module.train()

    def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        named = views(flat.layout.parameters, theta)
        return flat.loss(functional_call(flat.module, named, (x[None],)), y[None])[0]

    each = vmap(grad(loss), (None, 0, 0))
    at_once = max(1, MOST_NUMBERS // flat.layout.P)

    def clipped(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros_like(theta)
        for some, labels in zip(x.split(at_once), y.split(at_once), strict=True):
            if len(labels):
                gradients = each(theta, some, labels)
                norms = torch.linalg.vector_norm(gradients, dim=1)
                known = norms.isfinite()
                factors = torch.where(known, clip_factors(norms, bound), 0.0)
                total = total + factors @ torch.where(known[:, None], gradients, 0.0)
        return total

    return clipped


def private_gradient(clipped: Clipped, noising: Noising | Sequence[Noising]) -> Gradient:
    """The gradient that a step gets for one batch: of one client ([P]), or of n ([n, P]), each with
    noise of its own.
    """
    asked = False

    def gradient(theta: Tensor, batch: Batch, statistics: Tensor | None = None) -> Tensor:
        nonlocal asked
        if asked:
            raise BadInput(
                "DP-SGD accounts for one gradient of each batch, and this method asks for another"
                " at the same local step: train it without privacy"
            )
        asked, taken = True, batch.y.shape[-1]
        if isinstance(noising, Noising):
            return noising.noised(clipped(theta, batch.x, batch.y), taken)
        side_by_side = max(1, MOST_NUMBERS // max(1, taken * theta.shape[1]))
        sums = vmap(clipped, chunk_size=side_by_side)(theta, batch.x, batch.y)
        return torch.stack([own.noised(row, taken) for own, row in zip(noising, sums, strict=True)])

    return gradient
