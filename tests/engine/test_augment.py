"""Augmentation: each image cut and mirrored as its numbers say, in training alone."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pfl_lib import BadInput, Federation, Schedule
from pfl_lib.data.source import Dataset
from pfl_lib.engine.augment import draw_moves, moved
from pfl_lib.federation import batches
from pfl_lib.federation import clients as client_data
from pfl_lib.federation.batches import moves
from pfl_lib.partitions.base import Partition
from pfl_lib.rows import copies

SHAPE = (3, 6, 5)


def one_by_one(x: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    """What `moved` should give: pad, cut, mirror, an image at a time."""
    done = []
    for image, (top, left, mirrored) in zip(x, moves.tolist(), strict=True):
        cut = F.pad(image, (4, 4, 4, 4))[:, top : top + x.shape[2], left : left + x.shape[3]]
        done.append(cut.flip(2) if mirrored else cut)
    return torch.stack(done)


def test_a_whole_batch_is_moved_as_its_images_are_one_by_one():
    random = torch.Generator().manual_seed(0)
    moves = torch.tensor(list(itertools.product(range(9), range(9), range(2))))
    x = torch.randint(256, (len(moves), *SHAPE), dtype=torch.uint8, generator=random)
    before = x.clone()
    found = moved(x, moves)
    assert found.dtype == torch.uint8 and torch.equal(found, one_by_one(x, moves))
    assert torch.equal(x, before)
    side_by_side = moved(x.unflatten(0, (2, 81)), moves.unflatten(0, (2, 81)))
    assert torch.equal(side_by_side.flatten(0, 1), found)


def test_every_place_is_drawn_about_as_often_and_half_of_the_images_are_mirrored():
    """81,000 draws: each of 81 places 1,000 times, by four standard deviations of 31."""
    moves = draw_moves(81_000, torch.Generator().manual_seed(0))
    counts = torch.bincount(moves[:, 0] * 9 + moves[:, 1], minlength=81)
    assert len(counts) == 81 and counts.min() > 875 and counts.max() < 1125
    assert abs(moves[:, 2].double().mean() - 0.5) < 0.008 and set(moves[:, 2].tolist()) == {0, 1}


def held(sizes=(7, 4, 9)) -> client_data.Clients:
    random = torch.Generator().manual_seed(1)
    n = sum(sizes)
    x = torch.randint(1, 256, (n, *SHAPE), dtype=torch.uint8, generator=random)
    y = torch.arange(n) % 2
    dataset = Dataset("made up", x, y, x, y, 2, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "none")
    index = torch.arange(n).split(sizes)
    return client_data.from_partition(dataset, Partition("made up", index, index))


def fed_of(augment: str = "crop_flip", seed: int = 1, **own) -> Federation:
    schedule = Schedule(3, batch_size=4, order="fixed", augment=augment)
    settings = {"seed": seed, "device": "cpu", "dtype": torch.float64, **own}
    network = lambda: nn.Sequential(nn.Flatten(), nn.Linear(90, 2))  # noqa: E731
    return Federation(held(), network, schedule, **settings)


def seen(fed: Federation, round: int, client: int, **settings) -> list[torch.Tensor]:
    """The inputs of a client's batches as a step sees them."""
    inputs = []
    look = lambda rows, gradient, batch: inputs.append(batch.x.clone())  # noqa: E731
    fed.train(copies(fed.initial(), 1), round, [client], look, **settings)
    return inputs


def test_images_are_moved_as_stored_and_normalised_then_so_that_padding_is_black():
    fed = fed_of()
    pool = fed.clients.splits["train"].pool
    black = (0 - torch.tensor([0.5, 0.4, 0.3])) / torch.tensor([0.2, 0.3, 0.4])
    moves = torch.tensor([[0, 0, 0], [3, 6, 1]])
    x = fed._splits["train"].pool.inputs(torch.tensor([2, 5]), moves)
    torch.testing.assert_close(x[0, :, 0, 0].float(), black)  # the padded image's corner
    raw = one_by_one(pool.x[[2, 5]], moves).double() / 255
    values = torch.tensor([[0.5, 0.4, 0.3], [0.2, 0.3, 0.4]], dtype=torch.float64)
    mean, std = values[..., None, None]
    torch.testing.assert_close(x, (raw - mean) / std, rtol=1e-12, atol=1e-12)


def test_moves_depend_on_seed_purpose_round_client_and_batch():
    fed, again = fed_of(), fed_of(threads=2)
    first = seen(fed, 1, 0)
    assert all(map(torch.equal, first, seen(again, 1, 0)))
    plain = seen(fed_of("none"), 1, 0)
    assert not any(map(torch.equal, first, plain))
    others = [seen(fed, 2, 0), seen(fed_of(seed=2), 1, 0)]
    for other in (*others, seen(fed, 1, 0, purpose="personal batches")):
        assert [len(x) for x in other] == [4, 3] and not any(map(torch.equal, first, other))
    key, three = (fed.schedule, fed.seed, "batches", 1), [torch.arange(4)] * 3
    numbers = [moves(*key, client, three) for client in range(3)]
    drawn = {tuple(moves.flatten().tolist()) for client in numbers for moves in client}
    assert len(drawn) == 9


def test_loop_and_vmap_train_on_the_same_images():
    outs = []
    for own in ({"engine": "loop"}, {"engine": "loop", "threads": 2}, {"engine": "vmap"}):
        fed = fed_of(**own)
        outs.append(fed.train(copies(fed.initial(), 3), 2, range(3))[0]["theta"])
    assert torch.equal(outs[0], outs[1])
    torch.testing.assert_close(outs[2], outs[0], rtol=1e-9, atol=1e-11)


def test_evaluation_sees_images_as_they_are():
    one, other = fed_of(), fed_of("none")
    for split in ("train", "test"):
        found, plain = (fed.evaluate(one.initial(), split) for fed in (one, other))
        assert all(map(torch.equal, found, plain))


def test_nothing_is_drawn_where_it_is_off(monkeypatch):
    fed = fed_of("none")
    expected = fed.train(copies(fed.initial(), 3), 1, range(3))[0]["theta"]

    def broken(*_):
        raise AssertionError("drawn")

    monkeypatch.setattr(batches, "draw_moves", broken)
    assert torch.equal(fed.train(copies(fed.initial(), 3), 1, range(3))[0]["theta"], expected)
    with pytest.raises(AssertionError, match="drawn"):
        fed_of().train(copies(fed.initial(), 3), 1, range(3))


def test_a_table_is_not_augmented():
    rows, schedule = [(torch.randn(4, 9), torch.arange(4) % 2)], Schedule(1, augment="crop_flip")
    with pytest.raises(BadInput, match=r"^augment 'crop_flip' moves images, .* shape \(9,\): give"):
        Federation.from_arrays(rows, rows, nn.Linear(9, 2), schedule, device="cpu")
