"""FedFomo: two rounds by hand, its weights, what is downloaded, and when a client goes back."""

import pytest
import torch

from pfl_lib import Federation, Schedule
from pfl_lib.methods.fedfomo import FedFomo, demote, downloads, normalised, signed_weights
from pfl_lib.methods.fedfomo_ma import FedFomoMA
from pfl_lib.methods.local import Local
from pfl_lib.randomness import generator
from pfl_lib.rows import copies
from tests.common import refused

EVERYBODY = FedFomo(n=2)
POINTS, HELD = [[(4, 0)], [(8, 0)]], {"validation": [[(4, 0)], [(2, 0)]], "alice": None}


def weights(*given) -> torch.Tensor:
    return normalised(signed_weights(*given))


def test_two_rounds_by_hand(pencil, play, exactly):
    """A step is theta <- (theta + point) / 2; L_i(theta) = 1 + |theta - v_i|^2 / 2.  All on the
    first axis; client 0 trains and validates on 4, client 1 trains on 8 and validates on 2.

    Round 1, both from 0: y_0 = 2, y_1 = 4.
      client 0: L = 9 at 0, 3 at y_0, 1 at y_1;  w = 6/2, 8/4 = 3, 2;  theta_0 = (3*2 + 2*4)/5 =
      2.8. client 1: L = 3 at 0, 1 at y_0, 3 at y_1;  w = 2/2, 0/4 = 1, 0;  theta_1 = 2.
    Round 2: y_0 = (2.8+4)/2 = 3.4, y_1 = (2+8)/2 = 5.
      client 0: L = 1.72 at 2.8, 1.18 at y_0, 1.5 at y_1;  w = .54/.6, .22/2.2 = .9, .1;  theta_0 =
      .9*3.4 + .1*5 = 3.56. client 1: L = 1 at 2, 1.98 at y_0, 5.5 at y_1;  w = -.98/1.4, -4.5/3 =
      -.7, -1.5: neither helps, it goes back to 2.
    P = 1 on the diagonal plus all w.
    """
    fed = pencil(POINTS, **HELD)
    (first, log), (second, next_log) = play(EVERYBODY, fed)
    exactly(log["weights"], [[0.6, 0.4], [1, 0]])
    exactly(first["theta"], [[2.8, 0], [2, 0]])
    exactly(log["matrices"]["affinity"], [[4, 2], [1, 1]])
    exactly(next_log["weights"], [[0.9, 0.1], [0, 0]])
    exactly(second["theta"], [[3.56, 0], [2, 0]])
    exactly(second["affinity"], [[4.9, 2.1], [0.3, -0.5]])
    exactly(log["early_stopped"], [0, 0])
    exactly(next_log["early_stopped"], [0, 1])
    assert log["models_up"] == 2
    assert log["models_down"] == 2  # each one's own model stays where it is


def test_uploads_of_earlier_rounds_that_the_server_keeps_by_hand(pencil, play, exactly):
    """Rounds as above, but client 1 is away in the second; its y_1 = 4 of round 1 is still there.

    Client 0 has y_0 = 3.4: L = 1.72 at 2.8, 1.18 at y_0, 1 at y_1;  w = .54/.6, .72/1.2 = .9, .6;
    theta_0 = (.9*3.4 + .6*4)/1.5 = 3.64.  Without the earlier upload it gets its own y_0.
    """
    fed = pencil(POINTS, availability=((1, 1, 1),), **HELD)
    (first, _), (second, log) = play(FedFomo(n=2, keeps=True), fed)
    exactly(first["theta"], [[2.8, 0], [2, 0]])
    exactly(log["weights"], [[0.6, 0.4], [0, 0]])
    exactly(second["theta"], [[3.64, 0], [2, 0]])
    exactly(second["affinity"], [[4.9, 2.6], [1, 1]])
    exactly(second["uploaded theta"], [[3.4, 0], [4, 0]])
    assert (log["models_up"], log["models_down"]) == (1, 1)
    _, (forgotten, log) = play(EVERYBODY, fed)
    exactly(forgotten["theta"], [[3.4, 0], [2, 0]])
    assert log["models_down"] == 0


