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
