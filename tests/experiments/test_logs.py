"""Weights and matrices that a method logs: three shapes, in chosen rounds, never too large."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pfl_lib import Federation, Schedule
from pfl_lib.experiments.logs import MOST_NUMBERS, kept_rounds
from pfl_lib.experiments.training import Run
from pfl_lib.methods import FedAvg
from pfl_lib.results.result import Result
from tests.common import refusal, refused
from tests.experiments.common import finished


def federation(rounds: int, participation: float = 1.0) -> Federation:
    data = [(torch.eye(3), torch.arange(3))] * 4
    schedule = Schedule(rounds, participation=participation)
    return Federation.from_arrays(data, data, lambda: torch.nn.Linear(3, 3), schedule, device="cpu")


def told(rounds: int = 3, every: int = 1, participation: float = 1.0, **log) -> Result:
    """A run of a method that logs what these functions give of a round's number."""

    class Tells(FedAvg):
        def round(self, fed, state, r):
            return state, {name: value(r) for name, value in log.items()}

    fed = federation(rounds, participation)
    return finished(Run(Tells(), fed, evaluate_every=every)).result({})


def full(*shape: int) -> Callable[[int], torch.Tensor]:
    """Of this shape, each number the round's."""
    return lambda r: torch.full(shape, float(r))


@pytest.mark.parametrize("shape", [(4,), (4, 4), (3, 4, 4)])
def test_weights_of_all_three_shapes_are_kept_with_their_rounds(shape):
    kept = told(5, weights=full(*shape))
    assert kept.weights.shape == (5, *shape) and kept.weights_rounds.tolist() == [1, 2, 3, 4, 5]
    assert kept.weights.dtype == (np.float64 if len(shape) == 1 else np.float32)
    assert [set(weights.ravel()) for weights in kept.weights] == [{1}, {2}, {3}, {4}, {5}]


def test_of_many_rounds_weights_for_clients_are_all_kept_and_matrices_of_fifty():
    also = {"matrices": lambda r: {"affinity": full(4, 4)(-r)}}
    vectors, matrices = (told(120, 120, weights=full(*shape), **also) for shape in ((4,), (4, 4)))
    assert vectors.weights_rounds.tolist() == list(range(1, 121))
    rounds = matrices.weights_rounds
    assert len(rounds) == 50 and (rounds[0], rounds[-1]) == (1, 120)
    assert set(np.diff(rounds)) == {2, 3}
    assert matrices.weights[:, 0, 0].tolist() == rounds.tolist()
    for kept in (vectors, matrices):
        assert kept.matrices_rounds.tolist() == rounds.tolist()
        assert kept.matrices["affinity"][:, 1, 2].tolist() == (-rounds).tolist()
    assert "affinity" not in matrices.metrics and "weights" not in matrices.metrics


