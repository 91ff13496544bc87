"""Who takes part in a round and in which batches, and when everybody has taken part."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_lib import Federation, Schedule
from pfl_lib.federation.batches import batches
from pfl_lib.federation.participation import all_met, participants

few = settings(max_examples=40, deadline=None, derandomize=True)
SIZES, SEEDS = st.integers(1, 60), st.integers(0, 10**6)


def test_a_federation_draws_the_participants_that_its_description_gives():
    data = [(torch.zeros(2, 4), torch.zeros(2))] * 6
    schedule = Schedule(4, participation=0.5)
    fed = Federation.from_arrays(data, data, torch.nn.Linear(4, 3), schedule, seed=2, device="cpu")
    for r in range(1, 5):
        assert fed.participants(r) == participants(schedule, 6, fed.alice, 2, r)
    assert len(fed.participants(1)) == 3


def test_only_available_clients_take_part_and_one_that_comes_back_in_each_of_its_intervals():
    schedule = Schedule(5, participation=0.99, availability=((1, 1, 2), (1, 4, 4), (2, 2, 5)))
    there = [participants(schedule, 3, None, 1, r) for r in range(1, 6)]
    assert there == [[0, 1], [0, 1, 2], [0, 2], [0, 1, 2], [0, 2]]


def test_all_have_met_in_the_round_that_draws_the_last_of_them():
    """Counted here from the rounds' own draws; a schedule that ends before meets not all."""
    schedule = Schedule(50, participation=0.25)
    met, last = set(), 0
    while len(met) < 12:
        last += 1
        met |= set(participants(schedule, 12, None, 3, last))
    assert all_met(schedule, 12, None, seed=3) == last > 4
    assert all_met(Schedule(last - 1, participation=0.25), 12, None, seed=3) is None
    assert all_met(Schedule(3), 15, None, seed=1) == 1
    assert all_met(Schedule(9, availability=((2, 7, 9),)), 3, None, seed=1) == 7


def test_a_participation_that_leaves_alice_alone_is_told(capsys):
    data, linear = [(torch.zeros(2, 4), torch.zeros(2))] * 9, torch.nn.Linear(4, 3)
    for alice, participation in ((None, 0.1), (0, 0.3), (0, 0.11)):
        assert "is Alice alone" not in capsys.readouterr().err
        schedule = Schedule(2, participation=participation)
        fed = Federation.from_arrays(data, data, linear, schedule, alice=alice, device="cpu")
        assert (fed.participants(1) == [0]) == (participation == 0.11)
    assert "participation 0.11 of 9 clients is Alice alone, in every" in capsys.readouterr().err


@few
@given(SIZES, st.integers(1, 20), st.integers(1, 3), st.sampled_from(["shuffled", "fixed"]), SEEDS)
def test_an_epoch_is_every_example_once_in_batches_of_which_the_last_may_be_short(
    examples, size, epochs, order, seed
):
    schedule = Schedule(5, local_epochs=epochs, batch_size=size, order=order)
    of = [batches(schedule, seed, "batches", r, 3, examples) for r in (1, 2)]
    a_pass = math.ceil(examples / size)
    for found in of:
        assert len(found) == epochs * a_pass and all(
            len(one) == size for one in found[: a_pass - 1]
        )
        for epoch in range(epochs):
            seen = torch.cat(found[epoch * a_pass : (epoch + 1) * a_pass])
            assert torch.equal(seen.sort().values, torch.arange(examples))
    again = batches(schedule, seed, "batches", 1, 3, examples)
    assert all(map(torch.equal, of[0], again))
    if order == "fixed":
        assert torch.equal(torch.cat(of[0])[:examples], torch.arange(examples))
    elif examples > 12:  # others with every key: round, purpose, client, seed
        other = [(seed, "batches", 2, 3), (seed, "head", 1, 3), (seed, "batches", 1, 4)]
        other += [(seed + 1, "batches", 1, 3)]
        firsts = [torch.cat(batches(schedule, *key, examples))[:examples] for key in other]
        assert not any(torch.equal(torch.cat(of[0])[:examples], one) for one in firsts)


@few
@given(SIZES, st.integers(1, 20), st.integers(1, 7), SEEDS)
def test_local_batches_go_on_where_the_last_round_stopped(examples, size, count, seed):
    schedule = Schedule(9, batch_size=size, local_batches=count)
    taken = [
        one for r in range(1, 10) for one in batches(schedule, seed, "batches", r, 0, examples)
    ]
    a_pass = math.ceil(examples / size)
    assert len(taken) == 9 * count
    for start in range(0, len(taken) - a_pass + 1, a_pass):
        seen = torch.cat(taken[start : start + a_pass])
        assert torch.equal(seen.sort().values, torch.arange(examples))


@few
@given(
    st.integers(1, 30), st.floats(0.01, 1), st.none() | st.integers(0, 29), SEEDS, st.integers(1, 9)
)
def test_so_many_take_part_and_alice_always(clients, fraction, alice, seed, r):
    alice = None if alice is None else alice % clients
    found = participants(Schedule(9, participation=fraction), clients, alice, seed, r)
    assert len(found) == max(1, math.floor(fraction * clients + 0.5))
    assert found == sorted(set(found)) and set(found) <= set(range(clients))
    assert alice is None or alice in found
