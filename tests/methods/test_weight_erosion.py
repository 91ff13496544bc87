"""Weight Erosion: two rounds by hand, Equation 5 alone, and what it becomes at its two ends."""

import math

import pytest
import torch

from pfl_lib.methods import WeightErosion
from pfl_lib.methods.weight_erosion import erode, passes_in_batches, relative_distances, welcome

POINTS = [[(6, 8)], [(-10, 20)], [(22, -4), (22, -4)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """One step of theta <- (theta + point) / 2 a round; p_d = 1/8, p_s = 1; Alice is client 0,
    client 2 holds its point twice.

    Round 1, x = 0: updates g_0 = (3,4), g_1 = (-5,10), g_2 = (11,-2).  |g_0| = 5, g_1 - g_0 =
    (-8,6), g_2 - g_0 = (8,-6), so
      d = (0, 2, 2).  No pass is complete: alpha = 1 - d/8 = (1, .75, .75).
      x = (g_0 + .75 (g_1 + g_2)) / 2.5 = ((3,4) + .75 (6,8)) / 2.5 = (3,4).
    Round 2: y_0 = (4.5,6), y_1 = (-3.5,12), y_2 = (12.5,0);  g_0 = (1.5,2), |g_0| = 2.5, d = (0,
    10/2.5, 10/2.5) = (0,4,4).
      Client 1 has completed one pass over its single example, client 2 half a pass over its two:
      alpha_1 = max(0, .75 - (1+1) 4/8) = 0;  alpha_2 = .75 - 4/8 = .25.
      x = (y_0 + .25 y_2) / 1.25 = (7.625, 6) / 1.25 = (6.1, 4.8).
    """
    fed = pencil(POINTS, local_batches=1)
    (first, log), (second, next_log) = play(WeightErosion(p_d=0.125, p_s=1.0), fed)
    exactly(log["weights"], [1, 0.75, 0.75])
    exactly(first["theta"], [3, 4])
    exactly(next_log["weights"], [1, 0, 0.25])
    exactly(second["theta"], [6.1, 4.8])


def test_passes_counted_after_the_round_by_hand(pencil, play, exactly):
    """counting="after", as the authors' code: client 1 has made a pass in round 1 already, alpha_1
    = 1 - (1+1) 2/8 = .5.

    x = (g_0 + .5 g_1 + .75 g_2) / 2.25 = ((3,4) + (-2.5,5) + (8.25,-1.5)) / 2.25 = (8.75,7.5) /
    2.25 = (35/9, 10/3).
    """
    fed = pencil(POINTS, rounds=1, local_batches=1)
    [(state, log)] = play(WeightErosion(p_d=0.125, p_s=1.0, counting="after"), fed)
    exactly(log["weights"], [1, 0.5, 0.75])
    exactly(state["theta"], [35 / 9, 10 / 3])


def test_passes_in_batches_are_the_printed_formulas_with_sizes_in_batches(pencil, play):
    """Batches of 2, round 4: clients of 1, 2, 3 and 10 examples have 1, 1, 2 and 5 batches; 3 2 / n
    is 6, 6, 3 and 1.2.  With one local epoch all have made three passes.
    """
    sizes = torch.tensor([1, 2, 3, 10])
    assert passes_in_batches(4, sizes, 2).tolist() == [6, 6, 3, 1]
    assert passes_in_batches(1, sizes, 2).tolist() == [0, 0, 0, 0]
    points = [[(6, 8)] * 2, [(5, 9)] * 3, [(5, 9)] * 10]
    fed = pencil(points, rounds=4, batch_size=2, lr=0.1)
    state, _ = play(WeightErosion(p_d=1e-3, p_s=0.0), fed, rounds=3)[-1]

    def falls(**settings):
        after, _ = WeightErosion(p_d=1e-3, **settings).round(fed, state, 4)
        return (state["weights"] - after["weights"])[1:]

    plain = falls(p_s=0.0)
    assert (falls(p_s=1.0, counting="batches") / plain).tolist() == pytest.approx([4, 2])
    assert (falls(p_s=1.0) / plain).tolist() == pytest.approx([4, 4])


def test_passes_are_those_made_where_the_printed_formula_counts_more(pencil, play):
    """263 examples in batches of 161 are two batches a pass: 14 passes before round 30, where
    floor(29 161 / 263) is 17.  A weight then falls by 1 + 14 p_s times what it falls by at p_s = 0.
    """
    points = [[(1, 0)] * 322, [(0, 1)] * 263]
    fed = pencil(points, rounds=30, batch_size=161, local_batches=1, lr=0.01)
    state, _ = play(WeightErosion(p_d=1e-3, p_s=0.0), fed, rounds=29)[-1]
    plain, penal = (
        state["weights"][1]
        - WeightErosion(p_d=1e-3, p_s=p_s).round(fed, state, 30)[0]["weights"][1]
        for p_s in (0.0, 1.0)
    )
    assert plain > 0 and (penal / plain).item() == pytest.approx(1 + 14, rel=1e-6)
    assert 29 * 161 // 263 == 17


def test_erode_is_equation_5():
    """max(0, alpha - (1 + p_s passes) p_d d), by hand."""
    found = erode([1.0, 0.9, 0.1], [0.0, 2.0, 2.0], p_d=0.1, p_s=0.5, passes=1)
    torch.testing.assert_close(found, torch.tensor([1, 0.6, 0], dtype=torch.float64))
    per_agent = erode([1.0, 1.0], [1.0, 1.0], p_d=0.1, p_s=2.0, passes=torch.tensor([0, 3]))
    torch.testing.assert_close(per_agent, torch.tensor([0.9, 0.3], dtype=torch.float64))


def test_infinite_distances_erode_everything_unless_nothing_erodes():
    assert erode([1.0, 1.0], [0.0, math.inf], p_d=1e-9).tolist() == [1, 0]
    assert erode([1.0, 1.0], [0.0, math.inf], p_d=0.0).tolist() == [1, 1]
    assert erode([1.0, 1.0], [0.0, 0.5], p_d=math.inf).tolist() == [1, 0]
    assert erode([1.0, 1.0], [0.0, math.inf], p_d=math.inf, p_s=1.0, passes=2).tolist() == [1, 0]
    assert math.isnan(erode([1.0, 1.0], [0.0, math.nan], p_d=0.1)[1])


def test_relative_distances_are_equation_4():
    """|(3,4)| = 5; |(3,4) - (0,0)| = 5, |(3,4) - (-3,-4)| = 10, |(3,4) - (3,16)| = 12."""
    updates = torch.tensor([[0.0, 0.0], [3.0, 4.0], [-3.0, -4.0], [3.0, 16.0]])
    expected = torch.tensor([1, 0, 2, 2.4], dtype=torch.float64)
    torch.testing.assert_close(relative_distances(updates, 1), expected)
    # Appendix A, Example 3: infinite where g_0 = 0, except for clients that do not move either.
    updates = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert relative_distances(updates, 0).tolist() == [0, math.inf, 0]


def test_newcomers_get_the_mean_or_median_of_the_others_weights():
    known, skewed, nobody = (
        torch.tensor(weights, dtype=torch.float64)
        for weights in ([1, 0.5, math.nan, 0, math.nan], [1, 0.4, math.nan, 0.1], [math.nan] * 3)
    )
    assert welcome(known, [0, 1, 2, 3], "mean").tolist()[:4] == [1, 0.5, 0.5, 0]
    assert welcome(skewed, [0, 2], "median").tolist() == [1, 0.4, 0.4, 0.1]
    even = torch.tensor([1, 0.2, math.nan], dtype=torch.float64)
    assert welcome(even, [2], "median")[2] == 0.6, "of an even number the middle of both"
    assert welcome(nobody, [0, 2], "mean")[[0, 2]].tolist() == [1, 1]
