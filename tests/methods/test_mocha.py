"""MOCHA: two rounds by hand, its penalty's gradient, and local training at coefficient 0."""

import pytest

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


def test_the_scale_is_that_of_the_released_code():
    assert [scale(p) for p in (2, 10, 122_570)] == pytest.approx([1e-2, 1e-3, 1e-7])
