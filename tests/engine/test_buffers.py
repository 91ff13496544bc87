"""A network's buffers are rows of the client that trains; unused parameters stay."""

import pytest
import torch
from torch import nn

from pfl_lib import BadInput, Federation, Schedule
from pfl_lib.rows import copies, sgd
from tests.common import refused

OWN = [{"engine": "loop"}, {"engine": "loop", "threads": 2}, {"engine": "vmap"}]
ENGINES = pytest.mark.parametrize("own", OWN, ids=["loop", "two threads", "vmap"])


class Centred(nn.Module):
    """Subtracts a running mean of the inputs and scales them; `keep` says how the mean is kept."""

    def __init__(self, keep) -> None:
        super().__init__()
        self.keep = keep
        self.fc = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("order", torch.tensor([1, 0]))

    def forward(self, x):
        if self.training:
            self.keep(self, x.mean(0).detach())
        return self.fc((x - self.mean)[..., self.order])


def in_place(network: Centred, m: torch.Tensor) -> None:
    network.mean.mul_(0.9).add_(0.1 * m)


def replaced(network: Centred, m: torch.Tensor) -> None:
    network.mean = 0.9 * network.mean + 0.1 * m


def replaced_later(network: Centred, m: torch.Tensor) -> None:
    """From the third batch on, which no check at the start can see."""
    network.passes = getattr(network, "passes", 0) + 1
    (replaced if network.passes > 3 else in_place)(network, m)


def counted(network: Centred, m: torch.Tensor) -> None:
    network.calls += 1


def counted_anew(network: Centred, m: torch.Tensor) -> None:
    network.calls = network.calls + 1


def made(network: Centred, m: torch.Tensor) -> None:
    network.register_buffer("last", m)


def with_gradient(network: Centred, m: torch.Tensor) -> None:
    network.mean.mul_(network.fc.bias.sum())


def data() -> list[tuple[torch.Tensor, torch.Tensor]]:
    x = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return [(x[client] + 3 * client, torch.arange(8) % 2) for client in range(3)]


def federation(network: nn.Module, batch_size: int = 4, **own) -> Federation:
    schedule = Schedule(1, batch_size=batch_size, order="fixed", weight_decay=0.5)
    return Federation.from_arrays(
        data(), data(), network, schedule, device="cpu", dtype=torch.float64, **own
    )


@ENGINES
def test_statistics_written_in_place_are_each_clients_own(own):
    """Two batches of four: mean <- .9 (.1 m1) + .1 m2 = .09 m1 + .1 m2, from zero."""
    fed = federation(Centred(in_place), **own)
    out, _ = fed.train(copies(fed.initial(), 3), 1, range(3))
    expected = [0.09 * x[:4].mean(0) + 0.1 * x[4:].mean(0) for x, _ in data()]
    torch.testing.assert_close(out["statistics"], torch.stack(expected), rtol=1e-12, atol=1e-12)


@ENGINES
@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        (replaced, "the model's forward replaces buffer mean by another tensor, .*copy_"),
        (counted, "the model's forward writes into buffer calls of whole numbers"),
        (counted_anew, "the model's forward replaces buffer calls by another tensor"),
        (made, "the model makes buffer last in training"),
        (with_gradient, "the model's forward writes a value with a gradient into buffer mean"),
    ],
)
def test_buffers_that_would_carry_statistics_from_client_to_client_are_refused(keep, sentence, own):
    refused(f"^{sentence}", federation, Centred(keep), **own)


@ENGINES
def test_a_buffer_that_is_replaced_at_a_later_batch_is_refused_then(own):
    fed = federation(Centred(replaced_later), batch_size=1, **own)
    with pytest.raises(BadInput, match=r"^the model's forward replaces buffer mean by another"):
        fed.train(copies(fed.initial(), 3), 1, range(3))


def test_a_nested_buffer_is_named_in_full():
    refused(r"buffer 0\.mean by .*: write self\.mean", federation, nn.Sequential(Centred(replaced)))


class Spare(nn.Module):
    """A layer that no forward pass reaches, before one that each does."""

    def __init__(self) -> None:
        super().__init__()
        self.spare, self.fc = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)


@ENGINES
def test_a_parameter_that_the_forward_does_not_use_has_a_gradient_of_zero(own):
    """Weight decay .5 and two steps of .1 leave it (1 - .05)^2 of itself."""
    fed, seen = federation(Spare(), **own), []

    def step(rows, gradient, batch) -> None:
        seen.append(gradient(rows["theta"], batch))
        sgd(rows, gradient, batch)

    out, _ = fed.train(copies(fed.initial(), 3), 1, range(3), step)
    layers = (fed.layout.layer(name) for name in ("spare", "fc"))
    spare, fc = (slice(layer.start, layer.stop) for layer in layers)
    assert all(not g[..., spare].any() and g[..., fc].all() for g in seen)
    expected = (copies(fed.initial(), 3)["theta"] * 0.95**2)[:, spare]
    torch.testing.assert_close(out["theta"][:, spare], expected, rtol=1e-12, atol=0)


class Cut(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach()


@ENGINES
def test_scores_that_do_not_depend_on_parameters_are_refused(own):
    refused("^the model's scores do not depend on its parameters", federation, Cut(2, 2), **own)
