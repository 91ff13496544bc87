"""Whom an average counts, from aggregation weights worked out by hand."""

import math

import numpy as np

from pfl_lib.results.weights import alone_from, shares, vanishing


def test_shares_of_an_average_sum_to_one():
    assert shares(np.array([[1.0, 0.5, 0.5], [1.0, 0.0, 0.0]])).tolist() == [
        [0.5, 0.25, 0.25],
        [1.0, 0.0, 0.0],
    ]


def test_a_client_is_gone_from_the_round_after_its_last_weight_and_alice_alone_from_the_last_ones():
    """Client 1 comes back in round 2 and is gone from round 3, client 2 from round 4; client 3 in
    no round.
    """
    weights = np.array(
        [[1, 0.0, 0.3, 0.1], [1, 0.2, 0.2, 0.1], [1, 0.0, 0.1, 0.1], [1, 0.0, 0.0, 0.1]]
    )
    assert vanishing(weights)[[1, 2]].tolist() == [3, 4] and math.isnan(vanishing(weights)[3])
    assert alone_from(weights[:, :3]) == 4 and math.isnan(alone_from(weights))
