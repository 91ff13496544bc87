"""The methods' formulas on numbers at random: shares, whatever the order and the scale."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_lib.methods.cfl import bipartition, similarities
from pfl_lib.methods.fedfomo import normalised, signed_weights
from pfl_lib.methods.fedfomo_ma import leave_one_out
from pfl_lib.methods.similarity import mean_entropy, temperature, weights_at
from pfl_lib.methods.weight_erosion import erode, relative_distances

few = settings(max_examples=30, deadline=None, derandomize=True)
SEEDS, SIZES = st.integers(0, 10**6), st.integers(3, 9)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@few
@given(SEEDS, SIZES)
def test_fedfomos_weights_are_shares_of_the_better_models_or_zero(seed, n):
    losses, distances = drawn(seed, n).abs(), drawn(seed + 1, n).abs() + 0.1
    reference = drawn(seed + 2, 1).abs().item()
    found = normalised(signed_weights(reference, losses, distances))
    assert (found >= 0).all() and ((found > 0) == (losses < reference)).all()
    assert found.sum().item() == pytest.approx(1 if found.any() else 0, abs=1e-12)
    falls = (reference - losses).clamp(min=0)  # a share is in proportion to fall over distance
    torch.testing.assert_close(found * (falls / distances).sum(), falls / distances)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    again = normalised(signed_weights(reference, losses[order], 7 * distances[order]))
    torch.testing.assert_close(again, found[order])


@few
@given(SIZES)
def test_averages_without_one_model_have_the_average_of_all_as_their_mean(m):
    weights = leave_one_out(m)
    torch.testing.assert_close(weights.sum(1), torch.ones(m + 1, dtype=torch.float64))
    torch.testing.assert_close(weights[1:].mean(0), weights[0])
    assert torch.equal(weights[1:] == 0, torch.eye(m, dtype=torch.bool))


@few
@given(SEEDS, SIZES, st.floats(0, 2), st.floats(0, 3))
def test_erosion_takes_more_from_farther_clients_and_nothing_from_alice(seed, n, p_d, p_s):
    updates, alice = drawn(seed, n, 5), seed % n
    distances = relative_distances(updates, alice)
    torch.testing.assert_close(relative_distances(1e6 * updates, alice), distances)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    moved = relative_distances(updates[order], order.index(alice))
    torch.testing.assert_close(moved, distances[order])
    before = torch.ones(n, dtype=torch.float64)
    after = erode(before, distances, p_d, p_s, passes=2)
    assert (0 <= after).all() and (after <= 1).all() and after[alice] == 1
    assert (after[distances.argsort()].diff() <= 0).all()
    assert (erode(before, distances, p_d, p_s, passes=3) <= after).all()


@few
@given(SEEDS, SIZES, st.floats(0.05, 0.99), st.sampled_from([1e-6, 1.0, 1e6]))
def test_weights_have_the_entropy_that_is_asked_for_whatever_the_scale(seed, n, entropy, scale):
    points = drawn(seed, n, 7)
    apart = scale * torch.cdist(points, points)[None]
    found = weights_at(apart, temperature(apart, entropy))
    assert mean_entropy(found) == pytest.approx(entropy, abs=1e-9)
    torch.testing.assert_close(found.sum(-1), torch.ones(1, n, dtype=torch.float64))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    again = weights_at(
        apart[:, order][..., order], temperature(apart[:, order][..., order], entropy)
    )
    torch.testing.assert_close(again, found[:, order][..., order], rtol=1e-6, atol=1e-9)


@few
@given(SEEDS, SIZES)
def test_two_parts_of_clients_do_not_depend_on_their_order(seed, n):
    updates = drawn(seed, n, 4)
    first, second = bipartition(similarities(updates))
    assert sorted(first + second) == list(range(n)) and 0 in first and second
    first, second = sorted(first), sorted(second)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    parts = bipartition(similarities(3 * updates[order]))  # cosines know no length
    assert sorted(sorted(order[k] for k in part) for part in parts) == [first, second]
    assert math.isclose(similarities(updates).diagonal().sum().item(), n)
