"""The papers' networks have the papers' numbers of parameters, for both engines."""

import pytest
import torch
from torch import nn

from pfl_lib import Schedule, models
from pfl_lib.engine import LOSSES, Pool
from pfl_lib.engine.layout import Layout
from pfl_lib.federation import clients as client_data
from pfl_lib.federation.federation import Federation
from pfl_lib.models import convpool
from pfl_lib.rows import copies
from tests.common import refused

# The specification's table of networks (section 4); the papers and their authors' code behind it.
COUNTS = [
    *(("lenet5", (1, 28, 28), 10, 61_706), ("lenet5-relu", (1, 28, 28), 10, 61_706)),
    *(("lenet5-relu-groupnorm", (1, 28, 28), 10, 61_750), ("tf_cnn", (3, 32, 32), 10, 122_570)),
    *(("tf_cnn", (3, 32, 32), 100, 128_420), ("tf_cnn", (1, 28, 28), 10, 93_322)),
    *(("tf_cnn", (1, 32, 32), 10, 121_994), ("mcmahan_cnn", (1, 28, 28), 10, 1_663_370)),
    *(("pfedla_cnn", (3, 32, 32), 10, 121_182), ("pfedla_cnn", (3, 32, 32), 100, 128_832)),
    *(("pfedla_cnn", (1, 28, 28), 10, 85_822), ("pfedla_cnn-norm", (3, 32, 32), 10, 121_278)),
    ("dla", (3, 32, 32), 10, 16_291_386),
]


@pytest.mark.parametrize(("name", "shape", "classes", "count"), COUNTS)
def test_a_network_has_the_papers_number_of_parameters(name, shape, classes, count):
    with torch.device("meta"):
        module = models.build(name, shape, classes)
        logits = module(torch.empty(2, *shape)) if "lenet5" not in name else torch.empty(2, classes)
    assert Layout.of(module).P == count
    assert (Layout.of(module).S > 0) == (name in models.WITH_STATISTICS)
    assert logits.shape == (2, classes)


def test_every_network_of_pictures_is_counted_above_and_a_linear_one_has_no_statistics():
    assert {name for name, *_ in COUNTS} == {n for n in models.MODELS if "linear" not in n}
    assert not any("linear" in name for name in models.WITH_STATISTICS)


def test_an_input_that_does_not_fit_is_refused():
    for name, shape, message in (
        ("tf_cnn", (3, 16, 16), r"^model tf_cnn takes images of 18x18 pixels or more, not 3x16x16"),
        ("pfedla_cnn", (9,), r"^model pfedla_cnn takes images of 16x16 pixels or more, not 9"),
        ("dla", (1, 28, 28), "^model dla takes images of 8x8 pixels or more, in multiples of 8"),
        ("lenet5", (3, 32, 32), "^model lenet5 takes 1x28x28 images, not 3x32x32; choose another"),
        ("lenet5", (9,), "^model lenet5 takes 1x28x28 images, not 9; choose model linear$"),
    ):
        refused(message, models.build, name, shape, 10)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("lenet5-relu-groupnorm", (1, 28, 28)), ("tf_cnn", (3, 21, 21))),
        *(("mcmahan_cnn", (3, 4, 4)), ("pfedla_cnn", (3, 16, 16))),
        ("pfedla_cnn-norm", (3, 16, 16)),
    ],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_loop_and_vmap_train_a_network_alike(name, shape, loss, monkeypatch):
    x = torch.randn(2, 7, *shape, generator=torch.Generator().manual_seed(1))
    pairs = [(x[k], (3 * torch.arange(7) + k) % 10) for k in range(2)]
    held = client_data.from_arrays(pairs, pairs, classes=10)
    schedule = Schedule(rounds=1, batch_size=4, lr=0.1, momentum=0.9)

    def trained(engine: str) -> torch.Tensor:
        own = {"device": "cpu", "engine": engine, "dtype": torch.float64, "loss": loss}
        fed = Federation(held, lambda: models.build(name, shape, 10), schedule, **own)
        return fed.train(copies(fed.initial(), 2), 1, [0, 1])[0]["theta"]

    loop = trained("loop")
    torch.testing.assert_close(loop, trained("vmap"), rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(convpool, "_by_hand", lambda x, conv: True)  # as on a GPU
    torch.testing.assert_close(loop, trained("vmap"), rtol=1e-12, atol=1e-12)
    assert not torch.equal(loop[0], loop[1])


@pytest.mark.parametrize("channels", [1, 3])
def test_batches_of_images_come_channels_last_with_the_values_unchanged(channels):
    random = torch.Generator().manual_seed(2)
    x = torch.randint(256, (20, channels, 6, 6), dtype=torch.uint8, generator=random)
    scale, shift = torch.rand(channels, 1, 1) + 0.5, torch.rand(channels, 1, 1)
    index = torch.tensor([3, 0, 19, 3])
    batch = Pool(x, scale, shift).inputs(index)
    assert batch.stride() == (36 * channels, 1, 6 * channels, channels)
    assert torch.equal(batch, x[index].float() * scale + shift)


@pytest.mark.parametrize(("activation", "unit"), [("tanh", nn.Tanh), ("relu", nn.ReLU)])
def test_lenet5_is_the_textbook_network(activation, unit):
    """Convolution, activation, pooling, twice; then 400-120-84-10."""
    first = (nn.Conv2d(1, 6, 5, padding=2), unit(), nn.MaxPool2d(2))
    second = (nn.Conv2d(6, 16, 5), unit(), nn.MaxPool2d(2), nn.Flatten())
    full = (nn.Linear(400, 120), unit(), nn.Linear(120, 84), unit(), nn.Linear(84, 10))
    layers = (*first, *second, *full)
    textbook, ours = nn.Sequential(*layers).double(), models.LeNet5(activation=activation).double()
    nn.utils.vector_to_parameters(
        nn.utils.parameters_to_vector(ours.parameters()), textbook.parameters()
    )
    x = torch.randn(5, 1, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), textbook(x), rtol=1e-12, atol=1e-12)


def test_lenet5_with_groupnorm_normalises_each_picture_alone_after_each_convolution():
    """Each group of channels of a picture: mean 0, variance 1, then ReLU and pooling."""
    ours = models.build("lenet5-relu-groupnorm", (1, 28, 28), 10).double()
    x = torch.randn(3, 1, 28, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def normed(y: torch.Tensor) -> torch.Tensor:
        groups = y.reshape(len(y), 2, -1)
        variance = groups.var(2, correction=0, keepdim=True)
        return ((groups - groups.mean(2, keepdim=True)) / (variance + 1e-5).sqrt()).reshape(y.shape)

    pool = nn.functional.max_pool2d
    hidden = pool(normed(ours.conv2(pool(normed(ours.conv1(x)).relu(), 2))).relu(), 2)
    expected = ours.fc3(ours.fc2(ours.fc1(hidden.flatten(1)).relu()).relu())
    torch.testing.assert_close(ours(x), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours(x[:1]), ours(x)[:1], rtol=1e-12, atol=1e-12)


def test_lenet5_has_tanh_units_unless_relu_is_asked_for():
    made = models.LeNet5(), *(models.build(of, (1, 28, 28), 10) for of in ("lenet5", "lenet5-relu"))
    assert [network.activation for network in made] == ["tanh", "tanh", "relu"]
    refused("is not one of tanh, relu$", models.LeNet5, activation="gelu")
