"""DP-SGD: each example's gradient is clipped, their sum is noised (Abadi et al. 2016, Algorithm 1).

The noise comes from torch's generators by seed, so that runs can be repeated.  Whoever knows the
seed can subtract it: a federation of real clients needs noise of their own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.layout import views
from pfl_lib.errors import NOT_NEGATIVE, BadInput, check_settings, choose, number, setting
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

    noise: float | None = setting(None, *NOT_NEGATIVE)
    max_norm: float | None = setting(None, number, "a number above 0", lambda v: v > 0)
    sampling: str = setting("poisson", choose, ("poisson", "shuffled"))

    def __post_init__(self) -> None:
        if self.noise is None or self.max_norm is None:
            raise BadInput(
                f"DP-SGD with noise {self.noise!r} and max_norm {self.max_norm!r}: give both, the"
                " noise multiplier and the clipping bound, such as DPSGD(noise=1.0, max_norm=1.0)"
            )
        check_settings(self)
        if self.noise and self.max_norm == math.inf:
            why = "noise is in units of the bound, so give a finite one, or noise=0"
            raise BadInput(f"noise {self.noise!r} with max_norm inf: {why}")
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

    def noised(self, clipped: Tensor, taken: int) -> Tensor:
        """The noised mean [P] of the clipped gradients of `taken` examples, given their sum [P]."""
        if self.settings.noise:
            scale = self.settings.noise * self.settings.max_norm
            drawn = torch.randn(clipped.shape, generator=self.random, dtype=clipped.dtype)
            clipped = clipped + scale * drawn.to(clipped.device)
        return clipped / (taken if self.expected is None else self.expected)


Clipped = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""A model [P] and a batch x [b, ...], y [b] to the sum [P] of the examples' clipped gradients, and
the norms [b] of these before clipping.
"""


def clip_factors(norms: Tensor, bound: float) -> Tensor:
    """What the examples' gradients of these norms [b] are multiplied by: as in Opacus bound / (norm
    + 1e-6), and a few units of rounding less, so that no product's norm is above the bound.
    """
    within = bound * (1 - 8 * torch.finfo(norms.dtype).eps)
    return (within / (norms + 1e-6)).clamp(max=1.0)


