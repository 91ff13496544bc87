"""APFL: two rounds by hand, and what it becomes at the mixture's two ends."""

import math

import pytest
import torch
from torch import nn

from pfl_lib import BadInput
from pfl_lib.methods import APFL, FedAvg, Local

POINTS = [[(4, 0), (-1, 0)], [(1.5, -2)]]
MOMENTUM = {"momentum": 0.9, "weight_decay": 0.01}


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


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
        55/128).
    """
    fed, method = pencil(POINTS, alice=None), APFL()
    (first, log), (second, next_log) = play(method, fed)
    exactly(log["alpha"], [0.5, 0.5])
    exactly(first["theta"], [5 / 8, -1 / 2])
    exactly(first["personal"], [[3 / 8, 0], [3 / 8, -1 / 2]])
    exactly(method.served(fed, first)["theta"], [[1 / 2, -1 / 4], [1 / 2, -1 / 2]])
    exactly(next_log["alpha"], [1 / 8, 3 / 8])
    exactly(second["theta"], [55 / 64, -11 / 16])
    exactly(second["personal"], [[2153 / 2048, 155 / 2048], [5 / 8, -7 / 8]])
    exactly(
        method.served(fed, second)["theta"],
        [
            [2153 / 16384 + 385 / 512, 155 / 16384 - 77 / 128],
            [15 / 64 + 275 / 512, -21 / 64 - 55 / 128],
        ],
    )


def test_a_mixture_that_moves_by_the_round_by_hand(pencil, play, exactly):
    """As above, with a = 1/2 through round 2.

    client 0: v = (5/4,1/16), w = (37/16,-1/4);  u = (57,-3)/32, g = (89,-3)/32, v = (71,11)/128;
      v moved by (23,11)/128 from (3/8,0), v - w was (-1/4,1/2):  a = 1/2 - 23/512 + 22/512 =
      255/512.
    client 1: v = (5/8,-7/8), moved by (1/4,-3/8), v - w was (-1/4,0):  a = 1/2 - 1/16 = 7/16.
    """
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
    3527/2048 is clipped to 1.  v and w do not change by it.
    """
    fed, method = pencil(POINTS, alice=None, rounds=1), APFL(mixture_step="every batch")
    [(first, log)] = play(method, fed)
    exactly(log["alpha"], [1, 0.5])
    exactly(first["personal"], [[3 / 8, 0], [3 / 8, -1 / 2]])
    start = first | {"alpha": torch.full((2, 1), 0.5, dtype=torch.float64)}
    second, log = method.round(fed, start, 2)
    exactly(log["alpha"], [1, 3 / 8])
    exactly(second["personal"], [[2153 / 2048, 155 / 2048], [5 / 8, -7 / 8]])


def test_every_batch_is_the_first_batch_where_a_round_has_one(small, play):
    fed = small(alice=None, batch_size=9)
    for (one, _), (other, _) in zip(
        play(APFL(), fed), play(APFL(mixture_step="every batch"), fed), strict=True
    ):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_how_the_mixture_moves_is_all_the_same_where_it_does_not(small, play):
    fed = small(alice=None)
    runs = [
        play(APFL(0.75, adaptive=False, mixture_step=step), fed)
        for step in ("first batch", "every batch", "round")
    ]
    for (one, _), *others in zip(*runs, strict=True):
        assert one["alpha"].tolist() == [[0.75]] * 4
        assert all(torch.equal(one[name], other[name]) for other, _ in others for name in one)


def apart(fed, alpha: float) -> dict:
    """A state in which each client's own model and the shared one are far apart."""
    draw = torch.Generator().manual_seed(5)
    state = APFL(alpha).start(fed)
    own = torch.randn(state["personal"].shape, generator=draw, dtype=fed.dtype)
    return state | {"personal": own}


def test_half_mixed_statistics_are_those_of_the_model_that_is_served(small):
    """Steps too small to change a parameter: the mixture stands still, and its statistics are those
    that local training at it gathers.
    """
    fed = small(alice=None, lr=1e-300, local_epochs=3, batch_size=3, model=normed)
    method, state = APFL(0.5, adaptive=False), apart(fed, 0.5)
    served = method.served(fed, method.round(fed, state, 1)[0])
    still = {"theta": (state["personal"] + state["theta"]) / 2}
    still["statistics"] = state["statistics"].expand(4, -1)
    alone, _ = fed.train(still, 1, range(4))
    assert torch.equal(served["theta"], alone["theta"])
    assert torch.equal(served["statistics"], alone["statistics"])
    shared, _ = fed.train(still | {"theta": state["theta"].expand(4, -1)}, 1, range(4))
    assert (served["statistics"] - shared["statistics"]).abs().max() > 0.1