def test_a_warm_up_is_one_local_epoch_of_every_client_before_the_first_round(small):
    fed = small(clients=4, participation=0.5, local_epochs=3)
    trained, _ = fed.train(copies(fed.initial(), 4), 0, range(4), epochs=1)
    start = FedFomo(n=2, warm_up=True).start(fed)
    assert torch.equal(start["theta"], trained["theta"])
    assert torch.equal(FedFomo(n=2).start(fed)["theta"], copies(fed.initial(), 4)["theta"])
    falling = small(clients=4, participation=0.5, local_epochs=3, lr_decay=0.1)
    assert torch.equal(FedFomo(n=2, warm_up=True).start(falling)["theta"], trained["theta"])


def test_who_has_never_uploaded_is_not_sent(pencil, play, exactly):
    fed = pencil(POINTS, availability=((1, 2, 2),), **HELD)
    (state, log), _ = play(FedFomo(n=2, keeps=True), fed)
    assert log["models_down"] == 0 and state["has uploaded"].tolist() == [True, False]
    exactly(state["theta"], [[2, 0], [0, 0]])


def test_the_released_affinities_by_hand(pencil, play, exactly):
    """As round 1 above, w / |sum w|: 3/5, 2/5 and 1/1, 0/1."""
    fed = pencil(POINTS, **HELD)
    (state, _), *_ = play(FedFomo(n=2, affinity="normalised"), fed, rounds=1)
    exactly(state["affinity"], [[1.6, 0.4], [1, 1]])


def test_distances_are_euclidean_or_l1_by_hand(pencil, play, exactly):
    """From 0, y_0 = (2, 0) and y_1 = (3, 4); client 0 validates on (3, 4), L = 13.5 at 0.

    L = 9.5 at y_0, 1 at y_1.  Distances 2 and 5, by L1 2 and 7:  w = 2, 2.5 or 2, 12.5/7.
    """
    points, held = [[(4, 0)], [(6, 8)]], [[(3, 4)], [(3, 4)]]
    for norm, far in (("l2", 12.5 / 5), ("l1", 12.5 / 7)):
        fed = pencil(points, alice=None, validation=held)
        (_, log), *_ = play(FedFomo(n=2, norm=norm), fed, rounds=1)
        exactly(log["weights"][0], [2 / (2 + far), far / (2 + far)])


def test_models_at_distance_zero_or_not_finite_have_no_weight():
    inf, nan = float("inf"), float("nan")
    losses, apart = torch.tensor([1.0, nan, inf, 1.0, 1.0]), torch.tensor([0.0, 1, 1, inf, 2])
    assert signed_weights(2.0, losses, apart).tolist() == [0, 0, 0, 0, 0.5]
    assert weights(nan, losses, apart).tolist() == [0] * 5


def test_exploration_falls_by_a_twentieth_a_round_to_zero_in_the_seventh():
    chances = [FedFomo().exploration(r) for r in range(1, 9)]
    assert chances == pytest.approx([0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0, 0], abs=1e-12)
    assert chances[6] == chances[7] == 0


def test_without_exploration_the_highest_affinities_are_sent():
    affinity = torch.tensor([0.0, 5.0, -1.0, 7.0, 6.0])
    random = generator(1, "downloads", 1, 0)
    assert downloads(affinity, [1, 2, 3, 4], 2, 0.0, random) == [3, 4]
    assert downloads(affinity, [1, 2, 4], 9, 0.0, random) == [4, 1, 2]
    assert downloads(affinity, [], 2, 0.0, random) == downloads(affinity, [1], 0, 0.0, random) == []


