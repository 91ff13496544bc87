"""A network's buffers are rows of the client that trains; unused parameters stay."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from pfl_lib import BadInput, Federation, Schedule, run
from pfl_lib.engine.private import DPSGD
from pfl_lib.experiments.spec import FederationRun
from pfl_lib.federation import model_checks
from pfl_lib.federation.batches import batches
from pfl_lib.methods import Local
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
        (lambda net, _: net.calls.add_(1), "the model's forward writes into buffer calls of whole"),
        (lambda net, _: setattr(net, "calls", net.calls + 1), "the .* replaces buffer calls by an"),
        (lambda net, m: net.register_buffer("last", m), "the model makes buffer last in training"),
        (lambda net, _: net.mean.mul_(net.fc.bias.sum()), "the .* writes a value with a gradient"),
    ],
)
def test_buffers_that_would_carry_statistics_from_client_to_client_are_refused(keep, sentence, own):
    refused(f"^{sentence}", federation, Centred(keep), **own)


@ENGINES
def test_a_buffer_that_is_replaced_at_a_later_batch_is_refused_then(own):
    fed = federation(Centred(replaced_later), batch_size=1, **own)
    with pytest.raises(BadInput, match=r"^the model's forward replaces buffer mean by another"):
        fed.train(copies(fed.initial(), 3), 1, range(3))


def test_a_buffer_may_be_written_after_another_was_read_for_the_gradient():
    """Autograd keeps BatchNorm's, while spectral_norm writes its vectors."""

    def network() -> nn.Module:
        last = spectral_norm(nn.Linear(8, 2))
        return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), last)

    made = torch.Generator().manual_seed(1)
    x = [(torch.randn(20, 5, generator=made), torch.arange(20) % 2) for _ in range(2)]
    fed = Federation.from_arrays(x, x, network, Schedule(1, batch_size=5, lr=0.1), engine="loop")
    out, _ = fed.train(copies(fed.initial(), 2), 1, [0, 1])
    plain = model_checks.make_module(network, 1).train()
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.1)
    for batch in batches(fed.schedule, 1, "batches", 1, 0, 20):
        optimiser.zero_grad()
        nn.functional.cross_entropy(plain(x[0][0][batch]), x[0][1][batch]).backward()
        optimiser.step()
    rows = fed.layout.rows(plain)
    torch.testing.assert_close({name: row[0] for name, row in out.items()}, rows)


def test_a_nested_buffer_is_named_in_full():
    refused(r"buffer 0\.mean by .*: write self\.mean", federation, nn.Sequential(Centred(replaced)))


class Masked(nn.Module):
    """Reads buffers that no training changes, one of them infinite and one empty."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("keep", torch.tensor([1 / 3, 0.0]))
        self.register_buffer("far", torch.tensor([[-torch.inf]]))
        self.register_buffer("none", torch.zeros(0))

    def forward(self, x):
        return self.fc(x * (self.keep == 1 / 3)) + self.far.exp() + self.none.sum()


@ENGINES
def test_a_buffer_that_training_leaves_as_it_is_is_in_no_row_and_keeps_its_bits(own):
    fed, network = federation(Masked(), **own), Masked()
    assert fed.layout.S == 0 and [layer.name for layer in fed.layout.layers] == ["fc"]
    result = run("fedavg", federation=fed)
    assert result.diverged is None
    for name, buffer in network.named_buffers():
        assert torch.equal(result.model[name][0], buffer.double())


@ENGINES
def test_everybody_starts_from_the_model_as_it_was_made(own):
    """Also where evaluation writes into a buffer."""

    class Seen(Centred):
        def forward(self, x):
            self.keep(self, x.mean(0).detach())
            return self.fc(x - self.mean)

    network = Seen(in_place)
    fed = federation(network, **own)
    assert not fed.initial()["statistics"].any() and not network.mean.any()
    assert torch.equal(
        fed.initial()["theta"], nn.utils.parameters_to_vector(network.parameters()).double()
    )


def test_a_named_federation_is_known_by_its_constant_buffers_too():
    made = [Masked(), Masked(), Masked()]
    made[2].keep[0] = 2
    for network in made:
        torch.nn.init.ones_(network.fc.weight), torch.nn.init.ones_(network.fc.bias)
    keys = [FederationRun(Local(), federation(one, name="own")).key for one in made]
    assert keys[0] == keys[1] != keys[2]


def test_dp_sgd_takes_a_network_with_a_constant_buffer():
    schedule = Schedule(1, batch_size=4, private=DPSGD(noise=0.0, max_norm=1.0))
    settings = {"device": "cpu", "dtype": torch.float64}
    Federation.from_arrays(data(), data(), Masked(), schedule, **settings)
    with pytest.raises(BadInput, match="^DP-SGD clips each example's own gradient"):
        Federation.from_arrays(data(), data(), Centred(in_place), schedule, **settings)


@ENGINES
def test_a_buffer_that_the_first_batch_left_as_it_was_may_not_change_later(own):
    def later(network: Centred, m: torch.Tensor) -> None:
        network.passes = getattr(network, "passes", 0) + 1
        if network.passes > 3:
            network.mean.add_(1.0)

    fed = federation(Centred(later), batch_size=1, **own)
    with pytest.raises(
        (BadInput, RuntimeError), match="buffer mean that no client|mutate a captured"
    ):
        fed.train(copies(fed.initial(), 3), 1, range(3))


def clamped(network: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return network.weight.clamp_(-0.1, 0.1)


def renormed(network: nn.Module) -> torch.Tensor:
    network.weight.data = torch.renorm(network.weight.data, 2, 0, 0.1)
    return network.weight


def remembered(network: nn.Module) -> torch.Tensor:
    network.last = 2 * getattr(network, "last", 1)
    return network.weight * network.last


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (clamped, "the model's forward writes into its parameters"),
        (renormed, "the model's forward writes into its parameters"),
        (lambda net: net.weight.data.clamp_(-0.1, 0.1), "the model's forward writes into its par"),
        (remembered, "the model gives other scores when it is given a batch again"),
        (lambda net: net.weight * random.random(), "the model gives other scores when it is given"),
        (
            lambda net: net.weight * np.random.rand(),  # noqa: NPY002
            "the model draws random numbers in training",
        ),
    ],
)
def test_a_forward_that_is_no_function_of_parameters_buffers_and_batch_is_refused(weight, sentence):
    class Odd(nn.Linear):
        def forward(self, x):
            return nn.functional.linear(x, weight(self), self.bias)

    refused(f"^{sentence}", federation, Odd(2, 2))


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


class Listed(nn.Linear):
    """With a layer in a plain list, which no optimiser would see."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.further = [nn.Linear(2, 2, dtype=torch.float64)]

    def forward(self, x):
        return super().forward(self.further[0](x))


@ENGINES
def test_layers_in_a_plain_list_are_refused(own):
    told = r"^the model's scores depend on a parameter of shape \(2,( 2)?\) that is none of its own"
    refused(told, federation, Listed(), **own)
