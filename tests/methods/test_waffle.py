"""WAFFLE: two rounds by hand, CalcWeights alone, and what it becomes at its two ends."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_lib.methods import Local, Scaffold, Waffle, waffle
from tests.common import refusal, refused

POINTS = [[(48, -16), (120, 8)], [(144, 72)], [(288, 0)]]


def test_two_rounds_by_hand(pencil, play, exactly):
    """lr 1/2, R = 2, Alice is client 0; a step is y <- y - (y - point - c_i + c) / 2.

    Round 1, x = c = c_i = 0.
      client 0: gradients (-48,16) at (0,0), (-96,-16) at (24,-8);  y_0 = (72,0);  c_0 = their mean
      = (-72,0). client 1: y_1 = (72,36), c_1 = (-144,-72);  client 2: y_2 = (144,0), c_2 =
      (-288,0). Distances to y_0: d_1 = 36 = dm, d_2 = 72 = dM.  r = R/2, so Omega = Psi = 1/2.  d_0
      = 36 (1 - (36/72) (1/2)) = 27. alpha_0 = .5;  alpha_1 = .5 - (36-27)/(72-27) = .3;  alpha_2 =
      max(.5 - 1, 0) = 0;  normalised (5/8, 3/8, 0). Smoothed with (1/3,1/3,1/3) twice: (2/3 +
      alpha)/3 = (31, 25, 16)/72. x = (31 (72,0) + 25 (72,36) + 16 (144,0))/72 = (88, 12.5); c = (31
      (-72,0) + 25 (-144,-72) + 16 (-288,0))/72 = (-145,-25).
    Round 2.
      client 0, c - c_0 = (-73,-25): gradient (40,28.5), y = (88,12.5) - (-33,3.5)/2 =
      (104.5,10.75);
        gradient (-15.5,2.75), y_0 = (104.5,10.75) - (-88.5,-22.25)/2 = (148.75,21.875);  c_0 =
        (12.25,15.625).
      client 1, c - c_1 = (-1,47): gradient (-56,-59.5), y_1 = (88,12.5) - (-57,-12.5)/2 =
      (116.5,18.75);  c_1 = (-56,-59.5). client 2, c - c_2 = (143,-25): gradient (-200,12.5), y_2 =
      (116.5,18.75);  c_2 = (-200,12.5). r >= .95 R: alpha = (1,0,0).  Smoothed: ((1/3,1/3,1/3) +
      (5/8,3/8,0) + (1,0,0))/3 = (47, 17, 8)/72. x = (47 (148.75,21.875) + 25 (116.5,18.75))/72; c =
      (47 (12.25,15.625) + 17 (-56,-59.5) + 8 (-200,12.5))/72 = (-1976.25,-177.125)/72.
    """
    (first, log), (second, next_log) = play(Waffle(), pencil(POINTS))
    exactly(log["weights"], [31 / 72, 25 / 72, 16 / 72])
    exactly(first["theta"], [88, 12.5])
    exactly(first["controls"], [[-72, 0], [-144, -72], [-288, 0]])
    exactly(first["control"], [-145, -25])
    exactly(next_log["weights"], [47 / 72, 17 / 72, 8 / 72])
    exactly(second["theta"], [(47 * 148.75 + 25 * 116.5) / 72, (47 * 21.875 + 25 * 18.75) / 72])
    exactly(second["controls"], [[12.25, 15.625], [-56, -59.5], [-200, 12.5]])
    exactly(second["control"], [-1976.25 / 72, -177.125 / 72])


@pytest.fixture
def uniform(monkeypatch) -> None:
    """Weights are 1/N in every round."""
    evenly = lambda d, *rest: torch.full((len(d),), 1 / len(d), dtype=torch.float64)  # noqa: E731
    monkeypatch.setattr(waffle, "weights", evenly)


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("clients", [3, 4])
def test_uniform_weights_are_scaffold(small, play, uniform, clients, option):
    """Bit for bit where 1/N is exact in binary, to rounding elsewhere."""
    fed = small(clients=clients, rounds=10, momentum=0.5, weight_decay=0.01)
    tolerance = {"rtol": 0, "atol": 0} if clients == 4 else {"rtol": 1e-12, "atol": 1e-12}
    runs = (play(method(option=option), fed, 9) for method in (Waffle, Scaffold))
    for (state, _), (plain, _) in zip(*runs, strict=True):
        for name in ("theta", "control", "controls"):
            torch.testing.assert_close(state[name], plain[name], **tolerance)


def test_read_literally_uniform_weights_are_scaffold_whoever_takes_part(small, play, uniform):
    """c <- c + |S|/N mean of the changes; the smoothing's history is uniform."""
    fed = small(clients=6, rounds=10, participation=0.5)
    state, even = Waffle().start(fed), Waffle().start(fed)["history"]
    for r, (plain, _) in enumerate(play(Scaffold(), fed, 9), start=1):
        state, _ = Waffle(control="literal").round(fed, state | {"history": even}, r)
        for name in ("theta", "control", "controls"):
            torch.testing.assert_close(state[name], plain[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "method", [Waffle(), Waffle(option="I"), Waffle(control="literal")], ids=repr
)
@pytest.mark.parametrize("alice", [0, 2])
@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.01}], ids=str)
def test_all_weight_on_alice_is_local_training_bit_for_bit(
    small, play, monkeypatch, alice, settings, method
):
    """c = c_alice always, so her correction is exactly zero; as printed, to rounding."""
    monkeypatch.setattr(
        waffle, "weights", lambda d, alice, *rest: torch.eye(len(d), dtype=torch.float64)[alice]
    )
    fed = small(alice=alice, **settings)
    start = method.start(fed) | {"history": torch.eye(4, dtype=torch.float64)[[alice, alice]]}
    close = 1e-12 if method.control == "literal" else 0
    runs = play(method, fed, state=start), play(Local(), fed)
    for (state, _), (local, _) in zip(*runs, strict=True):
        torch.testing.assert_close(state["theta"], local["theta"][alice], rtol=close, atol=close)


