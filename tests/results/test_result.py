"""One number out of a result, as a table's protocol reads it; whom an average counts."""

import math

import numpy as np
import pandas as pd
import pytest

from pfl_lib.results.result import Result
from pfl_lib.results.several import Results, of_each_alice
from pfl_lib.results.weights import alone_from, shares, vanishing
from tests.common import refused


def result(alice: int | None = None, diverged: int | None = None, **columns) -> Result:
    """Three rounds of two clients.

    Means of the accuracy by round: 0.5, 0.7, 0.6; of client 1's own: 0.8, 0.6, 0.9.
    """
    metrics = {
        "round": [1, 1, 2, 2, 3, 3],
        "client": [0, 1] * 3,
        "accuracy": [0.2, 0.8, 0.8, 0.6, 0.3, 0.9],
        "loss": [4.0, 2.0, 3.0, 2.0, 1.0, 2.0],
        **columns,
    }
    return Result(
        {"method": {"name": "m"}, "alice": alice}, pd.DataFrame(metrics), None, diverged, 1
    )


def test_mean_and_spread_over_clients_are_those_of_one_round():
    for reading, expected in (
        ({}, 0.7),
        ({"protocol": "last"}, 0.6),
        ({"over": "worst"}, 0.6),
        ({"protocol": "last", "over": "worst"}, 0.3),
        # The 10th percentile of (0.6, 0.8), between them by a tenth.
        ({"over": "p10"}, 0.62),
        ({"metric": "loss"}, 1.5),
        ({"metric": "loss", "over": "worst"}, 2.0),
        ({"metric": "loss", "over": "p10"}, 1.9),
        ({"metric": "loss", "protocol": "last", "over": "worst"}, 2.0),
    ):
        assert result().value(**reading) == pytest.approx(expected, abs=1e-12)


def test_the_initial_model_is_no_round_and_never_the_best():
    begun = result(round=[0, 0, 1, 1, 2, 2])
    assert begun.value(metric="loss") == 1.5 and begun.best_accuracy == pytest.approx(0.7)
    accuracies = [0.8, 0.8, 0.2, 0.8, 0.3, 0.9]
    begun = result(round=[0, 0, 1, 1, 2, 2], accuracy=accuracies)
    assert begun.value() == begun.best_accuracy == pytest.approx(0.6)
    lost = result(round=[0, 0], client=[0, 1], accuracy=[0.1, 0.2], loss=[2.0, 2.0])
    assert all(math.isnan(of) for of in (lost.last_accuracy, lost.value(protocol="last")))


@pytest.mark.parametrize("name", ["val_loss", "valLoss", "NLL", "mse", "MSELoss"])
def test_of_a_loss_by_its_name_the_lowest_round_is_the_best(name):
    logged = result(**{name: [0.9, 0.9, 0.5, 0.5, 0.7, 0.7]})
    assert logged.value(metric=name) == pytest.approx(0.5)


def test_alices_best_round_is_her_own_and_not_that_of_the_mean():
    both = result(alice=1)
    assert both.value(over="alice") == 0.9 and both.value(over="alice", protocol="last") == 0.9
    assert result(alice=0).value(over="alice") == 0.8
    assert both.value(over="clients") == pytest.approx(0.7)
    assert both.value(over="clients") == both.best_accuracy
    assert both.value(protocol="last") == both.last_accuracy


def test_the_round_best_on_validation_is_read_on_the_test_data():
    """Means there: 0.4, 0.1, 0.4: round 1, the first of equals; client 1's own best is round 3."""
    held = result(alice=1, accuracy_validation=[0.6, 0.2, 0.1, 0.1, 0.5, 0.3])
    assert held.value(protocol="best on validation") == pytest.approx(0.5)
    assert held.value("loss", "best on validation") == 3.0
    assert held.value(protocol="best on validation", over="alice") == 0.9
    assert held.value(protocol="best on validation", over="worst") == 0.2


def test_rounds_of_equal_means_are_equal_whatever_their_last_bits():
    """The same four shares of 667, in another order, have a mean that is higher by its last bit."""
    counts = [383, 438, 626, 554, 625, 384, 554, 438]
    frame = {"round": [1] * 4 + [2] * 4, "client": [*range(4)] * 2, "loss": 1.0}
    rounds = pd.DataFrame(frame | {"accuracy": [count / 667 for count in counts]})
    read = Result({"method": {"name": "m"}, "alice": None}, rounds, None, None, 1)
    by_round = rounds.pivot(index="round", columns="client", values="accuracy")
    assert by_round.mean(axis=1).idxmax() == 2
    assert read.value(over="worst") == 383 / 667


def test_the_model_after_the_clients_own_epochs_is_read_from_its_own_columns():
    trained = result(accuracy_trained=[0.1, 0.3, 0.5, 0.5, 0.9, 0.9])
    assert trained.value(model="trained") == 0.9
    assert trained.by_client(model="trained", protocol="last").to_dict() == {0: 0.9, 1: 0.9}
    assert trained.by_client().to_dict() == {0: 0.8, 1: 0.6}


