"""Ditto: two rounds by hand, and what it becomes without its pull and with a great one."""

from pfl_lib.methods import Ditto

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2, lambda 1/2;  w <- w - (w - point)/2,  v <- v - (v - point + (v - w)/2)/2, w as
    received.

    Round 1, w = v = 0.
      w: client 0 ends at (1,2), client 1 at (4,-2);  w = (2.5,0).
      v_0: (-4,0), v = (2,0);  (2,-4) + (1,0) = (3,-4), v_0 = (.5,2).  v_1: (-8,4), v_1 = (4,-2).
    Round 2, w = (2.5,0).
      w: client 0 ends at (1.625,2), client 1 at (5.25,-2);  w = (3.4375,0).
      v_0: (-3.5,2) + (-2,2)/2 = (-4.5,3), v = (2.75,.5);  (2.75,-3.5) + (.25,.5)/2 = (2.875,-3.25),
        v_0 = (1.3125,2.125).
      v_1: (-4,2) + (1.5,-2)/2 = (-3.25,1), v_1 = (5.625,-2.5).
    """
    fed, method = pencil(POINTS, alice=None), Ditto(0.5, "uniform")
    (first, _), (second, log) = play(method, fed)
    exactly(first["theta"], [2.5, 0])
    exactly(first["personal"], [[0.5, 2], [4, -2]])
    exactly(second["theta"], [3.4375, 0])
    exactly(method.served(fed, second)["theta"], [[1.3125, 2.125], [5.625, -2.5]])
    exactly(log["weights"], [0.5, 0.5])
    assert log["models_up"] == log["models_down"] == 2
