"""A convolution and its 2x2 max-pooling as one differentiable operation, made for small images on one CPU core.

A convolution followed by 2x2 max-pooling is a convolution of stride 2 with the kernel at each of the window's four offsets, and
then a maximum over the four.  Written with the batch innermost, that is one matrix product over 6x6 patches instead of a
convolution and a pooling that the library does slowly on pictures of one or six channels: LeNet-5 trains about 1.1 times as fast.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def _kernels(weight: Tensor) -> Tensor:
    """The kernel [o, c, k, k] at the four offsets of a pooling window, in (k+1)x(k+1) patches: [4 * o, c * (k+1)**2]."""
    k = weight.shape[-1] + 1
    shifted = F.pad(weight, (1, 1, 1, 1)).unfold(2, k, 1).unfold(3, k, 1)  # o, c, 2, 2, k, k
    return shifted.permute(2, 3, 0, 1, 4, 5).reshape(4 * weight.shape[0], -1)


def _patches(x: Tensor, k: int) -> Tensor:
    """The k x k patches at stride 2 of x [c, h, w, b], as columns: [c * k * k, rows * columns * b]."""
    return x.unfold(1, k, 2).unfold(2, k, 2).permute(0, 4, 5, 1, 2, 3).reshape(x.shape[0] * k * k, -1)


def _to_input(kernels: Tensor, each: Tensor, c: int, rows: int, cols: int, b: int) -> Tensor:
    """The adjoint of `kernels @ _patches(x)`: [c, 2 * h, 2 * w, b].  With rows stored to full width, each shift of the kernel's 2x2
    blocks moves the whole plane by a constant, so that each block's share is one product added to a slice."""
    o4, k = kernels.shape[0], round((kernels.shape[1] // c) ** 0.5)
    t = k // 2
    h, w = rows + t - 1, cols + t - 1
    blocks = kernels.reshape(o4, c, t, 2, t, 2).permute(2, 4, 1, 3, 5, 0).reshape(t, t, 4 * c, o4)
    n = (rows * w - t + 1) * b
    wide = F.pad(each.reshape(o4, rows, cols * b), (0, (t - 1) * b)).reshape(o4, -1)[:, :n]
    plane = each.new_zeros(4 * c, h * w * b)
    for p in range(t):
        for q in range(t):
            start = (p * w + q) * b
            plane[:, start : start + n] += blocks[p, q] @ wide
    return plane.reshape(c, 2, 2, h, w, b).permute(0, 3, 1, 4, 2, 5).reshape(c, 2 * h, 2 * w, b)


def _long_product(a: Tensor, b: Tensor, chunk: int = 32) -> Tensor:
    """a @ b.T for few rows and very many columns, as a sum over short chunks: the library is slow at the one long product."""
    n = a.shape[1]
    if n % chunk or a.shape[0] > 32:
        return a @ b.transpose(0, 1)
    return torch.bmm(
        a.reshape(a.shape[0], -1, chunk).transpose(0, 1), b.reshape(b.shape[0], -1, chunk).permute(1, 2, 0)
    ).sum(0)


class _ConvPool(torch.autograd.Function):
    """x [c, h, w, b], weight [o, c, k, k] -> pooled [o, rows, cols, b], the patches, and each pixel's share of the maximum."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, o = weight.shape[-1] + 1, weight.shape[0]
        patches = _patches(x, k)
        each = (_kernels(weight) @ patches).reshape(4, o, -1)
        top = each.amax(0)
        won = each.sub_(top).sign_().add_(1)  # in floats: 1. where a pixel is its window's maximum, 0. elsewhere
        return top.reshape(o, (x.shape[1] - k) // 2 + 1, (x.shape[2] - k) // 2 + 1, x.shape[3]), patches, won

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, weight = inputs
        ctx.shape = x.shape
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight, *output[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor | None, *_: None) -> tuple[Tensor | None, Tensor | None]:
        if grad is None:
            return None, None
        weight, patches, won = ctx.saved_tensors
        (o, c, k, _), b = weight.shape, ctx.shape[3]
        rows, cols = grad.shape[1:3]
        share = grad.reshape(o, -1) / won.sum(0)  # equal parts where pixels tie
        each = (won * share).reshape(4 * o, -1)
        of_kernels = _long_product(each, patches).reshape(2, 2, o, c, k + 1, k + 1)
        of_weight = sum(of_kernels[i, j, :, :, 1 - i : 1 - i + k, 1 - j : 1 - j + k] for i in (0, 1) for j in (0, 1))
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _to_input(_kernels(weight), each, c, rows, cols, b)
        return of_x, of_weight


def conv_pool(x: Tensor, weight: Tensor, bias: Tensor, padding: int = 0) -> Tensor:
    """`max_pool2d(conv2d(x, weight, bias, padding=padding), 2)` of x [b, c, h, w]; the result is stored with the batch innermost.

    For square kernels of odd size and convolutions whose output has even height and width.  Where pixels of a window tie, the gradient is
    shared equally among them.  A GPU uses its own library, which is good at this.
    """
    if x.is_cuda:
        return F.max_pool2d(F.conv2d(x, weight, bias, padding=padding), 2)
    p = padding
    inner = F.pad(x.permute(1, 2, 3, 0).contiguous(), (0, 0, p, p, p, p)) if p else x.permute(1, 2, 3, 0)
    return (_ConvPool.apply(inner, weight)[0] + bias[:, None, None, None]).permute(3, 0, 1, 2)
