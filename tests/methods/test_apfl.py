"""APFL: rounds by hand, also as iFedAvg has it: v's start, what is averaged, what v learns from."""

import torch

from pfl_lib.methods import APFL, FedAvg
from tests.common import refused

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


def test_the_mixture_stays_between_zero_and_one(small, play):
    logs = [log["alpha"] for _, log in play(APFL(0.5), small(alice=None, lr=3.0, rounds=6))]
    assert all(((alpha >= 0) & (alpha <= 1)).all() for alpha in logs)
    assert any(((alpha == 0) | (alpha == 1)).any() for alpha in logs), "never clipped"


# --- as iFedAvg has it ---
IFEDAVG = {"mixture_step": "round", "averaged": "mixtures", "own_gradient": "outputs"}


def test_two_rounds_of_averaged_mixtures_of_outputs_by_hand(pencil, play, exactly):
    """lr 1/2;  v <- v - a (v - point)/2,  w <- (w + point)/2.

    After the round a <- a + <v - w, what v moved by>, and the new w is the mean of a v + (1-a) w.

    Round 1, v = w = 0, a = 1/2.
      client 0: v = (1,0), w = (2,0);  v = (1,0) - (2,0)/4 = (1/2,0), w = (1/2,0); mixed (1/2,0).
      client 1: v = (3/8,-1/2), w = (3/4,-1); mixed (9/16,-3/4).   shared w = (17/32,-3/8).
    Round 2.
      client 0, v - w = (-1/32,3/8): v = (1/2,0) + (7/8,0) = (11/8,0), then (11/8,0) - (19/8,0)/4 =
        (25/32,0), moved (9/32,0), a = 1/2 - 9/1024 = 503/1024;  w = (145/64,-3/16), then
        (81/128,-3/32).
      client 1, v - w = (-5/32,-1/8): v = (3/8,-1/2) - (-9/8,3/2)/4 = (21/32,-7/8), moved
        (9/32,-3/8), a = 1/2 - 45/1024 + 48/1024 = 515/1024;  w = (65/64,-19/16).
    """
    fed, method = pencil(POINTS, alice=None), APFL(**IFEDAVG)
    (first, log), (second, next_log) = play(method, fed)
    exactly(log["alpha"], [1 / 2, 1 / 2])
    exactly(first["personal"], [[1 / 2, 0], [3 / 8, -1 / 2]])
    exactly(first["theta"], [17 / 32, -3 / 8])
    exactly(next_log["alpha"], [503 / 1024, 515 / 1024])
    exactly(second["personal"], [[25 / 32, 0], [21 / 32, -7 / 8]])
    a, b = 503 / 1024, 515 / 1024
    one = (a * 25 / 32 + (1 - a) * 81 / 128, -(1 - a) * 3 / 32)
    other = (b * 21 / 32 + (1 - b) * 65 / 64, -b * 7 / 8 - (1 - b) * 19 / 16)
    x, y = ((one[k] + other[k]) / 2 for k in (0, 1))
    exactly(second["theta"], [x, y])
    served = [[a * 25 / 32 + (1 - a) * x, (1 - a) * y]]
    served += [[b * 21 / 32 + (1 - b) * x, -b * 7 / 8 + (1 - b) * y]]
    exactly(method.served(fed, second)["theta"], served)


def test_outputs_and_mixtures_agree_while_v_is_w_and_part_later(small, play):
    fed = small(alice=None, batch_size=9)
    methods = [APFL(adaptive=False), APFL(adaptive=False, own_gradient="outputs")]
    (one, two), (same, other) = ([s for s, _ in play(m, fed, rounds=2)] for m in methods)
    torch.testing.assert_close(one["personal"], same["personal"], rtol=1e-12, atol=1e-12)
    assert (two["personal"] - other["personal"]).abs().max() > 1e-3


def test_a_random_start_is_each_clients_own_and_leaves_the_shared_model(small, play):
    fed, again = small(alice=None), small(alice=2)
    start = APFL(own_start="random").start(fed)
    rows = [*start["personal"], start["theta"]]
    assert all(not torch.equal(rows[i], rows[k]) for i in range(5) for k in range(i))
    assert torch.equal(APFL(own_start="random").start(again)["personal"][0], rows[2])
    runs = (play(method, fed) for method in (APFL(own_start="random"), FedAvg("uniform")))
    for (mine, _), (theirs, _) in zip(*runs, strict=True):
        assert torch.equal(mine["theta"], theirs["theta"])
    first = play(APFL(own_start="random"), fed, rounds=1)[0][1]["alpha"]
    assert (first != 0.5).all()  # v is not w, so round 1 moves the mixture


def test_alone_with_a_random_start_the_end_at_one_trains_that_start(small, play):
    fed = small(alice=None)
    method = APFL(1.0, adaptive=False, own_start="random", averaged="mixtures")
    local = fed.initial_each(range(4))
    for r, (state, _) in enumerate(play(method, fed), start=1):
        local, _ = fed.train(local, r, range(4))
        assert torch.equal(state["personal"], local["theta"])
        torch.testing.assert_close(state["theta"], local["theta"].mean(0), rtol=1e-12, atol=1e-12)


def test_the_first_batchs_mixture_needs_the_gradient_there():
    refused("^mixture_step 'first batch' needs the gradient at", APFL, own_gradient="outputs")


def test_a_random_start_needs_a_function_that_makes_the_model(pencil):
    told, method = "^each client is to draw a model of its own, and", APFL(own_start="random")
    refused(told, method.start, pencil(POINTS))
