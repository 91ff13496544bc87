"""APFL: two rounds by hand, and what it becomes at the mixture's two ends."""

import torch

from pfl_lib.methods import APFL

POINTS = [[(4, 0), (-1, 0)], [(1.5, -2)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2, a = 1/2; u = a v + (1-a) w, g = u - point;  v <- v - a g/2,  w <- (w + point)/2,  at
    a round's first step a <- a - <v-w, g>/2.

    Round 1, v = w = 0, so <v-w, g> = 0 and a stays.
      client 0: g = (-4,0), v = (1,0), w = (2,0);  u = (3/2,0), g = (5/2,0), v = (1,0) - (5/8,0) =
      (3/8,0), w = (1/2,0). client 1: g = (-3/2,2), v = (3/8,-1/2), w = (3/4,-1). shared w =
      (5/8,-1/2).  Served v/2 + w/2: (1/2,-1/4) and (1/2,-1/2).
    Round 2.
      client 0: u = (1/2,-1/4), g = (-7/2,-1/4), v - w = (-1/4,1/2), <v-w, g> = 7/8 - 1/8 = 3/4, a =
      1/2 - 3/8 = 1/8;
        with the old a, v = (3/8,0) - g/4 = (5/4,1/16), w = (37/16,-1/4). u = v/8 + 7w/8 =
        (279,-27)/128, g = (407,-27)/128, v = (5/4,1/16) - g/16 = (2153,155)/2048, w = (21/32,-1/8).
      client 1: u = (1/2,-1/2), g = (-1,3/2), v - w = (-1/4,0), <v-w, g> = 1/4, a = 3/8;  v =
      (5/8,-7/8), w = (17/16,-5/4). shared w = (55/64,-11/16).  Served a v + (1-a) w:
        client 0: (2153/16384 + 385/512, 155/16384 - 77/128);  client 1: (15/64 + 275/512, -21/64 -
        55/128)."""
    fed, method = pencil(POINTS, alice=None), APFL()
    (first, log), (second, next_log) = play(method, fed)
    exactly(log["alpha"], [0.5, 0.5])
    exactly(first["theta"], [5 / 8, -1 / 2])
    exactly(first["personal"], [[3 / 8, 0], [3 / 8, -1 / 2]])
    exactly(method.served(fed, first)["theta"], [[1 / 2, -1 / 4], [1 / 2, -1 / 2]])
    exactly(next_log["alpha"], [1 / 8, 3 / 8])
    exactly(second["theta"], [55 / 64, -11 / 16])
    exactly(second["personal"], [[2153 / 2048, 155 / 2048], [5 / 8, -7 / 8]])
    own = [2153 / 16384 + 385 / 512, 155 / 16384 - 77 / 128]
    other = [15 / 64 + 275 / 512, -21 / 64 - 55 / 128]
    exactly(method.served(fed, second)["theta"], [own, other])


def test_a_mixture_that_moves_by_the_round_by_hand(pencil, play, exactly):
    """As above, with a = 1/2 through round 2.

    client 0: v = (5/4,1/16), w = (37/16,-1/4);  u = (57,-3)/32, g = (89,-3)/32, v = (71,11)/128;
      v moved by (23,11)/128 from (3/8,0), v - w was (-1/4,1/2):  a = 1/2 - 23/512 + 22/512 =
      255/512.
    client 1: v = (5/8,-7/8), moved by (1/4,-3/8), v - w was (-1/4,0):  a = 1/2 - 1/16 = 7/16."""
    fed, method = pencil(POINTS, alice=None), APFL(mixture_step="round")
    (_, log), (second, next_log) = play(method, fed)
    exactly(log["alpha"], [0.5, 0.5])
    exactly(second["personal"], [[71 / 128, 11 / 128], [5 / 8, -7 / 8]])
    exactly(next_log["alpha"], [255 / 512, 7 / 16])
    exactly(second["alpha"][:, 0], [255 / 512, 7 / 16])


def test_a_mixture_that_moves_at_every_batch_by_hand(pencil, play, exactly):
    """As the first run, where round 2's second step of client 0 moves the mixture too.

    Round 1, client 0's second step: v - w = (-1,0), g = (5/2,0), a = 1/2 + 5/4, clipped to 1.
    Round 2, from a = 1/2, client 0's second step: a = 1/8, v = (5/4,1/16), w = (37/16,-1/4), g =
    (407,-27)/128; v - w = (-17,5)/16, <v-w, g> = (-17 407 - 5 27)/2048 = -7054/2048, a = 1/8 +
    3527/2048 is clipped to 1.  v and w do not change by it."""
    fed, method = pencil(POINTS, alice=None, rounds=1), APFL(mixture_step="every batch")
    [(first, log)] = play(method, fed)
    exactly(log["alpha"], [1, 0.5])
    exactly(first["personal"], [[3 / 8, 0], [3 / 8, -1 / 2]])
    start = first | {"alpha": torch.full((2, 1), 0.5, dtype=torch.float64)}
    second, log = method.round(fed, start, 2)
    exactly(log["alpha"], [1, 3 / 8])
    exactly(second["personal"], [[2153 / 2048, 155 / 2048], [5 / 8, -7 / 8]])


def test_the_mixture_stays_between_zero_and_one(small, play):
    logs = [log["alpha"] for _, log in play(APFL(0.5), small(alice=None, lr=3.0, rounds=6))]
    assert all(((alpha >= 0) & (alpha <= 1)).all() for alpha in logs)
    assert any(((alpha == 0) | (alpha == 1)).any() for alpha in logs), "never clipped"
