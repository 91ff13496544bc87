"""FedProx: two rounds by hand, FedAvg at mu = 0, and what the proximal term does."""

from pfl_lib.methods import FedProx

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """mu = 1/2: each step is y <- (y + point) / 2 - (y - x) / 4; sizes 2 and 1.

    Round 1, x = (0, 0): y_0: (2, 0), then (1, 2) - (1/2, 0) = (1/2, 2);  y_1 = (4, -2).
      x = (1 + 4, 4 - 2) / 3 = (5/3, 2/3).
    Round 2: y_0: (17/6, 1/3), then (17/12, 13/6) - (7/6, -1/3) / 4 = (9/8, 9/4);
      y_1 = (29/6, -5/3).  x = (9/4 + 29/6, 9/2 - 5/3) / 3 = (85/36, 17/18).
    """
    (first, log), (second, _) = play(FedProx(mu=0.5), pencil(POINTS))
    exactly(first["theta"], [5 / 3, 2 / 3])
    exactly(second["theta"], [85 / 36, 17 / 18])
    exactly(log["weights"], [2 / 3, 1 / 3])
    assert log["models_up"] == log["models_down"] == 2
