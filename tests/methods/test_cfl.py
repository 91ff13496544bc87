"""Clustered federated learning: splits by hand, and clusters that partition the clients."""

import torch

from pfl_lib.methods.cfl import CFL, bipartition, similarities

AT_ONCE = CFL(epsilon_1=0.5, epsilon_2=0.4, start_round=1)
POINTS = [[(4, 0)], [(-4, 0)]] * 2
# Two clients at each corner, in an order in which a place in a cluster is no client's number.
CORNERS = [(-4, 2), (4, 2), (4, -2), (-4, -2), (4, -2), (4, 2), (-4, -2), (-4, 2)]


def test_a_split_and_the_round_after_it_by_hand(pencil, play, exactly):
    """theta <- (theta + point)/2.  Points 4, -4, 4, -4 on the first axis.

    Round 1: updates 2, -2, 2, -2; unit 2; |mean| = 0 < 0.5, max = 1 > 0.4: split into {0, 2} and
    {1, 3}, whose models are 2 and -2. Round 2: (2+4)/2 = 3, and -3; updates of norm 1, both
    norms are 1/2; a cluster of two is not split.
    """
    fed = pencil(POINTS, alice=None)
    (first, log), (second, next_log) = play(AT_ONCE, fed)
    exactly(first["theta"], [[2, 0], [-2, 0], [2, 0], [-2, 0]])
    exactly(log["cluster"], [0, 1, 0, 1])
    exactly(log["weights"], [[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]] * 2)
    exactly(log["mean_update_norm"], [0] * 4)
    exactly(log["max_update_norm"], [1] * 4)
    exactly(second["theta"], [[3, 0], [-3, 0], [3, 0], [-3, 0]])
    exactly(next_log["mean_update_norm"], [0.5] * 4)
    exactly(next_log["cluster"], [0, 1, 0, 1])
    assert log["models_up"] == log["models_down"] == 4


def test_after_two_splits_the_clusters_partition_the_clients(pencil, play, exactly):
    """The trap: places within a cluster taken for clients' numbers.

    Round 1: updates (+-2, +-1) of norm sqrt 5, the unit, with mean 0: split by the sign of x.
    Round 2: models (+-2, 0), updates (+-1, +-1): |mean| = 1/sqrt 5 = .447 < 0.5 units, max = sqrt
    2/sqrt 5 = .63 > 0.4: split by the sign of y.  Each cluster then goes half-way to its corner in
    each round; along y, where round 1's mean was 0, from round 2 on.
    """
    fed = pencil([[corner] for corner in CORNERS], alice=None, rounds=6)
    played = play(AT_ONCE, fed)
    sides = [log["cluster"].tolist() for _, log in played]
    assert sides[0] == [0, 1, 1, 0, 1, 1, 0, 0]
    for clusters in sides[1:]:
        together = {}
        for client, number in enumerate(clusters):
            together.setdefault(number, []).append(client)
        assert sorted(together.values()) == [[0, 7], [1, 5], [2, 4], [3, 6]]
    exactly(played[-1][0]["theta"], [[63 / 64 * x, 31 / 32 * y] for x, y in CORNERS])


def test_no_split_before_its_round_nor_where_a_norm_forbids_it(pencil, play):
    def last(**settings) -> int:
        fed = pencil(POINTS, alice=None, rounds=3)
        method = CFL(**{"epsilon_1": 0.5, "epsilon_2": 0.4, "start_round": 1, **settings})
        return int(play(method, fed)[-1][1]["cluster"].max())

    assert last() == last(start_round=3) == 1
    assert last(start_round=4) == last(epsilon_1=0) == last(epsilon_2=1) == 0
    assert last(relative=False, epsilon_2=1.9) == 1  # updates have norm 2
    assert last(relative=False, epsilon_2=2.1) == 0


def test_a_cluster_is_split_only_when_all_its_clients_have_taken_part(pencil, play):
    fed = pencil(POINTS, alice=None, rounds=3, availability=((3, 3, 3), (1, 1, 1)))
    counts = [log["cluster"].tolist() for _, log in play(CFL(0.9, 0.1, start_round=1), fed)]
    assert counts == [[0] * 4, [0] * 4, [0, 1, 0, 1]]


def test_a_part_is_split_again_only_when_all_its_clients_have_trained_since_it_was_made(
    small, play
):
    """Limits that always split: the two parts wait until each of theirs was drawn once more."""
    method = CFL(epsilon_1=1e9, epsilon_2=0, start_round=1, relative=False)
    fed = small(clients=6, rounds=40, participation=1 / 3, alice=None)
    born, last, splits = torch.zeros(6), torch.zeros(6, dtype=torch.int64), 0
    for r, (state, _) in enumerate(play(method, fed, 40), start=1):
        now = state["cluster"]
        for number in last.unique().tolist():
            members = (last == number).nonzero().flatten().tolist()
            if len(now[members].unique()) > 1:
                drawn = [{*fed.participants(q)} for q in range(int(born[members[0]]) + 1, r + 1)]
                assert {*members} <= set().union(*drawn)
                born[members], splits = r, splits + 1
        last = now
    assert splits > 1


def test_a_cluster_without_participants_keeps_its_model(pencil, play, exactly):
    fed = pencil(POINTS, alice=None, availability=((1, 1, 1), (3, 1, 1)))
    (_, _), (state, log) = play(AT_ONCE, fed)
    exactly(state["theta"], [[3, 0], [-2, 0], [3, 0], [-2, 0]])
    assert not log["weights"][[1, 3]].any()


def test_groups_are_as_near_as_their_farthest_pair():
    """3, at 0.5 of all, joins 2 and not the pair 0, 1, whose farthest member is at 0.1."""
    similarity = torch.tensor(
        [[1.0, 0.9, -0.5, 0.1], [0.9, 1.0, 0.8, 0.5], [-0.5, 0.8, 1.0, 0.5], [0.1, 0.5, 0.5, 1.0]]
    )
    assert bipartition(similarity) == ([0, 1], [2, 3])
    assert bipartition(torch.eye(2)) == ([0], [1])


def test_an_update_of_zero_is_like_no_other():
    found = similarities(torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
    assert found.tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 1]]