def test_rounds_kept_are_evenly_spaced_and_end_with_the_last():
    for rounds, numbers, kept in (
        (1, 16, [1]),
        (2, 10**9, [1, 2]),
        (20, 15 * 15, list(range(1, 21))),
        (100, MOST_NUMBERS, [1, 100]),
        (9, MOST_NUMBERS // 3, [1, 5, 9]),
        # A hundred clients and seven layers
        (20, 70_000, [1, 4, 7, 10, 14, 17, 20]),
    ):
        assert kept_rounds(rounds, numbers) == kept


def test_a_matrix_of_the_participants_leaves_the_others_their_own_models():
    for r, matrix in enumerate(told(2, participation=0.5, weights=full(2, 2)).weights, 1):
        there = federation(2, participation=0.5).participants(r)
        assert (matrix[np.ix_(there, there)] == r).all()
        away = [i for i in range(4) if i not in there]
        assert (matrix[away] == np.eye(4)[away]).all() and not matrix[np.ix_(there, away)].any()
    assert refusal(told, 2, participation=0.5, weights=full(3, 3)) == (
        "method 'fedavg': its round gives weights [3, 3] in its log; it should give [4], one for"
        " each client, or [2], one for each that took part, or [4, 4], a row for each client's"
        " model, or [layers, 4, 4]"
    )


def test_weights_of_another_shape_or_that_change_it_are_refused_in_one_line():
    for shape in ((4, 3), (0, 4, 4), (2, 2, 4, 4), ()):
        refused(r"gives weights \[.*\] in its log; it should give", told, 1, weights=full(*shape))
    other = {"weights": lambda r: torch.ones((2, 4, 4) if r == 2 else (4, 4))}
    refused(r"weights \[2, 4, 4\] in its log.* \[4, 4\], as in", told, 3, **other)


REAL = "it should give a tensor of real numbers"
TENSORS = "it should give a dict of tensors by name"
A_NUMBER = "it should give a number, or [4], one for each client"


def test_weights_of_those_that_took_part_are_put_in_their_places():
    kept = told(5, participation=0.5, weights=lambda r: torch.tensor([0.25, 0.75])).weights
    for r, row in enumerate(kept, 1):
        there = federation(5, participation=0.5).participants(r)
        assert row[there].tolist() == [0.25, 0.75] and row.sum() == 1


def test_bytes_are_four_for_each_number_of_the_models_sent_in_all_rounds_where_a_method_tells():
    """12 parameters; rounds 1, 2, 3 send 1, 2, 3 models up and 4 down each: 4 x 12 x 6 and 4 x 12 x
    12 bytes, also where only the last round is evaluated.
    """
    for every in (1, 3):
        sent = told(every=every, models_up=lambda r: r, models_down=lambda r: 4)
        assert sent.bytes == (288.0, 576.0) and sent.value("bytes") == 864.0
    assert told(rounds=1, models_up=lambda r: 0, models_down=lambda r: 0).bytes == (0.0, 0.0)
    for unknown in (told(drift=lambda r: 1.0), told(models_up=lambda r: 3)):
        assert unknown.bytes is None and np.isnan(unknown.value("bytes"))


def test_pythons_own_numbers_keep_all_their_digits():
    run = told(rate=lambda r: 0.1, each=lambda r: [0.1] * 4, bytes_up=lambda r: 123456789.0)
    assert (run.metrics[["rate", "each"]] == 0.1).all(axis=None)
    weighted = told(weights=lambda r: [0.1, 0.2, 0.3, 0.4]).weights
    assert weighted[-1].tolist() == [0.1, 0.2, 0.3, 0.4]


def test_bytes_that_a_method_counts_itself_go_before_its_models():
    own = torch.tensor([10.0, 20.0, 0.0, 5.0])
    sent = told(bytes_up=lambda r: own * r, bytes_down=lambda r: 7, models_up=lambda r: 99)
    assert sent.bytes == (35.0 * 6, 21.0)
    by_client = sent.metrics.query("round == 2")
    assert by_client["bytes_up"].tolist() == [20.0, 40.0, 0.0, 10.0]


@pytest.mark.parametrize("kind", [torch.Tensor.double, torch.Tensor.float, torch.Tensor.numpy])
@pytest.mark.parametrize("shape", [(4,), (4, 4)])
def test_a_log_that_is_changed_in_place_keeps_the_numbers_of_each_round(kind, shape):
    held = kind(torch.zeros(shape))

    def counted(r):
        held[:] = r
        return held

    kept = told(weights=counted, matrices=lambda r: {"also": counted(r)})
    for rounds in (kept.weights, kept.matrices["also"]):
        assert [set(values.ravel()) for values in rounds] == [{1}, {2}, {3}]


def test_a_name_in_the_log_that_is_no_text_is_told_in_one_line():
    class Names(FedAvg):
        def round(self, fed, state, r):
            return state, {3: 1.0}

    told = "gives the name 3 in its log; it should give a text"
    refused(told, next, Run(Names(), federation(1)).rounds())


def test_a_log_that_holds_something_else_is_told_in_one_line():
    for name, value, sentence in (
        ("drift", torch.ones(4, 4), f"drift [4, 4] in its log; {A_NUMBER}"),
        ("drift", torch.ones(3), f"drift [3] in its log; {A_NUMBER}"),
        ("note", "good", f"note str in its log; {A_NUMBER}"),
        ("drift", 1j, f"complex drift in its log; {A_NUMBER}"),
        ("weights", "all", f"weights str in its log; {REAL}"),
        ("weights", torch.ones(4) * 1j, f"complex weights in its log; {REAL}"),
        ("weights", [1, 0, 0, float("nan")], "weights with NaN in its log; it should"),
        ("matrices", {"p": "all"}, f"p str in its log; {REAL}"),
        ("loss", 1.0, "loss in its log; it should give that another name: it is"),
        ("matrices", [1], f"matrices [1] in its log; {TENSORS}"),
        ("matrices", {"a b": torch.ones(2)}, f"matrices ['a b'] in its log; {TENSORS}"),
        ("matrices", {"p": torch.tensor(1.0)}, "the number p among the matrices of its log; it"),
    ):
        line = refusal(told, **{name: lambda r, value=value: value})
        assert line.startswith(f"method 'fedavg': its round gives {sentence}")
