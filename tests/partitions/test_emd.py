"""FedFomo's earth mover's distance, by hand."""

import pytest
import torch

from pfl_lib import partitions
from pfl_lib.partitions import Latent, Partition, earth_movers_distance


@pytest.mark.parametrize(
    ("name", "classes", "clients", "distance"),
    [("cifar10", 10, 10, 2.7), ("cifar10", 10, 15, 2.7), ("cifar100", 100, 100, 2.97)],
)
def test_one_class_alone_is_as_far_as_it_can_be(name, classes, clients, distance, request):
    """One class of ten: |1 - 0.1| for its own class, and |1 - 0.1| + 9 |0 - 0.1| for all: 0.9 + 1.8
    = 2.7, Table 2's "10 (2.70)".  One of a hundred: 0.99 + (0.99 + 99 / 100) = 2.97.
    """
    dataset = request.getfixturevalue(name)
    found = earth_movers_distance(partitions.make(Latent(classes), dataset, clients), dataset)
    assert found.tolist() == pytest.approx([distance] * clients, abs=1e-12)


def test_clients_like_everybody_are_at_no_distance_and_an_uneven_client_is_as_counted_by_hand(
    labelled,
):
    """Shares of two classes: client 0 (3/4, 1/4), client 1 (1/4, 3/4), everybody (1/2, 1/2): for
    each 1/4 + 1/4 twice, as both have both classes: 1.
    """
    two = labelled([4, 4], [1, 1], classes=2)
    zeros, ones = (torch.nonzero(two.train_y == label).flatten() for label in (0, 1))
    uneven = (torch.cat([zeros[:3], ones[:1]]), torch.cat([zeros[3:], ones[1:]]))
    even = (torch.cat([zeros[:2], ones[:2]]), torch.cat([zeros[2:], ones[2:]]))
    for train, expected in ((uneven, [1.0, 1.0]), (even, [0.0, 0.0])):
        assert earth_movers_distance(Partition("made", train, train), two).tolist() == expected
