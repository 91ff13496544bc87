"""A convolution, its 2x2 max-pooling and the activation as one differentiable operation, for small
images on one CPU core, and on a GPU for clients side by side.

A convolution followed by 2x2 max-pooling is a convolution of stride 2 with the kernel at each of
the window's four offsets, and then a maximum over the four.  Written with the batch innermost, that
is one matrix product over 6x6 patches instead of a convolution and a pooling that the library does
slowly on pictures of one or six channels; the activation comes last, on a quarter of the pixels.
"""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Activation(NamedTuple):
    """An increasing function, the same in place, its backward from gradient and output."""

    of: Callable[[Tensor], Tensor]
    in_place: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


ACTIVATIONS = {
    # In place as 2 sigmoid(2x) - 1: the library's sigmoid takes a sixth of the time of its tanh.
    "tanh": Activation(
        torch.tanh, lambda x: x.mul_(2).sigmoid_().mul_(2).sub_(1), torch.ops.aten.tanh_backward
    ),
    "relu": Activation(
        torch.relu, torch.relu_, lambda grad, y: torch.ops.aten.threshold_backward(grad, y, 0)
    ),
    "none": Activation(lambda x: x, lambda x: x, lambda grad, y: grad),
}


def _kernels(weight: Tensor) -> Tensor:
    """The kernel [o, c, k, k] at a pooling window's four offsets: [4 * o, c * (k+1)**2]."""
    k = weight.shape[-1] + 1
    shifted = F.pad(weight, (1, 1, 1, 1)).unfold(2, k, 1).unfold(3, k, 1)  # o, c, 2, 2, k, k
    return shifted.permute(2, 3, 0, 1, 4, 5).reshape(4 * weight.shape[0], -1)


def _patches(x: Tensor, k: int, stride: int = 2) -> Tensor:
    """The k x k patches at a stride of x [c, h, w, b]: [c * k * k, rows * columns * b]."""
    windows = x.unfold(1, k, stride).unfold(2, k, stride)
    return windows.permute(0, 4, 5, 1, 2, 3).reshape(x.shape[0] * k * k, -1)