@pytest.mark.parametrize("alice", [None, 0, 2])
@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_alpha_one_is_local_training_bit_for_bit(small, play, alices_model, alice, settings):
    fed = small(dtype=torch.float32, alice=alice, batch_size=3, model=normed, **settings)
    own, local = APFL(alpha=1.0, adaptive=False), Local()
    for (mine, _), (theirs, _) in zip(play(own, fed), play(local, fed), strict=True):
        for client in fed.evaluated_clients:
            for name, row in alices_model(local, fed, theirs, client).items():
                assert torch.equal(alices_model(own, fed, mine, client)[name], row)


@pytest.mark.parametrize("alice", [None, 0, 2])
@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["plain", "momentum"])
def test_alpha_zero_is_uniform_fedavg_bit_for_bit(small, play, alices_model, alice, settings):
    """The trap: one optimiser over both models steps the shared one twice a batch."""
    fed = small(dtype=torch.float32, alice=alice, batch_size=3, model=normed, **settings)
    own, fedavg = APFL(alpha=0.0, adaptive=False), FedAvg("uniform")
    for (mine, _), (theirs, _) in zip(play(own, fed), play(fedavg, fed), strict=True):
        for client in fed.evaluated_clients:
            for name, row in (
                alices_model(fedavg, fed, theirs).items() if alice is not None else theirs.items()
            ):
                assert torch.equal(alices_model(own, fed, mine, client)[name], row)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_shared_model_is_fedavgs_whatever_the_mixture(small, play, alpha):
    fed = small(alice=None)
    for (mine, _), (theirs, _) in zip(
        play(APFL(alpha), fed), play(FedAvg("uniform"), fed), strict=True
    ):
        assert torch.equal(mine["theta"], theirs["theta"])


def test_the_mixture_stays_in_round_one_and_moves_later(small, play):
    logs = [log["alpha"] for _, log in play(APFL(0.5), small(alice=None))]
    assert logs[0].tolist() == [0.5] * 4
    assert (logs[1] != 0.5).all()


def test_the_mixture_stays_between_zero_and_one(small, play):
    logs = [log["alpha"] for _, log in play(APFL(0.5), small(alice=None, lr=3.0, rounds=6))]
    assert all(((alpha >= 0) & (alpha <= 1)).all() for alpha in logs)
    assert any(((alpha == 0) | (alpha == 1)).any() for alpha in logs), (
        "the clipping was never needed"
    )


def test_a_fixed_mixture_stays(small, play):
    assert all(
        log["alpha"].tolist() == [0.25] * 4
        for _, log in play(APFL(0.25, adaptive=False), small(alice=None))
    )


def test_the_personal_model_is_kept_and_never_replaced_by_the_mixture(small):
    """Round r + 1 starts from the v that round r ended with, and from the averaged w."""
    fed, method, started = small(alice=None), APFL(), []
    train = fed.train
    fed.train = lambda rows, *args, **kw: started.append(rows) or train(rows, *args, **kw)
    state = method.start(fed)
    for r in range(1, 4):
        before, (state, _) = state, method.round(fed, state, r)
        assert torch.equal(started[-1]["personal"], before["personal"])
        assert torch.equal(started[-1]["theta"], before["theta"].expand(4, -1))
        assert not torch.equal(before["personal"], method.served(fed, before)["theta"]) or r == 1


def test_alice_is_served_the_same_whether_or_not_the_others_mix(small, play, alices_model):
    alone, together, method = small(alice=2), small(alice=None), APFL()
    for (one, log), (all_, _) in zip(play(method, alone), play(method, together), strict=True):
        assert torch.equal(
            alices_model(method, alone, one)["theta"],
            alices_model(method, together, all_, 2)["theta"],
        )
        assert log["alpha"][[0, 1, 3]].tolist() == [0.5] * 3


def test_a_client_that_is_away_keeps_its_model_and_mixture(small, play):
    played = play(APFL(), small(alice=None, availability=((1, 1, 2),)))
    (second, _), (third, _), (fourth, _) = played[1:]
    for later in (third, fourth):
        assert torch.equal(later["personal"][1], second["personal"][1])
        assert later["alpha"][1] == second["alpha"][1]
    assert [log["weights"][1].item() for _, log in played] == [0.25, 0.25, 0, 0]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, "x", True])
def test_a_mixture_outside_zero_to_one_is_refused(alpha):
    with pytest.raises(BadInput, match=f"^alpha {alpha!r}: give a mixture from 0"):
        APFL(alpha=alpha)


@pytest.mark.parametrize("adaptive", ["false", 1, None])
def test_adaptive_is_true_or_false(adaptive):
    with pytest.raises(BadInput, match=f"^adaptive {adaptive!r}: give True or False$"):
        APFL(adaptive=adaptive)


def test_how_the_mixture_moves_is_one_of_three():
    with pytest.raises(BadInput, match="^mixture_step 'epoch' is not one of first batch, every"):
        APFL(mixture_step="epoch")