@pytest.mark.parametrize("slope", [1e3, 1e9])
def test_an_enormous_slope_is_local_training_after_half_the_rounds(small, play, slope):
    """Omega is 1 before R/2 and 0 after it; two rounds later smoothing is over."""
    fed = small(rounds=8)
    *_, (before, seventh), (after, last) = play(Waffle(slope=slope), fed)
    assert seventh["weights"].tolist() == last["weights"].tolist() == [1, 0, 0, 0]
    # c is Alice's own variate now, so her correction is zero.
    served = {name: row[None] for name, row in Waffle().served(fed, before).items()}
    alone, _ = fed.train(served, 8, [0])
    torch.testing.assert_close(after["theta"], alone["theta"][0], rtol=1e-12, atol=1e-12)


def test_the_literal_reading_freezes_an_offset_where_the_mean_has_none(small, play):
    """Once all weight is Alice's, c - c_alice must vanish; read literally it never does."""
    fed = small(clients=3, rounds=40)  # the first whose smoothed weights are all Alice's is 40
    offsets = {}
    for control in ("mean", "literal"):
        states = [state for state, _ in play(Waffle(control=control), fed)]
        offsets[control] = [state["control"] - state["controls"][0] for state in states[38:]]
    assert not offsets["mean"][1].any()
    torch.testing.assert_close(*offsets["literal"], rtol=1e-9, atol=1e-12)
    assert offsets["literal"][1].abs().max() > 1e-2


def test_the_last_twentieth_is_alices_alone(small, play):
    """R = 40: from round 38 on, and two rounds later when smoothed, however flat Omega is."""
    played = play(Waffle(slope=0.1), small(clients=3, rounds=40, alice=2))
    unsmoothed = [state["history"][1].tolist() == [0, 0, 1] for state, _ in played]
    assert unsmoothed == [False] * 37 + [True] * 3
    assert [log["weights"].tolist() == [0, 0, 1] for _, log in played] == [False] * 39 + [True]