def by_example(flat: FlatModule, bound: float) -> Clipped:
    """The sum of clipped gradients for any network, from the gradient of each example; one whose
    gradient is not finite counts for nothing, since nothing bounds it.
    """
    flat.module.train()

    def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        named = views(flat.layout.parameters, theta)
        return flat.loss(functional_call(flat.module, named, (x[None],)), y[None])[0]

    each = vmap(grad(loss), (None, 0, 0))
    at_once = max(1, MOST_NUMBERS // flat.layout.P)

    def clipped(theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total, all_norms = torch.zeros_like(theta), []
        for some, labels in _pieces(x, y, at_once):
            gradients = each(theta, some, labels)
            norms = torch.linalg.vector_norm(gradients, dim=1)
            known = norms.isfinite()
            factors = torch.where(known, clip_factors(norms, bound), 0.0)
            total = total + factors @ torch.where(known[:, None], gradients, 0.0)
            all_norms.append(norms)
        return total, torch.cat(all_norms) if all_norms else theta.new_empty(0)

    return clipped


def by_layer(flat: FlatModule, bound: float) -> Clipped:
    """The same sum, several times as fast on a processor, for networks of linear and convolution
    layers that a pass reaches once each; for any other, `by_example`.

    One way back gives the gradients g [b, t, out] at a layer's outputs.  With its inputs
    a [b, t, in], of a convolution the patches at its t places, an example's gradient is g^T a, and
    the sum of the clipped ones (c g)^T a, c the examples' factors (Goodfellow 2015; Rochette et al.
    2019).  On the first batch of two examples or more the sum, and every example's norm, are
    compared with those by example, which stays where they differ.
    """
    whole = by_example(flat, bound)
    modules = flat.module.named_modules()
    layers = {m: f"{n}.".lstrip(".") for n, m in modules if [*m.parameters(recurse=False)]}
    known = {block.name for block in flat.layout.parameters}
    if not all(_is_plain(layer, within, known) for layer, within in layers.items()):
        return whole
    at_once = max(1, MOST_NUMBERS // flat.layout.P)

    def add(theta: Tensor, x: Tensor, y: Tensor, into: dict[str, Tensor]) -> Tensor | None:
        """Add to the named parts of the sum; the examples' norms [b], None where a layer was not
        reached just once with a row for each example.
        """
        met = []
        hooks = [
            layer.register_forward_hook(lambda layer, given, z: met.append((layer, given[0], z)))
            for layer in layers
        ]
        try:
            named = views(flat.layout.parameters, theta.detach().requires_grad_())
            losses = flat.loss(functional_call(flat.module, named, (x,)), y)
        finally:
            for hook in hooks:
                hook.remove()
        once = sorted(layers[layer] for layer, *_ in met) == sorted(layers.values())
        if not once or any(
            not len(a) == len(z) == len(y) or z.dim() < 2 or not z.requires_grad for _, a, z in met
        ):
            return None
        back = torch.autograd.grad(losses.sum(), [z for *_, z in met], materialize_grads=True)
        squares, parts = 0, []
        for (layer, given, _), g in zip(met, back, strict=True):
            if isinstance(layer, nn.Conv2d):
                at = (layer.kernel_size, layer.dilation, layer.padding, layer.stride)
                a, g = F.unfold(given.detach(), *at).mT, g.flatten(2).mT
            else:
                a, g = (of.reshape(len(of), -1, of.shape[-1]) for of in (given.detach(), g))
            own = None  # of one place the norm is |g| |a|, and the products are not needed
            if g.shape[1] == 1:
                squares = squares + (g.square().sum(2) * a.square().sum(2)).sum(1)
            else:
                own = g.mT @ a
                squares = squares + own.square().sum((1, 2))
            weight, bias = into[f"{layers[layer]}weight"], into.get(f"{layers[layer]}bias")
            if bias is not None:
                squares = squares + g.sum(1).square().sum(1)
            parts.append((a, g, own, weight, bias))
        norms = squares.sqrt()
        factors = torch.where(norms.isfinite(), clip_factors(norms, bound), 0.0)
        counted = factors.nonzero()[:, 0]  # of what is not finite, 0 times it would be NaN
        for a, g, own, weight, bias in parts:
            clipped = factors[counted, None, None] * g[counted]
            if own is None:
                weight += (clipped[:, 0].T @ a[counted, 0]).view_as(weight)
            else:
                weight += torch.tensordot(factors[counted], own[counted], 1).view_as(weight)
            if bias is not None:
                bias += clipped.sum((0, 1))
        return norms

    agrees: bool | None = None

    def clipped(theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal agrees
        if agrees is False or (agrees is None and len(y) < 2):  # one example tells too little
            return whole(theta, x, y)
        total, norms = torch.zeros_like(theta), [theta.new_empty(0)]
        into = views(flat.layout.parameters, total)
        with torch.enable_grad():
            for part, labels in _pieces(x, y, at_once):
                of_part = add(theta, part, labels, into)
                if of_part is None:
                    agrees = False
                    return whole(theta, x, y)
                norms.append(of_part)
        found = total, torch.cat(norms)
        if agrees is None:
            expected = whole(theta, x, y)
            agrees = all(map(_close, found, expected))
        return found if agrees else expected

    return clipped


def _pieces(x: Tensor, y: Tensor, at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
    """At most so many examples at a time; none of a batch without any."""
    pieces = zip(x.split(at_once), y.split(at_once), strict=True)
    return (piece for piece in pieces if len(piece[1]))


def _close(found: Tensor, expected: Tensor) -> bool:
    """Whether both agree to 1e-4 of the largest finite number; False where that is 0."""
    largest = expected[expected.isfinite()].abs().amax().item() if expected.isfinite().any() else 0
    return largest > 0 and torch.allclose(found, expected, 1e-4, 1e-4 * largest, equal_nan=True)


def _is_plain(layer: nn.Module, within: str, known: set[str]) -> bool:
    """Whether `by_layer` knows the layer, and its parameters are its own."""
    own = {leaf for leaf, _ in layer.named_parameters(recurse=False)}
    if own - {"weight", "bias"} or not {f"{within}{leaf}" for leaf in own} <= known:
        return False
    if type(layer) is nn.Conv2d:
        padded = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return padded and layer.groups == 1
    return type(layer) is nn.Linear


def private_gradient(clipped: Clipped, noising: Noising | Sequence[Noising]) -> Gradient:
    """A batch's gradient for a step: one client's [P] or n clients' [n, P], each with own noise."""
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
            return noising.noised(clipped(theta, batch.x, batch.y)[0], taken)
        side_by_side = max(1, MOST_NUMBERS // max(1, taken * theta.shape[1]))
        sums, _ = vmap(clipped, chunk_size=side_by_side)(theta, batch.x, batch.y)
        return torch.stack([own.noised(row, taken) for own, row in zip(noising, sums, strict=True)])

    return gradient
