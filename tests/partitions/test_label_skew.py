"""WAFFLE's partitions: the authors' recipe, its numbers on MNIST, and what it refuses."""

import dataclasses
import itertools

import pytest
import torch

from pfl_lib import data, partitions
from pfl_lib.papers import values
from pfl_lib.partitions import LabelSkew
from tests.common import refusal, refused

NAMES = ["A", "B", "C", "A*", "B*"]

# Specification, section 6.1: training images of clients 0..9 and test images of Alice, on MNIST.
MNIST_SIZES = {
    "A": ([6020, 6020, 6020, 6020, 6020, 6020, 6020, 6020, 6020, 5727], 996),
    "B": ([6200, 6175, 6150, 6025, 5974, 5826, 5840, 5825, 5850, 6042], 1038),
    "C": ([5760, 5850, 6040, 6160, 6310, 6068, 6012, 6000, 5969, 5738], 946),
}

# WAFFLE, appendix, Table 2, in percent: distribution C of each client.
SHARES = [round(100 * share.value) for share in values.of_table("waffle", "table2").values()]
TABLE_2 = [SHARES[start : start + 10] for start in range(0, 100, 10)]


@pytest.fixture(scope="module")
def hundred(labelled) -> data.Dataset:
    """100 images of each label: a chunk is one image, so shares are exact percentages."""
    return labelled([100] * 10, [100] * 10)


@pytest.fixture(scope="module")
def uneven(labelled) -> data.Dataset:
    """The last chunk is missing (99, 198, 297), short (299), or full, some dropped (197, 250)."""
    return labelled([99, 197, 198, 250, 296, 297, 299, 1000, 100, 5421], [40, *range(31, 40)])


def test_distribution_c_follows_table_2_of_the_appendix_for_all_ten_clients(hundred):
    made = partitions.make("C", hundred)
    assert made.label_matrix(hundred).tolist() == TABLE_2
    tested = [torch.bincount(hundred.test_y[mine], minlength=10).tolist() for mine in made.test]
    assert tested == TABLE_2


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_clients_take_consecutive_chunks_as_the_authors_code_cuts_them(name, uneven):
    """As the authors do it: a list of chunks a label, from which each client takes the next."""
    first = {"A": [0.1] * 10, "B": [0.25] * 4 + [0] * 6, "C": [s / 100 for s in TABLE_2[0]]}[name]
    chunks = []
    for label in range(10):
        rows = [i for i, y in enumerate(uneven.train_y.tolist()) if y == label]
        size = len(rows) // 99
        chunks.append([rows[start : start + size] for start in range(0, len(rows), size)][:100])
    made = partitions.make(name, uneven)
    for client in range(10):
        expected = []
        for label in range(10):
            count = round(100 * (first[client:] + first[:client])[label])
            taken, chunks[label] = chunks[label][:count], chunks[label][count:]
            expected += [index for chunk in taken for index in chunk]
        assert made.train[client].tolist() == expected