def _to_input(kernels: Tensor, each: Tensor, c: int, rows: int, cols: int, b: int) -> Tensor:
    """The adjoint of `kernels @ _patches(x)`: [c, 2 * h, 2 * w, b].  One product gives every
    patch's share; a 6x6 patch is 3x3 blocks of 2x2 pixels, and the shares of one block in all
    patches fall on one rectangle of blocks: nine additions."""
    k = round((kernels.shape[1] // c) ** 0.5)
    t = k // 2
    h, w = rows + t - 1, cols + t - 1
    taps = kernels.reshape(-1, c, t, 2, t, 2).permute(2, 4, 1, 3, 5, 0).reshape(c * k * k, -1)
    shares = (taps @ each).reshape(t, t, c, 2, 2, rows, cols, b)
    blocks = each.new_zeros(c, 2, 2, h, w, b)
    windows = blocks.unfold(3, rows, 1).unfold(4, cols, 1).permute(3, 4, 0, 1, 2, 6, 7, 5)
    for window_row, share_row in zip(windows, shares, strict=True):
        for window, share in zip(window_row, share_row, strict=True):
            window.add_(share)
    return blocks.permute(0, 3, 1, 4, 2, 5).reshape(c, 2 * h, 2 * w, b)


class _ConvPool(torch.autograd.Function):
    """x [c, h, w, b], weight [o, c, k, k], bias [o] -> pooled [o, rows, cols, b], backward's."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, activation: str) -> tuple[Tensor, ...]:
        k, o = weight.shape[-1] + 1, weight.shape[0]
        patches, kernels = _patches(x, k), _kernels(weight)
        each = (kernels @ patches).reshape(4, o, -1)
        top = each.amax(0)
        lost = each.sub_(top).sign_()  # 0 where a pixel is its window's maximum, -1 elsewhere
        y = ACTIVATIONS[activation].in_place(top + bias[:, None])
        rows, columns = ((side - k) // 2 + 1 for side in x.shape[1:3])
        return y.reshape(o, rows, columns, x.shape[3]), patches, kernels, lost

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, weight, _, ctx.activation = inputs
        ctx.shape, ctx.k = x.shape, weight.shape[-1]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None, None
        y, patches, kernels, lost = ctx.saved_tensors
        (c, _, _, b), (o, rows, cols, _), k = ctx.shape, y.shape, ctx.k
        inner = ACTIVATIONS[ctx.activation].backward(grad, y).reshape(o, -1)
        share = inner / lost.sum(0).add_(4)  # equal parts where pixels tie
        each = torch.addcmul(share, lost, share).reshape(4 * o, -1)
        (first, right), (below, last) = (each @ patches.mT).reshape(2, 2, o, c, k + 1, k + 1)
        of_weight = first[:, :, 1:, 1:] + right[:, :, 1:, :-1]
        of_weight.add_(below[:, :, :-1, 1:]).add_(last[:, :, :-1, :-1])
        of_x = _to_input(kernels, each, c, rows, cols, b) if ctx.needs_input_grad[0] else None
        return of_x, of_weight, inner.sum(1), None


# `apply` asks for the signature at every call; kept here, it need not be worked out again: 1 % of
# LeNet-5's step.
_ConvPool.forward.__signature__ = inspect.signature(_ConvPool.forward)


class _Conv(torch.autograd.Function):
    """x [c, h, w, b], weight [o, c, k, k] -> the convolution [o, rows, columns, b]; its patches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        k, o = weight.shape[-1], weight.shape[0]
        patches = _patches(x, k, 1)
        y = weight.reshape(o, -1) @ patches
        return y.reshape(o, x.shape[1] - k + 1, x.shape[2] - k + 1, x.shape[3]), patches

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[1], output[1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None]:
        if grad is None:
            return None, None
        weight, patches = ctx.saved_tensors
        o, c, k, _ = weight.shape
        of_weight = (grad.reshape(o, -1) @ patches.mT).reshape(weight.shape)
        if not ctx.needs_input_grad[0]:
            return None, of_weight
        # To the input goes the convolution of what comes back, with every kernel turned round.
        around = F.pad(grad, (0, 0, *4 * [k - 1]))
        turned = weight.flip(2, 3).transpose(0, 1).reshape(c, -1)
        rows, columns = (side + k - 1 for side in grad.shape[1:3])
        return (turned @ _patches(around, k, 1)).reshape(c, rows, columns, -1), of_weight


def conv_pool(
    x: Tensor, weight: Tensor, bias: Tensor, padding: int = 0, activation: str = "none"
) -> Tensor:
    """`activation(max_pool2d(conv2d(x, weight, bias, padding=padding), 2))` of x [b, c, h, w],
    stored with the batch innermost.

    For square kernels of odd size.  Where pixels of a window tie, they share the gradient equally.
    """
    inner = x.permute(1, 2, 3, 0)
    if padding:
        inner = F.pad(inner.contiguous(), (0, 0, *4 * [padding]))
    over = [(side - weight.shape[-1] + 1) % 2 for side in inner.shape[1:3]]
    if any(over):  # a last row or column without a partner is in no window
        inner = inner[:, : inner.shape[1] - over[0], : inner.shape[2] - over[1]]
    return _ConvPool.apply(inner, weight, bias, activation)[0].permute(3, 0, 1, 2)


def pooled(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """`relu(max_pool2d(conv(x), 2))` of a plain convolution (odd square kernel, bias, no padding,
    stride or groups), on a GPU by `conv_pool`: cuDNN is slow at clients' convolutions side by side,
    each by weights of its own.  They differ in rounding and where pixels tie.
    """
    if _by_hand(x, conv):
        return conv_pool(x, conv.weight, conv.bias, 0, "relu")
    return F.max_pool2d(conv(x), 2).relu()


def convolved(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """`relu(conv(x))` of such a convolution, on a GPU as one product."""
    if _by_hand(x, conv):
        y = _Conv.apply(x.permute(1, 2, 3, 0), conv.weight)[0] + conv.bias[:, None, None, None]
        return y.relu().permute(3, 0, 1, 2)
    return conv(x).relu()


def _by_hand(x: Tensor, conv: nn.Conv2d) -> bool:
    # Hooks want what the layer is given and gives, as DP-SGD's do
    return x.is_cuda and not conv._forward_hooks
