"""FedFomo (MA): two rounds by hand, its identities, models that are lost."""

import torch

from pfl_lib import Federation
from pfl_lib.methods import FedFomo, FedFomoMA

HELD = [[(3, 0)], [(6, 0)], [(4, 0)]]
POINTS = [[(4, 0)], [(8, 0)], [(12, 0)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """A step is theta <- (theta + point) / 2; L_i(theta) = 1 + |theta - v_i|^2 / 2, v = 3, 6, 4.
    All on the first axis; clients train on 4, 8 and 12.

    Round 1, all from 0: y = 2, 4, 6.  The average of all is 4; without each 5, 4, 3.
      client 0: L = 1.5;  3, 1.5, 1;  w = 1.5, 0, -.5;  w* = 1, 0, 0;  theta_0 = 2.
      client 1: L = 3;  1.5, 3, 5.5;  w = -1.5, 0, 2.5;  w* = 0, 0, 1;  theta_1 = 6.
      client 2: L = 1;  1.5, 1, 1.5;  w = .5, 0, .5;  w* = 1/2, 0, 1/2;  theta_2 = 4.
    Round 2: y = 3, 7, 8.  The average is 6; without each 7.5, 5.5, 5.
      client 0: L = 5.5;  11.125, 4.125, 3;  only w_0 is above 0;  theta_0 = 3.
      client 1: L = 1;  2.125, 1.125, 1.5;  w = 1.125, .125, .5, of 1.75;  theta_1 = (9*3 + 1*7 +
      4*8)/14 = 33/7.
      client 2: L = 3;  7.125, 2.125, 1.5;  only w_0 is above 0;  theta_2 = 3.
    """
    fed = pencil(POINTS, alice=None, validation=HELD)
    (first, log), (second, next_log) = play(FedFomoMA(), fed)
    exactly(log["weights"], [[1, 0, 0], [0, 0, 1], [0.5, 0, 0.5]])
    exactly(first["theta"], [[2, 0], [6, 0], [4, 0]])
    exactly(next_log["weights"], [[1, 0, 0], [9 / 14, 1 / 14, 4 / 14], [1, 0, 0]])
    exactly(second["theta"], [[3, 0], [33 / 7, 0], [3, 0]])
    assert log["models_up"] == 3
    assert log["models_down"] == 3 * 5  # the four averages and the mixture


def test_alike_clients_are_of_no_use_to_each_other_and_go_back(small, play):
    """Every average is the same model, so that no weight is above 0: nobody ever moves."""
    fed = small(alice=None, repeat=True, shuffled=False, rounds=2)
    for state, log in play(FedFomoMA(), fed):
        assert not log["weights"].any()
        torch.testing.assert_close(state["theta"], fed.initial()["theta"].expand(4, -1))


def test_it_is_fedfomo_where_both_give_all_weight_to_ones_own_model(pencil, play):
    """A triangle's corners: the average without another one is nearer; both serve y_i."""
    points = [[(2, 0)], [(-1, 3**0.5)], [(-1, -(3**0.5))]]
    fed = pencil(points, alice=None, validation=points)
    runs = (play(method, fed) for method in (FedFomoMA(), FedFomo(n=1)))
    for (mine, log), (theirs, _) in zip(*runs, strict=True):
        assert torch.equal(log["weights"], torch.eye(3, dtype=torch.float64))
        torch.testing.assert_close(mine["theta"], theirs["theta"])


def test_a_lost_model_is_in_no_average(pencil, play, exactly):
    """Client 2's model is infinite: the others are as two clients alone, y = 2 and 4, and client 2
    can still be served one of theirs.
    """
    fed = pencil(POINTS, alice=None, validation=[[(2, 0)], [(3, 0)], [(4, 0)]])
    start = FedFomoMA().start(fed)
    lost = start | {"theta": start["theta"].clone()}
    lost["theta"][2] = float("inf")
    (state, log), *_ = play(FedFomoMA(), fed, rounds=1, state=lost)
    exactly(log["weights"], [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]])
    exactly(state["theta"], [[2, 0], [3, 0], [4, 0]])


def test_a_client_alone_in_a_round_keeps_what_it_trained(pencil, play, exactly):
    fed = pencil(POINTS, rounds=1, alice=None, validation=HELD, availability=((0, 2, 2), (1, 2, 2)))
    (state, log), *_ = play(FedFomoMA(), fed, rounds=1)
    exactly(state["theta"], [[0, 0], [0, 0], [6, 0]])
    assert log["models_down"] == 0


def test_a_model_without_which_the_loss_is_not_finite_gets_no_weight(
    pencil, play, exactly, monkeypatch
):
    """As by hand; client 0, who had all weight on model 0, has none left and goes back."""
    evaluate = Federation.evaluate

    def lost(fed, rows, split="test", clients=None):
        losses, right = evaluate(fed, rows, split, clients)
        if split == "validation":
            losses[1] = float("inf")
        return losses, right

    monkeypatch.setattr(Federation, "evaluate", lost)
    fed = pencil(POINTS, alice=None, validation=HELD)
    (state, log), *_ = play(FedFomoMA(), fed, rounds=1)
    exactly(log["weights"], [[0, 0, 0], [0, 0, 1], [0, 0, 1]])
    exactly(state["theta"], [[0, 0], [6, 0], [6, 0]])
