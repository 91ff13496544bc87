"""Who takes part in a round, and when everybody has."""

import torch

from pfl_lib import Federation, Schedule
from pfl_lib.federation.participation import all_met, participants


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
