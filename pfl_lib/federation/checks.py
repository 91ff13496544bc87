"""Refuse what a federation cannot be made of, and what it cannot be asked for."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from pfl_lib.errors import BadInput, check_alice, whole
from pfl_lib.federation.clients import Clients
from pfl_lib.federation.participation import check_availability
from pfl_lib.federation.schedule import Schedule
from pfl_lib.rows import Rows

MOST_THREADS = 1_000


def check_settings(
    seed: int, version: int, threads: int, dtype: torch.dtype, name: str | None
) -> None:
    """BadInput for a setting that is none."""
    whole("seed", seed)
    whole("version", version)
    whole("threads", threads, 1, MOST_THREADS)
    if dtype not in (torch.float32, torch.float64):
        raise BadInput(f"dtype {dtype!r}: give torch.float32 or torch.float64")
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise BadInput(f"name {name!r}: give a text, such as 'patients', or leave it out")


def check_clients(clients: Clients, schedule: Schedule, alice: int | str | None) -> int | None:
    """Alice's number, None where there is none; BadInput where one of the three does not fit."""
    if not isinstance(clients, Clients):
        told = "give Clients, as from_csv and from_partition make them"
        cure = f"{told}, or Federation.from_arrays the clients' arrays"
        raise BadInput(f"clients is {type(clients).__name__}: {cure}")
    number = check_alice(alice, len(clients), clients.names)
    for client in [number] if number is not None else range(len(clients)):
        if not len(clients.splits["test"].index[client]):
            told = f"client {client} has no test examples, so her model cannot be read"
            cure = "give each client some, or name the one who has as alice"
            made = "give her some, or the alice who has, for whom from_csv made the clients"
            cure = cure if number is None else made
            raise BadInput(f"{told}: {cure}")
    if not isinstance(schedule, Schedule):
        raise BadInput(f"schedule {schedule!r}: give a pfl_lib.Schedule, such as Schedule(20)")
    check_availability(schedule, len(clients), number)
    if schedule.augment != "none" and len(clients.input_shape) != 3:
        told = f"augment {schedule.augment!r} moves images"
        shape = f"these inputs have shape {clients.input_shape}"
        raise BadInput(f"{told}, and {shape}: give augment='none'")
    return number


def numbers_of(clients: Sequence[int], count: int) -> list[int]:
    """The clients' numbers, of `count` clients; BadInput for one that is none."""
    if not isinstance(clients, Iterable) or getattr(clients, "shape", None) == ():
        raise BadInput(f"clients {clients!r}: give a list of their numbers, such as [0]")
    ids = list(clients)
    for client in ids:
        number = hasattr(client, "__index__") and not isinstance(client, bool)
        if not (number and 0 <= client < count):
            raise BadInput(f"client {client!r} is not one of the clients 0 to {count - 1}")
    return [*map(int, ids)]


def check_rows(rows: Rows, initial: Mapping[str, Tensor], each: int | None) -> None:
    """BadInput for rows that are no model such as the `initial` one, [P]; `each`: [n, P]."""
    for name, row in rows.items():
        if each is not None and len(row) != each:
            raise BadInput(f"{len(row)} rows of {name!r} for {each} clients: give each one")
    for name, row in initial.items():
        if name not in rows or rows[name].shape[-1:] != row.shape:
            given = [*rows[name].shape] if name in rows else "no"
            raise BadInput(f"{given} {name}: give rows of {len(row)}, as initial() has them")
    if not rows["theta"].is_floating_point():
        fractions = f"give fractions, such as {initial['theta'].dtype}"
        raise BadInput(f"theta is {rows['theta'].dtype}: {fractions}")
