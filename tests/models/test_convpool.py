"""`conv_pool` is a convolution and a 2x2 max-pooling, in value and in gradient."""

import pytest
import torch
from torch.nn import functional as F

from pfl_lib.models.convpool import ACTIVATIONS, conv_pool

# Channels in, channels out, height, padding: LeNet-5's two, and colour
SHAPES = [(1, 6, 28, 2), (6, 16, 14, 0), (3, 2, 8, 2)]


def _inputs(c: int, o: int, size: int, batch: int = 7) -> list[torch.Tensor]:
    generator, of = torch.Generator().manual_seed(3), {"dtype": torch.float64}
    shapes = ((batch, c, size, size), (o, c, 5, 5), (o,))
    return [torch.randn(shape, generator=generator, **of).requires_grad_() for shape in shapes]


def _plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, padding: int) -> torch.Tensor:
    return F.max_pool2d(F.conv2d(x, weight, bias, padding=padding), 2)


@pytest.mark.parametrize("activation", ["none", "tanh", "relu"])
@pytest.mark.parametrize(("c", "o", "size", "padding"), SHAPES)
@pytest.mark.parametrize("batch", [1, 7])
def test_values_and_gradients_are_those_of_convolution_and_pooling_and_then_of_the_activation(
    c, o, size, padding, batch, activation
):
    given = _inputs(c, o, size, batch)
    ours, plain = conv_pool(*given, padding, activation), _plain(*given, padding)
    plain = plain if activation == "none" else getattr(torch, activation)(plain)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    outer = torch.randn(plain.shape, generator=torch.Generator().manual_seed(4), dtype=plain.dtype)
    slopes = (torch.autograd.grad(of, given, outer) for of in (ours, plain))
    torch.testing.assert_close(*slopes, rtol=1e-11, atol=1e-11)


def test_tanh_by_the_sigmoid_is_tanh_to_the_rounding_of_one():
    x = torch.linspace(-100, 100, 20_001)
    assert (ACTIVATIONS["tanh"].in_place(x.clone()) - torch.tanh(x)).abs().max() <= 2e-7


def test_ties_share_the_gradient_equally_and_keep_its_sum():
    x = torch.ones(1, 1, 8, 8, dtype=torch.float64, requires_grad=True)  # inner windows: four ties
    _, weight, bias = _inputs(1, 1, 8)
    ours = torch.autograd.grad(conv_pool(x, weight, bias, 0).sum(), (x, weight))
    plain = torch.autograd.grad(_plain(x, weight, bias, 0).sum(), (x, weight))
    torch.testing.assert_close(ours[0].sum(), plain[0].sum(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours[1], plain[1], rtol=1e-12, atol=1e-12)
    assert not torch.equal(ours[0], plain[0])  # the library gives all to a window's first pixel


def test_a_second_derivative_is_refused_rather_than_wrong():
    x, weight, bias = _inputs(1, 2, 8)
    loss = conv_pool(x, weight, bias, 2).square().sum()
    (first,) = torch.autograd.grad(loss, weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
