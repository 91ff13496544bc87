"""The linear model: its shape, its three starts, and where the authors' start comes from."""

import math

import numpy as np
import pytest
import torch
from scipy.special import erfinv

from pfl_lib import models
from pfl_lib.engine import LOSSES
from pfl_lib.models import linear
from tests.common import refused


def test_it_is_one_linear_map_of_the_flattened_input():
    module = models.build("linear", (1, 28, 28), 10)
    assert [tuple(p.shape) for p in module.parameters()] == [(10, 784), (10,)]
    x = torch.rand(3, 1, 28, 28)
    assert torch.allclose(module(x), x.flatten(1) @ module.linear.weight.T)


def test_haikus_start_is_a_normal_draw_cut_at_two_standard_deviations():
    torch.manual_seed(0)
    weight = models.build("linear", (10_000,), 10).linear.weight.detach() * 100
    assert weight.abs().max() <= 2
    # A standard normal cut at +-2 has variance 1 - 2 * 2 * phi(2) / (2 Phi(2) - 1) = 0.7737;
    # 100,000 draws.
    assert weight.var().item() == pytest.approx(0.7737, abs=0.01) and abs(weight.mean()) < 0.01


def test_biases_start_at_zero_and_the_authors_start_is_always_the_same():
    names = ("linear", "linear-zero", "linear-authors")
    _, zero, authors = made = [models.build(name, (9,), 2).linear for name in names]
    assert not any(of.bias.any() for of in made) and not zero.weight.any()
    assert torch.equal(authors.weight, torch.tensor(linear.AUTHORS).T)
    refused("9 inputs and 2 classes, not 10 and 2", models.build, "linear-authors", (10,), 2)


def threefry(key: tuple[int, int], count: np.ndarray) -> np.ndarray:
    """JAX's Threefry-2x32 (Salmon et al. 2011), 20 rounds, of an even number of counters."""
    schedule = [np.uint32(word) for word in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    left, right = np.split(count.astype(np.uint32), 2)
    left, right = left + schedule[0], right + schedule[1]
    for turn in range(5):
        for shift in ((13, 15, 26, 6), (17, 29, 16, 24))[turn % 2]:
            left = left + right
            right = left ^ ((right << np.uint32(shift)) | (right >> np.uint32(32 - shift)))
        left = left + schedule[(turn + 1) % 3]
        right = right + schedule[(turn + 2) % 3] + np.uint32(turn + 1)
    return np.concatenate([left, right])


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_the_authors_start_is_haikus_draw_from_jax_key_278():
    """Truncated normal with std 1/3 from the second key that PRNGKey(278) splits into."""
    vector = [hex(word) for word in threefry((0, 0), np.zeros(2))]
    assert vector == ["0x6b200159", "0x99ba4efe"]  # Random123's
    second_key = threefry((0, 278), np.arange(4)).reshape(2, 2)[1]
    words = threefry((int(second_key[0]), int(second_key[1])), np.arange(18))
    uniform = ((words >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - 1
    edge = math.erf(math.sqrt(2))  # two standard deviations
    normal = math.sqrt(2) * erfinv(edge * (2 * uniform.astype(float) - 1))
    assert np.allclose(normal.reshape(9, 2) / 3, linear.AUTHORS, atol=1e-7)


def test_the_authors_loss_is_the_mean_over_both_outputs():
    logits, labels = torch.tensor([[1.0, -1.0], [0.5, 2.0]]), torch.tensor([0, 1])
    one_hot = torch.nn.functional.one_hot(labels, 2)
    expected = -(one_hot * logits.log_softmax(-1)).mean()
    assert torch.allclose(LOSSES["half_cross_entropy"](logits, labels).mean(), expected)
