"""Random numbers by name: every draw has its own generator, keyed by what it is for."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator

import numpy as np
import torch

from pfl_lib.errors import BadInput


def generator(seed: int, purpose: str, *key: int) -> torch.Generator:
    """A CPU generator for one purpose, such as generator(seed, "batches", round, client).

    Nothing drawn from it depends on the order in which clients, runs or processes go, on the
    method, or on whether a run was resumed.
    """
    text = "|".join(map(str, (seed, purpose, *key)))
    digest = hashlib.sha256(text.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def permutation(n: int, seed: int, purpose: str, *key: int) -> torch.Tensor:
    """The numbers 0 to n - 1 in a random order, by `generator`."""
    return torch.randperm(n, generator=generator(seed, purpose, *key))


def number(seed: int, purpose: str, *key: int) -> int:
    """A whole number below 2**63 for one purpose: the seed for code that only takes a seed."""
    return generator(seed, purpose, *key).initial_seed()


def streams() -> tuple:
    """Where torch's own stream of random numbers (on the CPU) and NumPy's stand.

    Not Python's: other threads draw from it, such as those of a Dask worker.
    """
    _, words, place, *_ = np.random.get_state()  # noqa: NPY002  a user's draws
    return torch.get_rng_state().numpy().tobytes(), words.tobytes(), place


ALONE = threading.RLock()
"""Held by whoever seeds or watches those streams: two runs may share a process."""


@contextlib.contextmanager
def seeded(what: str, watched: bool = True) -> Iterator[None]:
    """BadInput where `what` draws from torch's (on the CPU) or NumPy's own stream.  The package's
    own parts need not be `watched`: a cell beside a run may draw too.
    """
    if not watched:
        yield
        return
    with ALONE:
        before = streams()
        yield
        after = streams()
    if after != before:
        cure = "pfl_lib.randomness.generator(seed, 'mine'), in a round generator(seed, 'mine', r)"
        raise BadInput(f"{what} draws random numbers that follow no seed: draw from {cure}")
