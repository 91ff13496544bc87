"""Which examples a client's local steps see in a round, and how images are moved.

Both are drawn by (seed, purpose, round, client), whatever the method and the order of clients.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pfl_lib.engine.augment import draw_moves
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
