"""FedAvg: two rounds by hand."""

from pfl_lib.methods import FedAvg

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


def test_two_rounds_by_hand_with_weights_by_size(pencil, play, exactly):
    """Each step is theta <- (theta + point) / 2; sizes 2 and 1, so x <- (2 y_0 + y_1) / 3.

    Round 1: y_0: (0,0) -> (2,0) -> (1,2);  y_1: (0,0) -> (4,-2);  x = (2+4, 4-2)/3 = (2, 2/3).
    Round 2: y_0: (2,2/3) -> (3,1/3) -> (3/2,13/6);  y_1: (2,2/3) -> (5,-5/3);  x = (3+5,
    13/3-5/3)/3 = (8/3, 8/9).
    """
    (first, log), (second, _) = play(FedAvg(), pencil(POINTS))
    exactly(first["theta"], [2, 2 / 3])
    exactly(second["theta"], [8 / 3, 8 / 9])
    exactly(log["weights"], [2 / 3, 1 / 3])
    assert log["models_up"] == log["models_down"] == 2
