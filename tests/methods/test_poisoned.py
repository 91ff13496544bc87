"""Poisoned clients: what they send by hand, what their labels do, and who still counts them."""

import pytest
import torch

from pfl_lib import Federation, Schedule, run
from pfl_lib import methods as m
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods.poisoned import ATTACKS, Poisoned, random_labels
from pfl_lib.results.store import Store
from tests.common import refusal
from tests.methods.conftest import TwoLayers, network, same

POINTS = [[(4, 0), (0, 4)], [(8, -4)]]
METHODS = [m.FedAvg(), m.Scaffold("I"), m.WeightErosion(p_d=0.1), m.Waffle(), m.APFL(), m.Local()]


def test_a_reversed_update_by_hand(pencil, play, exactly):
    """lr 1/2.  Round 1, x = 0: y_0 = (1,2), y_1 = (4,-2); sent (1,2) and (-4,2), so x = (-1.5,2).

    Round 2: client 0 goes by (4,0) and (0,4) to (.625,2.5); y_1 = (3.25,-1), an update of
    (4.75,-3), so (-6.25,5) is sent; x = (-2.8125,3.75).
    """
    method = Poisoned(m.FedAvg("uniform"), (1,), "update")
    (first, _), (second, _) = play(method, pencil(POINTS))
    exactly(first["theta"], [-1.5, 2])
    exactly(second["theta"], [-2.8125, 3.75])


def test_noise_nan_and_infinity_by_hand(pencil, play, exactly):
    """Noise is `scale` times as long as the update, (4,-2); who sends NaN is named."""
    fed = pencil(POINTS, rounds=1)
    own = Poisoned(m.FedAvg("uniform"), (1,), "noise", 3.0)
    (noisy, _), (plain, _) = (play(method, fed)[0] for method in (own, m.FedAvg("uniform")))
    exactly((noisy["theta"] - plain["theta"]).norm(), 3 * 20**0.5 / 2)
    assert not fed.non_finite
    for attack in ("nan", "infinite"):
        [(after, _)] = play(Poisoned(m.FedAvg(), (1,), attack), pencil(POINTS, rounds=1))
        assert not after["theta"].isfinite().any()
        fed.non_finite.clear()
        play(Poisoned(m.FedAvg(), (1,), attack), fed)
        assert fed.non_finite == {1}


@pytest.mark.parametrize(
    "method",
    [m.Ditto(0), m.APFL(1, adaptive=False), m.Mocha(0), m.PFedLA(2), m.PFedLA(("0", "2"))],
    ids=repr,
)
def test_where_nothing_is_shared_nan_stays_with_its_client(small, play, method):
    fed = small(alice=None, rounds=3)
    (state, _), (local, _) = (
        play(one, fed)[-1] for one in (Poisoned(method, (3,), "nan"), m.Local())
    )
    served = method.served(fed, state)["theta"]
    torch.testing.assert_close(served[:3], local["theta"][:3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "kept"),
    [(m.Local(), [0, 1]), (m.LGFedAvg(("lower",)), [0]), (m.FedRep(("upper",)), [1])],
    ids=repr,
)
def test_what_stays_with_a_client_is_honest_and_what_it_sends_is_not(pencil, play, method, kept):
    fed = pencil(POINTS, model=TwoLayers, alice=None)
    (honest, _), (false, _) = (
        play(one, fed)[0] for one in (method, Poisoned(method, (1,), "update"))
    )
    assert torch.equal(false["theta"][:, kept], honest["theta"][:, kept])
    sent = [column for column in (0, 1) if column not in kept]
    assert not sent or not torch.equal(false["theta"][:, sent], honest["theta"][:, sent])


def test_attacks_one_in_another_are_one_attack_on_all_their_clients(small, play):
    once = Poisoned(m.FedRep(), (1, 2), "update")
    nested = Poisoned(Poisoned(m.FedRep(), (2,), "update"), (1,), "update")
    [(one, _)], [(other, _)] = (play(method, small(), rounds=1) for method in (once, nested))
    assert same(one, other)
    assert nested.versions(Schedule(1), False) == {"what is uploaded": 1, "attacks nest": 2}


def test_a_method_that_names_the_arguments_of_train_is_poisoned_too(small, play):
    class Named(m.Local):
        def round(self, fed, state, r):
            clients = fed.participants(r)
            rows = {name: row[clients] for name, row in state.items()}
            return fed.train(rows, round=r, clients=clients)[0], {}

    for method in (Named(), Poisoned(Named(), (1,), "update")):
        [(state, _)] = play(method, small(), rounds=1)
        assert state["theta"].isfinite().all()


def test_dittos_own_models_stay_honest_while_they_receive_the_same(pencil, play):
    fed, false = pencil(POINTS, alice=None), Poisoned(m.Ditto(), (1,), "update")
    (honest, _), (false, _) = (play(method, fed)[0] for method in (m.Ditto(), false))
    assert torch.equal(false["personal"], honest["personal"])
    assert not torch.equal(false["theta"], honest["theta"])


def test_results_are_told_from_those_in_which_kept_parts_were_changed_too():
    schedule = Schedule(rounds=1)
    versions = {
        (type(method), attack): Poisoned(method, (1,), attack).versions(schedule, False)
        for method in (m.FedRep(), m.FedAvg())
        for attack in ("labels", "update")
    }
    raised = {place for place, of in versions.items() if of["what is uploaded"] == 2}
    assert raised == {(m.FedRep, "update")}