def test_test_images_are_the_first_of_each_label_and_their_number_is_rounded_down(uneven):
    made = partitions.make("C", uneven)
    expected = []
    for label, percent in enumerate(TABLE_2[0]):
        of_label = torch.nonzero(uneven.test_y == label).flatten().tolist()
        expected += of_label[: percent * len(of_label) // 100]
    # Labels 3..7 have 33..37 test images: floors of 3.3, 6.8, 14, 7.2 and 3.7.
    assert len(expected) == 3 + 6 + 14 + 7 + 3
    assert made.test[0].tolist() == expected


def test_fewer_clients_are_the_first_of_the_ten(uneven):
    few, ten = (partitions.make("B*", uneven, clients, seed=3) for clients in (4, 10))
    assert few.clients == 4 and torch.equal(few.relabel, ten.relabel[:4])
    for mine, theirs in ((few.train, ten.train), (few.test, ten.test)):
        assert all(map(torch.equal, mine, theirs[:4]))


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_mnist_sizes_are_those_of_the_specification(name, mnist_dir):
    made = partitions.make(name, data.load("mnist", mnist_dir))
    sizes, alice_test = MNIST_SIZES[name]
    assert made.sizes.tolist() == sizes
    assert len(made.test[0]) == alice_test


@pytest.mark.parametrize(("shifted", "plain"), [("A*", "A"), ("B*", "B")])
def test_a_concept_shift_keeps_every_client_s_images(shifted, plain, hundred):
    ours, theirs = partitions.make(shifted, hundred, seed=1), partitions.make(plain, hundred)
    assert all(map(torch.equal, ours.train + ours.test, theirs.train + theirs.test))
    assert theirs.relabel is None


def test_client_0_keeps_its_labels_and_every_other_client_has_a_permutation_of_its_own(hundred):
    for seed in range(20):
        relabel = partitions.make("A*", hundred, seed=seed, alice=3).relabel
        assert relabel.shape == (10, 10) and relabel[0].tolist() == list(range(10))
        assert torch.equal(relabel.sort(dim=1).values, torch.arange(10).repeat(10, 1))
        assert len({tuple(row) for row in relabel.tolist()}) == 10


def test_permutations_are_uniform_over_seeds(hundred):
    # Over 200 seeds and 9 clients each label goes to each label 180 times, standard deviation 12.7.
    counts = torch.zeros(10, 10, dtype=torch.long)
    for seed in range(200):
        for row in partitions.make("A*", hundred, seed=seed).relabel[1:]:
            counts[torch.arange(10), row] += 1
    assert counts.sum() == 18000 and (counts - 180).abs().max() < 5 * 12.7


def test_the_label_matrix_counts_a_client_s_own_labels(hundred):
    plain = partitions.make("B", hundred).label_matrix(hundred)
    made = partitions.make("B*", hundred, seed=1)
    matrix = made.label_matrix(hundred)
    assert torch.equal(matrix[0], plain[0]) and not torch.equal(matrix, plain)
    for client in range(10):
        assert torch.equal(matrix[client, made.relabel[client]], plain[client])


def test_a_draw_of_its_own_keeps_the_labels_of_that_seed_whatever_the_run_s_seed(hundred):
    for name, draw in itertools.product(("A*", "B*"), (3, 0)):
        split = LabelSkew(name, draw=draw)
        fixed = [partitions.make(split, hundred, seed=seed) for seed in (1, 2)]
        drawn = partitions.make(name, hundred, seed=draw)
        assert {split.checksum() for split in fixed} == {drawn.checksum()}
        assert all(torch.equal(split.relabel, drawn.relabel) for split in fixed)


def test_a_draw_for_a_distribution_that_draws_nothing_is_refused():
    for name in ("A", "B", "C"):
        refused(f"draw 1: distribution '{name}' draws nothing", LabelSkew, name, draw=1)
    refused("draw 0.5: give a whole number", LabelSkew, "A*", draw=0.5)


def test_the_checksum_sees_every_part(hundred):
    made = partitions.make("C", hundred)
    swapped_ends = (made.train[0].flip(0), *made.train[1:])
    moved = (made.train[0][:-1], torch.cat([made.train[0][-1:], made.train[1]]), *made.train[2:])
    others = [
        dataclasses.replace(made, train=swapped_ends),
        dataclasses.replace(made, train=moved),
        dataclasses.replace(made, test=made.test[::-1]),
        dataclasses.replace(made, validation=made.train),
        dataclasses.replace(made, relabel=torch.arange(10).repeat(10, 1)),
    ]
    checksums = {other.checksum() for other in others} | {made.checksum()}
    assert len(checksums) == 6
    assert dataclasses.replace(made, name="other").checksum() == made.checksum()


@pytest.mark.parametrize("name", NAMES)
def test_clients_beyond_ten_share_what_those_of_the_ten_have(name, hundred):
    ten, many = (partitions.make(name, hundred, n, seed=1) for n in (10, 23))
    for client in range(10):
        alike = [many.train[i] for i in range(client, 23, 10)]
        assert torch.equal(torch.cat(alike).sort().values, ten.train[client].sort().values)
        sizes = [len(mine) for mine in alike]
        assert max(sizes) - min(sizes) <= 1
        assert all(torch.equal(many.test[i], ten.test[client]) for i in range(client, 23, 10))
    held = many.label_matrix(hundred).bool() if not name.endswith("*") else None
    assert held is None or torch.equal(held[20], held[0])


def test_what_cannot_be_served_is_refused(labelled):
    for name, train, test, clients, sentence in (
        ("B", [100] * 10, [100] * 10, 0, "clients 0: give a whole number, 1 or more"),
        ("B", [100] * 10, [100] * 10, 2000, "leaves client 1000 of 2000 without training images"),
        ("A*", [500] * 2, [50] * 2, 10, "10 classes, dataset 'made' has 2: choose another, such"),
        ("C", [100] * 3 + [98] + [100] * 6, [100] * 10, 10, "label 3 has 98 among the 998 images"),
        ("A", [100] * 9 + [0], [100] * 10, 10, "label 9 has 0 among the 900 images"),
        ("A", [100] * 10, [9] * 10, 10, "leaves client 0 of 10 without test images of made"),
    ):
        made = labelled(train, test, classes=len(train))
        assert sentence in refusal(partitions.make, name, made, clients)
