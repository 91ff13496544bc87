"""A client's local work in a round: which examples its steps see, and how images are moved.

Both are drawn by (seed, purpose, round, client), whatever the method and the order of clients.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pfl_lib.engine import Work
from pfl_lib.engine.augment import draw_moves
from pfl_lib.engine.private import Noising
from pfl_lib.federation.clients import Split
from pfl_lib.federation.schedule import Schedule
from pfl_lib.randomness import generator, permutation


def batches(
    schedule: Schedule,
    seed: int,
    purpose: str,
    round: int,
    client: int,
    examples: int,
    epochs: int | None = None,
) -> tuple[Tensor, ...]:
    """A client's mini-batches of one round, positions among its `examples`; `epochs` replaces the
    schedule's local work by so many passes.

    Under DP-SGD's Poisson sampling as many batches, each with each example by a chance of its own.
    """
    private, size = schedule.private, schedule.batch_size
    of_a_pass = math.ceil(examples / size)
    passes = schedule.local_epochs if epochs is None else epochs
    counted = schedule.local_batches if epochs is None else None  # in place of passes
    if private is not None and private.sampling == "poisson":
        steps = passes * of_a_pass if counted is None else counted
        random = generator(seed, f"poisson {purpose}", round, client)
        each = (torch.rand(examples, generator=random, dtype=torch.float32) for _ in range(steps))
        return tuple(torch.nonzero(chance < size / examples).flatten() for chance in each)

    def one_pass(*key: int) -> tuple[Tensor, ...]:
        if schedule.order == "shuffled":
            order = permutation(examples, seed, purpose, *key)
        else:
            order = torch.arange(examples)
        return order.split(size)

    if counted is not None:
        # Batch b, counted over all rounds, is batch b mod n of pass b div n.
        numbers = range((round - 1) * counted, round * counted)
        return tuple(one_pass(b // of_a_pass, client)[b % of_a_pass] for b in numbers)
    return tuple(batch for epoch in range(passes) for batch in one_pass(round, client, epoch))


def moves(
    schedule: Schedule, seed: int, purpose: str, round: int, client: int, batches: Sequence[Tensor]
) -> tuple[Tensor, ...] | None:
    """How the images of each batch are augmented; None where they are not."""
    if schedule.augment == "none":
        return None
    key = (seed, f"moves of {purpose}", round, client)
    return tuple(draw_moves(len(batch), generator(*key, k)) for k, batch in enumerate(batches))


def work_of(
    split: Split,
    schedule: Schedule,
    seed: int,
    purpose: str,
    round: int,
    client: int,
    epochs: int | None = None,
    shared: Mapping[int, Tensor] | None = None,
) -> Work:
    """A client's local work in one round, on the examples of its own and those that are shared."""
    index, labels = (_with_shared(client, of, shared) for of in (split.index, split.labels))
    key = (schedule, seed, purpose, round, client)
    drawn, private = batches(*key, len(index), epochs), schedule.private
    noising = None
    if private is not None:
        expected = schedule.batch_size if private.sampling == "poisson" else None
        noising = Noising(private, expected, generator(seed, f"noise of {purpose}", round, client))
    return Work(index, labels, drawn, moves(*key, drawn), noising)


def _with_shared(client: int, of: Sequence[Tensor], shared: Mapping[int, Tensor] | None) -> Tensor:
    """One client's examples out of all clients', then what the others share of theirs."""
    others = [of[giver][places] for giver, places in (shared or {}).items() if giver != client]
    return torch.cat([of[client], *others]) if others else of[client]