def test_omega_is_equation_4():
    assert waffle.omega(50, 100) == 0.5
    assert waffle.omega(1, 2, slope=17.0) == 0.5
    found = [waffle.omega(r, 100) for r in (1, 25, 50, 75, 90, 94)]
    assert found == pytest.approx([0.958, 0.832, 0.5, 0.168, 0.072, 0.0565], abs=5e-4)
    assert waffle.omega(100, 100) == pytest.approx(1 / (1 + math.exp(3.2)), rel=1e-15)


def test_a_linear_omega_and_a_step_fall_from_one_to_zero():
    found = [waffle.omega(r, 100, transition="linear") for r in (1, 25, 50, 75, 100)]
    assert found == pytest.approx([0.99, 0.75, 0.5, 0.25, 0], abs=1e-15)
    assert found[-1] > 0  # Alice's weight
    even = [waffle.omega(r, 100, transition="step") for r in (1, 50, 51, 100)]
    odd = [waffle.omega(r, 25, transition="step") for r in (1, 12, 13, 25)]
    for found in (even, odd):
        assert found[:2] == [1, 1] and found[2:] == pytest.approx([0, 0], abs=1e-15)
        assert min(found) > 0  # Alice's weight
    assert waffle.weights([0.0, 1.0, 2.0, 2.0], 0, even[2], even[2]).tolist() == [1, 0, 0, 0]


def test_psi_is_omega_or_has_a_transition_of_its_own():
    """Round 75 of 100: the sigmoid 1/(1 + e^1.6), the straight line 1/4, the step 0; with a shift
    of a fifth 1/(1 + e^2.88) and 1/20.
    """
    sigmoid, later = 1 / (1 + math.exp(1.6)), 1 / (1 + math.exp(2.88))
    for method, expected in (
        (Waffle(), (sigmoid, sigmoid)),
        (Waffle(transition="linear"), (0.25, 0.25)),
        (Waffle(psi="linear"), (sigmoid, 0.25)),
        (Waffle(transition="linear", psi="sigmoid"), (0.25, sigmoid)),
        (Waffle(psi="step"), (sigmoid, 0)),
        (Waffle(psi="linear", shift=0.2), (later, 0.05)),
    ):
        assert method.degrees(75, 100) == pytest.approx(expected, abs=1e-12)


def test_weights_by_hand():
    for distances, omega, psi, expected in (
        # Alice's own becomes 27: (.5, .5 - 9/45, 0) / .8.  Her entry is not read.
        ([0.0, 36.0, 72.0], 0.5, 0.5, [0.625, 0.375, 0]),
        ([1e6, 36.0, 72.0], 0.5, 0.5, [0.625, 0.375, 0]),
        # The client at 36 lies 9/45 of the range away: (1/4, 1/20, 0), and at Psi = 1/5 nothing.
        ([0.0, 36.0, 72.0], 0.5, 0.25, [5 / 6, 1 / 6, 0]),
        ([0.0, 36.0, 72.0], 0.5, 0.2, [1, 0, 0]),
        # Alice's is the smallest of the others', and alpha_i = 1 - (d_i - dm)/(dM - dm).
        ([0.0, 1.0, 2.0, 3.0], 1.0, 1.0, [0.4, 0.4, 0.2, 0]),
    ):
        found = waffle.weights(distances, 0, omega, psi)
        assert found.tolist() == pytest.approx(expected, abs=1e-12 if psi == 0.2 else 1e-15)