def test_ties_are_broken_at_random_and_each_model_is_sent_once():
    random = (generator(1, "downloads", r, 0) for r in range(200))
    drawn = [downloads(torch.zeros(5), [1, 2, 3, 4], 2, 0.0, of) for of in random]
    assert all(len(set(sent)) == 2 for sent in drawn)
    counts = [sum(i in sent for sent in drawn) for i in range(1, 5)]
    assert min(counts) > 70  # 100 each on average, with a standard deviation of 7


def test_exploration_sends_what_affinity_would_not():
    affinity = torch.tensor([0.0, 9.0, 8.0, 1.0, 0.0])
    random = (generator(1, "downloads", r, 0) for r in range(1000))
    drawn = [downloads(affinity, [1, 2, 3, 4], 1, 0.3, of)[0] for of in random]
    # 1 - 0.3 + 0.3/4 of them the best; the standard deviation is 13.
    assert drawn.count(1) == pytest.approx(775, abs=50)
    assert min(drawn.count(i) for i in (2, 3, 4)) > 40


def test_clients_get_their_own_model_and_n_minus_one_of_the_participants(small, play):
    fed = small(clients=6, alice=None, participation=0.67)
    for r, (_, log) in enumerate(play(FedFomo(n=3, epsilon=1, decay=0), fed), start=1):
        there = fed.participants(r)
        assert len(there) == log["models_up"] == 4 and log["models_down"] == 8
        assert ((log["weights"] > 0).sum(1) <= 3).all()
        away = [i for i in range(6) if i not in there]
        assert not log["weights"][away].any() and not log["weights"][:, away].any()


def test_identical_clients_serve_what_each_has_trained(small, play):
    """Equal models mix to themselves; equal weights, since losses and distances are equal."""
    fed = small(alice=None, repeat=True, shuffled=False, rounds=1)
    (state, log), *_ = play(FedFomo(n=4), fed)
    (local, _), *_ = play(Local(), fed)
    assert log["weights"].tolist() == [[0.25] * 4] * 4
    torch.testing.assert_close(state["theta"], local["theta"], rtol=1e-12, atol=1e-12)


def test_a_model_that_diverged_has_no_weight_and_is_the_last_to_be_downloaded(small, play):
    """Though it has weight 0, and others, which do not help, weights below; it spoils nobody."""
    fed = small(alice=None, rounds=3)
    train = fed.train

    def spoiled(*args, **kw):
        rows, steps = train(*args, **kw)
        rows["theta"][1] = float("nan")
        rows["theta"][2] += 5  # finite, and no help
        return rows, steps

    fed.train = spoiled
    for affinity in ("signed", "normalised"):
        for state, log in play(FedFomo(n=4, affinity=affinity), fed):
            assert state["theta"].isfinite().all() and not log["weights"][:, 1].any()
            for client in (0, 2, 3):
                row = state["affinity"][client]
                assert row.isfinite().all() and (row[1] <= row[[0, 2, 3]] - 1).all()
                assert downloads(row, [1, 2, 3], 3, 0.0, generator(1, "downloads", 1, 0))[-1] == 1
        assert (state["affinity"][[0, 3], 2] < 0).all()


def test_falling_in_p_by_hand():
    row = torch.tensor([1.0, 0.0, -3.0, 0.0, -9.0])
    for lost in ([1, 4], [], [0, 1, 2, 3, 4]):  # of all, nobody is left to be below
        demote(row, lost)
        assert row.tolist() == [1, -4, -3, 0, -9]


@pytest.mark.parametrize("method", [FedFomo(n=2), FedFomoMA()], ids=repr)
def test_clients_without_validation_examples_are_refused(method):
    data = [(torch.zeros(2, 4), torch.zeros(2))] * 2
    fed = Federation.from_arrays(data, data, torch.nn.Linear(4, 3), Schedule(1), device="cpu")
    refused("hold out a share.*validation=0.2", method.start, fed)
