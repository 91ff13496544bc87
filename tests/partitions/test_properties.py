"""What every recipe promises: no example twice, as many as said, the same for a seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_lib import partitions as p
from pfl_lib.errors import BadInput
from pfl_lib.partitions.dealing import apportion, draw_classes

few = settings(max_examples=20, deadline=None, derandomize=True)
SHARES = st.sampled_from([0.25, 0.5, 0.7, 0.9])
OF_CLASSES = [
    st.builds(family, st.integers(1, 4), st.just(24), SHARES)
    for family in (p.Classes, p.Neighbours, p.Relatives)
] + [st.builds(p.Dominant, st.integers(1, 4), st.just(0.6), st.just(40), SHARES)]
RECIPES = st.one_of(
    *OF_CLASSES,
    st.builds(p.LabelSkew, st.sampled_from(["A", "B", "C", "A*", "B*"])),
    st.builds(p.SizedSkew, st.sampled_from("ABC"), st.just((3, 1, 2))),
    st.builds(p.Shards, st.just(10)),
    st.builds(p.Latent, st.just(10)),
    st.builds(p.Dirichlet, st.floats(0.2, 5), st.integers(1, 10)),
)
ALL_GIVEN = (p.Shards, p.Latent, p.Dirichlet)
CLIENTS, SEEDS = st.integers(3, 14), st.integers(0, 10**6)
SIZES = st.lists(st.integers(100, 160), min_size=10, max_size=10)


@pytest.fixture(scope="module")
def made(labelled):
    """A partition and its data set; None where the recipe refuses, in one line."""

    def make(recipe, sizes: list[int], clients: int, seed: int, **settings):
        dataset = labelled(sizes, [size // 3 for size in sizes])
        try:
            return p.make(recipe, dataset, clients, seed, **settings), dataset
        except BadInput as error:
            assert "\n" not in str(error)
            return None

    return make


@few
@given(recipe=RECIPES, sizes=SIZES, clients=CLIENTS, seed=SEEDS)
def test_no_example_is_given_twice_and_a_seed_gives_the_same_again(
    made, recipe, sizes, clients, seed
):
    found = made(recipe, sizes, clients, seed)
    if found is None:
        assert isinstance(recipe, p.Latent | p.Dirichlet | p.Dominant | p.Shards)
        return
    split, dataset = found
    again, _ = made(recipe, sizes, clients, seed)
    assert split.checksum() == again.checksum() and split.clients == clients
    pool, tests = split.of(dataset).train_y, split.of(dataset).test_y
    train, test = torch.cat(split.train), torch.cat(split.test)
    assert len(train.unique()) == len(train) and 0 <= train.min() and train.max() < len(pool)
    assert 0 <= test.min() and test.max() < len(tests)
    assert min(map(len, split.train)) >= 1 and min(map(len, split.test)) >= 1
    if split.pooled:
        both = torch.cat([train, test])
        assert len(both.unique()) == len(both)
    if isinstance(recipe, ALL_GIVEN):
        assert len(train) == len(pool)
        assert sorted(test.tolist()) == list(range(len(tests)))


@few
@given(recipe=st.one_of(*OF_CLASSES), sizes=SIZES, clients=CLIENTS, seed=SEEDS)
def test_a_client_has_its_number_of_examples_in_its_classes_and_trains_on_its_share(
    made, recipe, sizes, clients, seed
):
    found = made(recipe, sizes, clients, seed)
    if found is None:
        return
    split, dataset = found
    labels = dataset.pooled.train_y
    train, test = (
        torch.stack([torch.bincount(labels[rows], minlength=10) for rows in of])
        for of in (split.train, split.test)
    )
    assert train.sum(1).tolist() == [recipe.training_examples] * clients
    held = train + test
    assert held.sum(1).tolist() == [recipe.examples] * clients
    assert ((train - recipe.train_share * held).abs() < 1).all()  # the same in both, to an example
    if isinstance(recipe, p.Dominant):
        many, others = 24 // recipe.classes, 10 - recipe.classes
        top = held.sort(1, descending=True).values
        assert (top[:, : recipe.classes] >= many).all()
        assert (held.sum(1) - top[:, : recipe.classes].sum(1) >= others * (16 // others)).all()
    else:
        assert ((held == 24 // recipe.per_client) | (held == 0)).all()


@few
@given(RECIPES, SIZES, CLIENTS, SEEDS, st.sampled_from([0.2, 0.5]))
def test_validation_examples_are_a_clients_own_in_its_order(
    made, recipe, sizes, clients, seed, share
):
    whole, held = (made(recipe, sizes, clients, seed, validation=v) for v in (0.0, share))
    if held is None:
        return
    for mine, train, validation in zip(
        whole[0].train, held[0].train, held[0].validation, strict=True
    ):
        assert len(validation) == int(share * len(mine) + 0.5)
        place = {position: k for k, position in enumerate(mine.tolist())}
        kept, out = ([place[position] for position in of.tolist()] for of in (train, validation))
        assert kept == sorted(kept) and out == sorted(out)
        assert sorted(kept + out) == list(range(len(mine)))


@few
@given(st.integers(0, 500), st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any))
def test_whole_numbers_in_proportion_add_up_and_are_less_than_one_away(total, weights):
    found = apportion(total, weights)
    assert sum(found) == total
    for given_, weight in zip(found, weights, strict=True):
        assert abs(given_ - total * weight / sum(weights)) < 1


@few
@given(st.integers(1, 40), st.integers(1, 10), st.integers(1, 10), SEEDS)
def test_no_class_is_drawn_by_more_clients_than_it_serves(clients, per_client, classes, seed):
    per_client = min(per_client, classes)
    at_most = -(-clients * per_client // classes)
    drawn = draw_classes(clients, per_client, classes, at_most, seed, "classes")
    assert all(len(set(mine)) == per_client for mine in drawn)
    assert max(sum(label in mine for mine in drawn) for label in range(classes)) <= at_most
