"""The matrix algebra of rows: averages, copies, one step of SGD."""

import math

import pytest
import torch
from torch import Tensor

from pfl_lib.rows import Batch, average, copies, descend, finite_rows, model, sgd, uniform, velocity
from tests.common import refused


def matrix(values: list, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype)


def batch(lr: float = 0.1, momentum: float = 0.0, weight_decay: float = 0.0) -> Batch:
    return Batch(torch.zeros(1), torch.zeros(1), 0, lr, momentum, weight_decay)


def test_a_model_is_theta_and_statistics_and_nothing_more_and_copies_are_equal_rows():
    rows = {"theta": matrix([1]), "control": matrix([2]), "statistics": matrix([3])}
    assert model(rows).keys() == {"theta", "statistics"}
    rows = copies({"theta": matrix([1, 2]), "statistics": matrix([3]), "other": matrix([4])}, 3)
    assert rows["theta"].tolist() == [[1, 2]] * 3
    assert rows["statistics"].tolist() == [[3]] * 3
    assert "other" not in rows


def test_average_is_the_weighted_sum_of_models_by_hand():
    """1/4 (4, 0) + 3/4 (8, 4) = (7, 3); the second row of weights takes the first model alone."""
    rows = {"theta": matrix([[4, 0], [8, 4]]), "statistics": matrix([[0], [8]])}
    one = average(matrix([0.25, 0.75]), rows)
    assert one["theta"].tolist() == [7, 3] and one["statistics"].tolist() == [6]
    assert torch.equal(average([0.25, 0.75], rows)["theta"], one["theta"]), "of a list too"
    refused("weights .3. of 2 models: give each model one", average, [1 / 3] * 3, rows)
    many = average(matrix([[0.25, 0.75], [1, 0]]), rows)
    assert many["theta"].tolist() == [[7, 3], [4, 0]] and many["statistics"].tolist() == [[6], [0]]
    floats = average(uniform(2), {"theta": rows["theta"].float(), "statistics": torch.zeros(2, 0)})
    assert floats["theta"].dtype == torch.float32 and floats["statistics"].shape == (0,)


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
def test_a_model_of_weight_zero_does_not_count_even_where_it_is_not_finite(lost):
    """1/4 (4, 0) + 0 (NaN, 4) + 3/4 (8, 4) = (7, 3); above 0 the sum is not finite either."""
    theta = matrix([[4, 0], [lost, 4], [8, 4]])
    rows = {"theta": theta, "statistics": torch.zeros(3, 0)}
    assert average(matrix([0.25, 0, 0.75]), rows)["theta"].tolist() == [7, 3]
    many = average(matrix([[0.25, 0, 0.75], [0, 0.5, 0.5], [1, 0, 0]]), rows)["theta"]
    assert many[[0, 2]].tolist() == [[7, 3], [4, 0]]
    assert not many[1, 0].isfinite() and many[1, 1] == 4
    assert not average(matrix([0.25, 1e-9, 0.75]), rows)["theta"][0].isfinite()


def test_an_average_of_finite_models_has_the_bits_of_the_product():
    """Rows of weight 0 stay in the sum: leaving them out could change the order of additions."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(30, 1001, generator=generator)
    weights = torch.rand(30, generator=generator).double() * (torch.arange(30) % 3 > 0)
    assert torch.equal(
        average(weights, {"theta": theta, "statistics": theta[:, :0]})["theta"],
        weights.float() @ theta,
    )


def test_rows_are_finite_without_nan_and_infinity():
    theta = matrix([[1, 2], [math.nan, 1], [1, math.inf], [-math.inf, 1], [1e300, -1e300]])
    assert finite_rows(theta).tolist() == [True, False, False, False, True]
    assert finite_rows(torch.zeros(2, 0)).tolist() == [True, True]


@pytest.mark.parametrize("n", [1, 3, 10, 49])
def test_uniform_weights_sum_to_one(n):
    assert uniform(n).shape == (n,) and uniform(n).dtype == torch.float64
    assert uniform(n).sum().item() == pytest.approx(1, abs=1e-15)


def test_momentum_and_weight_decay_by_hand():
    """v <- v/2 + (g + theta/4), theta <- theta - v/2: from theta = 4, v = 2, g = 1: v = 1 + 2 = 3,
    theta = 2.5; then with g = 0: v = 1.5 + .625 = 2.125, theta = 1.4375."""
    rows, gradient = {"theta": matrix([4]), velocity("theta"): matrix([2])}, matrix([1])
    descend(rows, "theta", gradient, batch(0.5, 0.5, 0.25))
    assert gradient.item() == 1, "a step does not write into the gradient it is given"
    assert rows["theta"].item() == 2.5 and rows[velocity("theta")].item() == 3
    descend(rows, "theta", matrix([0]), batch(0.5, 0.5, 0.25))
    assert rows["theta"].item() == 1.4375 and rows[velocity("theta")].item() == 2.125


def test_sgd_asks_for_the_gradient_at_theta_and_lets_it_update_the_statistics():
    rows, asked = {"theta": matrix([1, 2]), "statistics": matrix([7])}, []

    def gradient(theta: Tensor, batch: Batch, statistics: Tensor | None = None) -> Tensor:
        asked.append((theta.tolist(), statistics))
        return 2 * theta

    sgd(rows, gradient, batch(lr=0.25))
    assert asked == [([1, 2], rows["statistics"])]
    assert rows["theta"].tolist() == [0.5, 1]
