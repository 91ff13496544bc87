"""Local training: two rounds by hand, and what it must leave alone."""

from pfl_lib.methods import Local

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """Each step is theta <- (theta + point) / 2; client 0 holds (4, 0) and (0, 4), client 1 holds
    (8, -4).

    Round 1, client 0: (0, 0) -> (2, 0) -> (1, 2);         client 1: (0, 0) -> (4, -2).
    Round 2, client 0: (1, 2) -> (2.5, 1) -> (1.25, 2.5);  client 1: (4, -2) -> (6, -3).
    """
    fed, method = pencil(POINTS, alice=None), Local()
    (first, _), (second, _) = play(method, fed)
    exactly(method.served(fed, first)["theta"], [[1, 2], [4, -2]])
    exactly(method.served(fed, second)["theta"], [[1.25, 2.5], [6, -3]])


def test_two_rounds_by_hand_with_momentum_weight_decay_and_a_falling_rate(pencil, play, exactly):
    """v <- v/2 + (g + theta/4), theta <- theta - lr v, with v = 0 at the start of each round; lr
    1/2, then 1/4.

    Round 1: g = (0,0)-(4,0) = (-4, 0), v = (-4, 0), theta = (2, 0);
             g = (2,0)-(0,4) = (2, -4), v = (-2, 0) + (2, -4) + (.5, 0) = (.5, -4), theta = (1.75,
             2).
    Round 2: g = (-2.25, 2), v = (-2.25, 2) + (.4375, .5) = (-1.8125, 2.5), theta = (1.75, 2) - v/4
    = (2.203125, 1.375);
             g = (2.203125, -2.625), v = (-.90625, 1.25) + g + (.55078125, .34375) = (1.84765625,
             -1.03125), theta = (2.203125, 1.375) - v/4 = (1.7412109375, 1.6328125).
    """
    fed, method = pencil(POINTS, momentum=0.5, weight_decay=0.25, lr_decay=0.5), Local()
    (first, _), (second, _) = play(method, fed)
    exactly(method.served(fed, first)["theta"][0], [1.75, 2])
    exactly(method.served(fed, second)["theta"][0], [1.7412109375, 1.6328125])


def test_only_alice_is_trained_where_she_alone_is_read(small, play):
    fed, method = small(alice=1), Local()
    asked = []
    train = fed.train
    fed.train = lambda rows, r, clients, *args, **kw: (
        asked.append(list(clients)) or train(rows, r, clients, *args, **kw)
    )
    (state, log), *_ = play(method, fed, rounds=1)
    moved = (state["theta"] != fed.initial()["theta"]).any(1)
    assert asked == [[1]]
    assert moved.tolist() == [False, True, False, False]
    assert log["weights"].tolist() == [0, 1, 0, 0]
    assert log["models_up"] == log["models_down"] == 0
