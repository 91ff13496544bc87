"""Random numbers by name."""

import hashlib

import torch

from pfl_lib.randomness import generator, number


def test_the_same_key_gives_the_same_numbers_whatever_was_drawn_before():
    first = torch.rand(5, generator=generator(1, "batches", 2, 3))
    torch.rand(100)
    torch.rand(7, generator=generator(1, "batches", 2, 4))
    assert torch.equal(torch.rand(5, generator=generator(1, "batches", 2, 3)), first)


def test_every_part_of_the_key_counts():
    keys = [(1, "a", 2, 3), (2, "a", 2, 3), (1, "b", 2, 3), (1, "a", 3, 2)]
    keys += [(1, "a", 23), (1, "a", 2), (1, "a"), (12, "a", 3)]
    assert len({number(*key) for key in keys}) == len(keys)


def test_seeds_of_neighbouring_keys_share_nothing():
    """No pair of a thousand keys starts alike, as seeds 1, 2, 3, ... of a weak generator would."""
    keys = [(r, i) for r in range(100) for i in range(10)]
    starts = torch.stack([torch.rand(2, generator=generator(1, "batches", *key)) for key in keys])
    assert len(set(starts[:, 0].tolist())) == 1000
    correlation = torch.corrcoef(torch.stack([starts[:-1, 0], starts[1:, 0]]))[0, 1]
    assert abs(correlation) < 0.1


def test_numbers_are_whole_and_stay_what_they_are_from_version_to_version():
    """SHA-256 of "1|batches|2|3", its first eight bytes, little-endian, halved."""
    first = bytes.fromhex("467a0d98ed1f979a")
    assert first == hashlib.sha256(b"1|batches|2|3").digest()[:8]
    assert number(1, "batches", 2, 3) == int.from_bytes(first, "little") // 2