def test_a_shift_is_added_to_the_round_as_a_share_of_all_rounds():
    for transition in waffle.TRANSITIONS:
        later, sooner = (
            waffle.omega(50, 100, transition=transition, shift=shift) for shift in (-0.2, 0.2)
        )
        assert later == pytest.approx(waffle.omega(30, 100, transition=transition), rel=1e-12)
        assert sooner == pytest.approx(waffle.omega(70, 100, transition=transition), rel=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(1, 200),
    st.integers(1, 200),
    st.floats(-1e12, 1e12),
    st.sampled_from(waffle.TRANSITIONS),
    st.floats(-2, 2),
)
def test_omega_is_above_zero_and_at_most_one_for_every_slope(r, rounds, slope, transition, shift):
    r, rounds = min(r, rounds), max(r, rounds)
    assert 0 < waffle.omega(r, rounds, slope, transition, shift) <= 1


def test_weights_are_uniform_where_distances_say_nothing():
    for distances, expected in (
        *(([0.0], [1.0]), ([0.0, 5.0], [0.5, 0.5]), ([0.0, 0.0], [0.5, 0.5])),
        *(([0.0, 2.0, 2.0, 2.0], [0.25] * 4), ([0.0, 0.0, 0.0], [1 / 3] * 3)),
    ):
        assert waffle.weights(distances, 0, 0.3, 0.3).tolist() == pytest.approx(expected, abs=1e-15)


LENGTHS = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=12)
SHARES = st.floats(1e-6, 1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(LENGTHS, SHARES, st.data())
def test_weights_are_a_distribution_that_falls_with_distance_and_prefers_alice(
    distances, personal, data
):
    alice = data.draw(st.integers(0, len(distances) - 1))
    found = waffle.weights(distances, alice, personal, personal)
    assert (found >= 0).all()
    assert found.sum().item() == pytest.approx(1)
    assert found[alice] == found.max()
    others = sorted(
        (d, w) for i, (d, w) in enumerate(zip(distances, found.tolist(), strict=True)) if i != alice
    )
    assert all(near >= far for (_, near), (_, far) in zip(others, others[1:], strict=False))
    if len({d for d, _ in others}) > 1 and personal < 1:
        assert others[-1][1] == 0, "the farthest client keeps weight"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=12), SHARES, st.integers(-30, 30), st.data()
)
def test_weights_depend_on_ratios_and_not_on_the_clients_order(distances, personal, scale, data):
    alice = data.draw(st.integers(0, len(distances) - 1))
    order = data.draw(st.permutations(range(len(distances))))
    found = waffle.weights([float(d) for d in distances], alice, personal, personal)
    scaled = waffle.weights([d * 2.0**scale for d in distances], alice, personal, personal)
    assert scaled.tolist() == found.tolist()  # powers of two are exact
    permuted = waffle.weights(
        [float(distances[i]) for i in order], order.index(alice), personal, personal
    )
    assert permuted.tolist() == pytest.approx(found[list(order)].tolist(), abs=1e-12)


def test_weights_and_omega_refuse_what_is_no_distance_client_share_or_round():
    for arguments, sentence in (
        *(
            (([0.0, d, 2.0], 0, 0.5, 0.5), f"distances [{d}, 2.0]: give finite numbers, 0 or more")
            for d in (-1.0, math.inf, math.nan)
        ),
        (([0.0, 1.0, 2.0], 3, 0.5, 0.5), "alice 3 is not one of the clients 0 to 2"),
        (([0.0, 1.0, 2.0], -1, 0.5, 0.5), "alice -1 is not one of the clients 0 to 2"),
        (([0.0, 1.0, 2.0], 0, 0.0, 0.5), "omega 0.0 and psi 0.5: each is above 0 and at most 1"),
        (([0.0, 1.0, 2.0], 0, 0.5, 1.5), "omega 0.5 and psi 1.5: each is above 0 and at most 1"),
    ):
        assert refusal(waffle.weights, *arguments) == sentence
    for round in (0, -1, 101):
        refused(f"^round {round} is not between 1 and 100", waffle.omega, round, 100)
