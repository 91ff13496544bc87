"""FedFomo's earth mover's distance, by hand."""

import pytest
import torch

from pfl_lib import partitions
from pfl_lib.partitions import Latent, Partition, earth_movers_distance


@pytest.mark.parametrize(
    ("name", "classes", "clients", "distance"),
    [("cifar10", 10, 10, 2.7), ("cifar10", 10, 15, 2.7), ("cifar100", 100, 100, 2.97)],
)
def test_one_class_alone_is_as_far_as_counted_by_hand(name, classes, clients, distance, request):
    """|1 - 0.1| for its own of ten, |1 - 0.1| + 9 |0 - 0.1| for all; 0.99 + 1.98 of a hundred."""
    dataset = request.getfixturevalue(name)
    found = earth_movers_distance(partitions.make(Latent(classes), dataset, clients), dataset)
    assert found.tolist() == pytest.approx([distance] * clients, abs=1e-12)


def test_clients_like_everybody_are_at_no_distance_and_an_uneven_client_is_as_counted_by_hand(
    labelled,
):
    """Client 0 has n of sixteen examples of one class and 16 - n of the other, client 1 the others:
    with 12 each share is 1/4 off, twice in two sums; 15 are further off than one class alone, 16.
    """
    two = labelled([16, 16], [1, 1], classes=2)
    zeros, ones = (torch.nonzero(two.train_y == label).flatten() for label in (0, 1))
    for n, expected in ((8, 0), (12, 1), (15, 1.75), (16, 1.5)):
        train = (torch.cat([zeros[:n], ones[n:]]), torch.cat([zeros[n:], ones[:n]]))
        found = earth_movers_distance(Partition("made", train, train), two)
        assert found.tolist() == [expected] * 2
