"""MOCHA: two rounds by hand, its penalty's gradient, and local training at coefficient 0."""

import pytest
import torch

from pfl_lib import BadInput
from pfl_lib.methods.local import Local
from pfl_lib.methods.mocha import Mocha, scale


def test_two_rounds_by_hand(pencil, play, exactly):
    """P = 2, so c = 12.5 x 10^-2 = 1/8; N = 2, so the penalty's gradient at w beside o is (2w - (w
    + o)/2) / 4 = (3w - o)/8; lr 1/2.  All on the first axis.

    Round 1, o = 0.  client 0 (4, 4): w = 2; g = -2 + 6/8, w = 2 + 5/8 = 21/8. client 1 (8): w = 4.
    Round 2.
      client 0, o = 4: g = 21/8 - 4 + (63/8 - 4)/8 = -57/64, w = 21/8 + 57/128 = 393/128;
        g = 393/128 - 4 + (1179/128 - 4)/8 = -285/1024, w = 393/128 + 285/2048 = 6573/2048.
      client 1, o = 21/8: g = -4 + (12 - 21/8)/8 = -181/64, w = 4 + 181/128 = 693/128.
    """
    fed = pencil([[(4, 0), (4, 0)], [(8, 0)]], alice=None)
    (first, log), (second, _) = play(Mocha(coefficient=12.5), fed)
    exactly(first["theta"], [[21 / 8, 0], [4, 0]])
    exactly(second["theta"], [[6573 / 2048, 0], [693 / 128, 0]])
    assert log == {"models_up": 2, "models_down": 2}


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_step_descends_the_whole_objective_of_a_client(small, participation):
    """One full batch moves a participant's w_i by -lr times autograd's gradient of f_i(w_i) + c
    (|W|^2 + tr(W Omega W^T)) in w_i, over all N clients, with Omega = (I - 11^T/N)^2 written out.
    """
    fed = small(alice=None, batch_size=9, rounds=1, participation=participation)
    random = torch.Generator().manual_seed(1)
    shape = (len(fed), fed.layout.P)
    theta = torch.randn(shape, generator=random, dtype=torch.float64)
    state = Mocha().start(fed) | {"theta": theta}
    method, c = Mocha(coefficient=50), 50 * scale(fed.layout.P)
    after, _ = method.round(fed, state, 1)
    plain, _ = Local().round(fed, state, 1)  # theta - lr grad f
    n = len(fed)
    omega = torch.eye(n, dtype=torch.float64) - 1 / n
    omega = omega @ omega
    assert len(fed.participants(1)) == n * participation
    for i in fed.participants(1):
        own = theta[i].clone().requires_grad_()
        columns = torch.stack([*theta[:i], own, *theta[i + 1 :]]).T
        penalty = c * (columns.square().sum() + (columns @ omega @ columns.T).trace())
        expected = plain["theta"][i] - 0.3 * torch.autograd.grad(penalty, own)[0]
        torch.testing.assert_close(after["theta"][i], expected, rtol=1e-12, atol=1e-12)
        assert (after["theta"][i] - plain["theta"][i]).abs().max() > 1e-3


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.01}], ids=str)
def test_coefficient_zero_is_local_training_bit_for_bit(small, play, settings):
    fed = small(dtype=torch.float32, alice=None, participation=0.5, **settings)
    for (mocha, _), (local, _) in zip(play(Mocha(0), fed), play(Local(), fed), strict=True):
        assert torch.equal(mocha["theta"], local["theta"])


def test_the_scale_is_that_of_the_released_code():
    assert [scale(p) for p in (2, 10, 122_570)] == pytest.approx([1e-2, 1e-3, 1e-7])


def test_a_negative_coefficient_is_refused():
    with pytest.raises(BadInput, match="^coefficient -1: give a number 0 or more$"):
        Mocha(coefficient=-1)
