"""FedAvg with shared data: two rounds by hand, who gives how much, and FedAvg at share 0."""

import torch

from pfl_lib.experiments.spec import described
from pfl_lib.methods.fedavg_data import FedAvgData, gifts


def test_two_rounds_by_hand(pencil, play, exactly):
    """theta <- (theta + point)/2.  Clients of one point each, 4 and 8 on the first axis, share 1: a
    pool of one example, from one of them; say the first.  It trains on 4, the other on 8 and then
    on 4; weights 1/3 and 2/3.

    Round 1: y_0 = 2; y_1 = 4, then 4;  x = (2 + 8)/3 = 10/3.
    Round 2: y_0 = 11/3; y_1 = 17/3, 29/6;  x = (11/3 + 29/3)/3 = 40/9.
    """
    [giver] = gifts([1, 1], 1, 1, "client")
    points = [[(4, 0)], [(8, 0)]]
    fed = pencil(points if giver == 0 else points[::-1], alice=None)
    (first, log), (second, _) = play(FedAvgData(share=1, pool="client"), fed)
    exactly(first["theta"], [10 / 3, 0])
    exactly(second["theta"], [40 / 9, 0])
    exactly(log["weights"][[giver, 1 - giver]], [1 / 3, 2 / 3])
    assert log["models_up"] == log["models_down"] == 2


def test_runs_of_the_released_codes_pool_keep_the_keys_they_had_before_there_was_another():
    assert "pool" not in described(FedAvgData(pool="client"))
    assert described(FedAvgData())["pool"] == "all"


def test_the_pool_is_the_share_of_all_examples_or_of_a_clients_mean_and_all_give_alike():
    for pool, sizes, share, total, least, most in (
        ("client", [2666] * 15, 0.05, 133, 8, 9),  # FedFomo's 15 clients
        ("client", [400] * 100, 0.05, 20, 0, 1),  # its 100, where a whole share would be none
        ("client", [100, 300], 0.1, 20, 5, 15),  # in proportion to what they have
        ("client", [10] * 4, 1, 10, 2, 3),
        ("all", [2666] * 15, 0.05, 2000, 133, 134),  # rounded up from 1999.5
        ("all", [400] * 100, 0.05, 2000, 20, 20),
        ("all", [100, 300], 0.1, 40, 10, 30),
        ("all", [10] * 4, 1, 40, 10, 10),
    ):
        given = gifts(sizes, share, 1, pool)
        counts = [len(given.get(client, ())) for client in range(len(sizes))]
        assert (sum(counts), min(counts), max(counts)) == (total, least, most)
        for client, places in given.items():
            assert len(places.unique()) == len(places) and places.max() < sizes[client]


def test_clients_with_as_many_examples_give_others_of_them():
    one, other = (gifts([400] * 2, 0.05, 1, "all")[client].tolist() for client in (0, 1))
    assert len(one) == len(other) == 20 and set(one) != set(other)


def test_gifts_follow_the_seed_alone():
    one, again, other = (gifts([400] * 100, 0.05, seed, "client") for seed in (1, 1, 2))
    assert one.keys() == again.keys() != other.keys()
    assert all(torch.equal(one[client], again[client]) for client in one)
    assert len({tuple(places.tolist()) for places in one.values()}) == len(one), "each its own"