def alike(played: list, other: list) -> bool:
    return all(same(mine, its) for (mine, _), (its, _) in zip(played, other, strict=True))


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("attack", ["labels", "update"])
def test_without_a_poisoned_client_it_is_the_method_bit_for_bit(small, play, method, attack):
    fed = small()
    assert alike(play(Poisoned(method, (), attack), fed), play(method, fed))


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_random_labels_are_a_federation_that_has_them(small, play, method):
    fed, poisoned = small(), (1, 3)
    held = fed.clients.splits["train"]
    labels = [random_labels(fed, i) if i in poisoned else held.labels[i] for i in range(4)]
    data = [(held.pool.x[index], own) for index, own in zip(held.index, labels, strict=True)]
    settings = {"alice": 0, "device": "cpu", "dtype": torch.float64}
    there = Federation.from_arrays(data, data, network, fed.schedule, **settings)
    assert alike(play(Poisoned(method, poisoned), fed), play(method, there))


@pytest.mark.parametrize("attack", ["labels", "flipped"])
def test_what_a_poisoned_client_is_served_is_trained_on_its_labels_too(small, attack):
    """One local epoch of client 1's own, at a learning rate that tells labels apart."""
    fed, poisoned = small(alice=None), Poisoned(m.FineTuned(), (1,), attack)
    state, _ = poisoned.round(fed, poisoned.start(fed), 1)
    flipped = fed.clients.classes - 1 - fed.clients.splits["train"].labels[1]
    labels = random_labels(fed, 1) if attack == "labels" else flipped
    false = fed.with_training_labels({1: labels})
    served = poisoned.served(fed, state)["theta"]
    assert torch.equal(served, m.FineTuned().served(false, state)["theta"])
    assert not torch.equal(served[1], m.FineTuned().served(fed, state)["theta"][1])


def test_flipped_labels_are_counted_from_the_last(small):
    fed = small()
    flipped = Poisoned(m.FedAvg(), (1,), "flipped")._attacked(fed)._splits["train"].labels
    own = fed.clients.splits["train"].labels
    assert torch.equal(flipped[1], 2 - own[1]) and torch.equal(flipped[2], own[2])


def test_neither_attack_leaves_a_trace_in_the_federation(small, play):
    fed = small()
    expected = play(m.FedAvg(), fed)[-1][0]["theta"]
    for attack in ("labels", "update"):
        poisoned = play(Poisoned(m.FedAvg(), (1, 2), attack, -3.0), fed)[-1][0]["theta"]
        assert not torch.equal(poisoned, expected)
        assert torch.equal(play(m.FedAvg(), fed)[-1][0]["theta"], expected)


def test_weight_erosion_loses_twice_p_d_a_round_for_each_reversed_copy_of_alice(small, play):
    """All clients hold the same: |g - g_0| / |g_0| is 0 for the honest, 2 for -g_0."""
    fed = small(repeat=True, shuffled=False)
    method = Poisoned(m.WeightErosion(p_d=0.2, p_s=0.0), (2,), "update")
    for r, (_, log) in enumerate(play(method, fed), start=1):
        expected = [1, 1, max(0, 1 - 2 * 0.2 * r), 1]
        assert log["weights"].tolist() == pytest.approx(expected, abs=1e-9)


def test_waffle_drops_a_reversed_copy_of_alice_when_its_smoothing_is_over(small, play):
    fed = small(repeat=True, shuffled=False, rounds=8)
    logs = [log["weights"] for _, log in play(Poisoned(m.Waffle(), (2,), "update"), fed)]
    assert [round(float(weights[2]) * 12) for weights in logs] == [2, 1, 0, 0, 0, 0, 0, 0]
    assert all((weights[[0, 1, 3]] > 0).all() for weights in logs[:6])


def test_a_run_of_it_is_stored_under_what_it_poisons(tmp_path):
    method = Poisoned(m.Waffle(), (1, 2))
    result = run(method, rounds=2, results_dir=tmp_path)
    assert len(result.metrics) == 2 and len(list((tmp_path / "cells").iterdir())) == 1
    assert result.config["method"]["method"]["name"] == "waffle"
    others = (Poisoned(m.Waffle(slope=4), (1, 2)), Poisoned(m.Scaffold(), (1, 2)), m.Waffle())
    others += (Poisoned(m.Waffle(), (1,)), Poisoned(m.Waffle(), (1, 2), "update"))
    specs = [RunSpec(one, Schedule(rounds=2), dataset="digits") for one in (method, *others)]
    assert len({spec.key for spec in specs}) == len(specs)
    assert Store(tmp_path).find(specs[0]).config["seed"] == 1
    assert specs[0].examples() == specs[3].examples()  # it costs what the method costs


def test_a_method_of_ones_own_stays_unstored_when_it_is_poisoned(tmp_path):
    class Mine(m.FedAvg):
        """Goes by FedAvg's name."""

    result = run(Poisoned(Mine(), (1,)), rounds=1, results_dir=tmp_path)
    assert len(result.metrics) == 1 and not list(tmp_path.iterdir())


def test_what_cannot_be_poisoned_is_refused_in_one_line(small):
    for wrong, sentence in (
        ({"clients": (0,)}, "client 0 is Alice, who is honest: leave her out"),
        ({"clients": (4,)}, "client 4 is poisoned, and the clients are 0 to 3"),
        ({"clients": [1]}, "clients [1]: give a tuple of clients' numbers"),
        ({"clients": (True,)}, "clients (True,): give a tuple of clients' numbers"),
        ({"attack": "model"}, "attack 'model' is not one of " + ", ".join(ATTACKS)),
        ({"scale": float("nan")}, "scale nan: give a finite number"),
    ):
        given = {"method": m.FedAvg(), "clients": (1,), **wrong}
        assert refusal(lambda given=given: Poisoned(**given).start(small())) == sentence
