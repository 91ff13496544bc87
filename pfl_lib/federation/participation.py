"""Who takes part in a round."""

import math

from pfl_lib.errors import BadInput
from pfl_lib.federation.schedule import Schedule
from pfl_lib.progress import tell
from pfl_lib.randomness import permutation


def participants(
    schedule: Schedule, clients: int, alice: int | None, seed: int, round: int
) -> list[int]:
    """The clients that take part in a round, ascending, the same for every method: drawn by (seed,
    "participants", round); Alice, where there is one, always does.
    """
    there = available(schedule, clients, alice, round)
    if schedule.participation == 1:
        return there
    others = [i for i in there if i != alice]
    wanted = max(1, round_half_up(schedule.participation * len(there))) - (len(there) - len(others))
    order = permutation(len(others), seed, "participants", round).tolist()
    drawn = [others[k] for k in order[:wanted]]
    return sorted(drawn if alice is None else [*drawn, alice])


def check_availability(schedule: Schedule, clients: int, alice: int | None) -> None:
    """BadInput for unknown clients, and unless somebody is there in every round, Alice included; a
    line where the participation draws nobody beside her.
    """
    entries = schedule.availability
    for i, _, _ in entries:
        if i >= clients:
            raise BadInput(f"availability names client {i}; the clients are 0 to {clients - 1}")
    changes = {1, *(first for _, first, _ in entries), *(last + 1 for *_, last in entries)}
    for round in sorted(changes):
        if round <= schedule.rounds:
            available(schedule, clients, alice, round)
    if alice is not None and clients > 1 and schedule.participation < 1:
        if round_half_up(schedule.participation * clients) <= 1:
            told = f"participation {schedule.participation:g} of {clients} clients is Alice alone"
            tell(f"{told}, in every round: raise it, or give alice=None")


def available(schedule: Schedule, clients: int, alice: int | None, round: int) -> list[int]:
    """The clients that are there in a round, ascending; BadInput if nobody is, or Alice is not."""
    named = {client for client, _, _ in schedule.availability}
    back = {client for client, first, last in schedule.availability if first <= round <= last}
    there = [i for i in range(clients) if i in back or i not in named]
    if not there or (alice is not None and alice not in there):
        who = f"Alice (client {alice}) is not" if there else "no client is"
        raise BadInput(f"{who} available in round {round}: change the schedule's availability")
    return there


def all_met(schedule: Schedule, clients: int, alice: int | None, seed: int) -> int | None:
    """The first round by which all clients have taken part; None where the schedule ends before."""
    met: set[int] = set()
    for round in range(1, schedule.rounds + 1):
        met.update(participants(schedule, clients, alice, seed, round))
        if len(met) == clients:
            return round
    return None


def round_half_up(value: float) -> int:
    """Half rounds up; 0.29 * 50 falls below a half and goes down, as stored runs were drawn."""
    return math.floor(value + 0.5)