def test_a_round_without_one_clients_number_has_no_mean_and_none_before_it_counts_as_the_last():
    """Losses after own epochs: client 0's is NaN in the last round; means 2 and 1.5 before."""
    lost = result(alice=1, loss_trained=[1.0, 3.0, 1.0, 2.0, math.nan, 4.0])
    for over in ("clients", "worst", "p10"):
        assert math.isnan(lost.value("loss", "last", over, "trained"))
    assert lost.value("loss", "last", "alice", "trained") == 4.0
    assert lost.value("loss", "best", model="trained") == 1.5
    assert lost.by_client("loss", "last", "trained").isna().to_dict() == {0: True, 1: False}
    lost = result(accuracy=[0.2, 0.4, 0.6, 0.8, math.nan, 0.9])
    assert lost.accuracy_by_round().isna().to_dict() == {1: False, 2: False, 3: True}
    assert math.isnan(lost.last_accuracy) and lost.best_accuracy == pytest.approx(0.7)


def test_what_a_run_does_not_have_is_not_a_number():
    empty = result()
    empty.metrics = empty.metrics[:0]
    for none in (
        result().value(over="alice"),
        result().value(model="trained"),
        result().value("batch_accuracy", over="worst"),
        *(empty.value(over=over) for over in ("clients", "alice", "worst", "p10")),
    ):
        assert math.isnan(none)
    assert len(empty.by_client()) == 0


def test_an_unknown_reading_is_refused():
    for wrong, sentence in (
        ({"protocol": "final"}, "protocol 'final' is not one of best, last, best on validation"),
        ({"over": "bob"}, "over 'bob' is not one of clients, alice, worst, p10"),
        ({"model": "own"}, "model 'own' is not one of served, trained"),
    ):
        refused(f"^{sentence}$", result().value, **wrong)


def test_seeds_are_gathered_by_the_protocol_a_table_names():
    """In the best round the worst client's 60.  A diverged run has no value."""
    runs = [result(), result(), result(diverged=2)]
    for seed, run in enumerate(runs, 1):
        run.config["seed"] = seed
    worst = Results(tuple(runs)).summary(over="worst")
    assert worst.values.to_dict() == pytest.approx({1: 60, 2: 60}) and math.isnan(worst.mean)
    assert worst.diverged == {3: 2} and math.isnan(worst.std)
    none = Results(tuple(runs[:2])).summary(model="trained")
    assert math.isnan(none.mean) and math.isnan(none.std) and none.status == "ran"


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 3, 3)], ids=str)
def test_with_each_client_as_alice_a_row_of_weights_is_what_her_own_run_gave_her(shape):
    frame = pd.DataFrame({"round": [1], "client": [0], "accuracy": [0.5], "loss": [1.0]})
    runs, rounds = np.random.default_rng(0).random((3, 2, *shape)), np.array([1, 9])
    each = [Result({}, frame, of, None, 1.0, weights_rounds=rounds) for of in runs]
    read = of_each_alice(each)
    assert read.weights.shape == (2, *shape[:-2], 3, 3) and read.weights_rounds.tolist() == [1, 9]
    for client, own in enumerate(runs):
        hers = own if len(shape) == 1 else own[..., client, :]
        np.testing.assert_array_equal(read.weights[..., client, :], hers)


def test_shares_of_an_average_sum_to_one():
    found = shares(np.array([[1.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_with_each_client_as_alice_who_was_lost_first_is_named():
    frame = pd.DataFrame({"round": [1], "client": [0], "accuracy": [0.5], "loss": [1.0]})
    lost = [Result({}, frame, None, r, 1.0, non_finite={2: r}) for r in (3, 5)]
    assert of_each_alice(lost).lost_clients == " (client 2)"
    two = pd.DataFrame({"round": [1, 2], "client": 1, "accuracy": 0.5, "loss": 1.0})
    both = [Result({}, frame, None, 2, 1.0), Result({}, two, None, None, 1.0)]
    assert of_each_alice(both).metrics["round"].tolist() == [1, 1], "of round 2 one is missing"
    assert "alice in turn" not in of_each_alice(lost).config
    drawn = [Result({"schedule": {"participation": 0.3}}, frame, None, None, 1.0)]
    assert of_each_alice(drawn).config["alice in turn"]


def test_a_client_is_gone_from_the_round_after_its_last_weight_and_alice_alone_from_the_last_ones():
    """Client 1 comes back in round 2 and is gone from round 3, client 2 from round 4."""
    others = [[0.0, 0.3, 0.1], [0.2, 0.2, 0.1], [0.0, 0.1, 0.1], [0.0, 0.0, 0.1]]
    weights = np.array([[1, *row] for row in others])
    assert vanishing(weights)[[1, 2]].tolist() == [3, 4] and math.isnan(vanishing(weights)[3])
    assert alone_from(weights[:, :3]) == 4 and math.isnan(alone_from(weights))
