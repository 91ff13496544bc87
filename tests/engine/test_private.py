"""DP-SGD: clipping, noise, sampling; a real Opacus optimiser as the reference."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pfl_lib import DPSGD, Federation, Schedule
from pfl_lib.engine import LOSSES, private
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.private import by_example, by_layer, clip_factors
from pfl_lib.experiments.training import Run
from pfl_lib.federation.batches import batches
from pfl_lib.methods import FedAvg, FedFomo, Scaffold, Waffle, make_method
from pfl_lib.models.cnn import LeNet5, TFConvNet
from pfl_lib.randomness import generator
from pfl_lib.rows import copies
from tests.common import refused

PLAIN = DPSGD(noise=0, max_norm=math.inf, sampling="shuffled")
NOISY = DPSGD(noise=1.0, max_norm=0.7)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def examples(sizes) -> list[tuple[torch.Tensor, torch.Tensor]]:
    random, data = torch.Generator().manual_seed(3), []
    for n in sizes:
        x = torch.randn(n, 3, generator=random, dtype=torch.float64)
        data.append((x, torch.randint(2, (n,), generator=random)))
    return data


def flattened(network, dtype=torch.float64) -> tuple[FlatModule, torch.Tensor]:
    """A network's module, and its parameters [P]."""
    flat = FlatModule(network(), LOSSES["cross_entropy"], torch.device("cpu"), dtype)
    return flat, flat.layout.rows(flat.module)["theta"]


def federation(
    private, sizes=(7, 5, 9), model=net, engine="loop", threads=1, alice=None, **schedule
) -> Federation:
    data = examples(sizes)
    settings = {"batch_size": 2, "lr": 0.3, "local_epochs": 2, "private": private, **schedule}
    own = {"alice": alice, "engine": engine, "threads": threads, "dtype": torch.float64}
    schedule = Schedule(2, **settings)
    return Federation.from_arrays(data, data, model, schedule, validation=data, device="cpu", **own)


def trained(fed: Federation, clients=(0, 1, 2), round: int = 1) -> torch.Tensor:
    rows, _ = fed.train(copies(fed.initial(), len(clients)), round, clients)
    return rows["theta"]


@pytest.mark.parametrize("engine", ["loop", "vmap"])
@pytest.mark.parametrize("settings", [{}, {"momentum": 0.5, "weight_decay": 0.01}])
def test_no_noise_and_no_bound_give_the_plain_run(engine, settings):
    private = trained(federation(PLAIN, engine=engine, **settings))
    plain = trained(federation(None, engine=engine, **settings))
    torch.testing.assert_close(private, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_both_engines_train_to_the_same_numbers(sampling):
    private = replace(NOISY, sampling=sampling)
    loop, side = (trained(federation(private, engine=engine)) for engine in ("loop", "vmap"))
    torch.testing.assert_close(loop, side, rtol=1e-12, atol=1e-12)


class Twice(nn.Module):
    """A layer reached twice, and one whose weight a function takes."""

    def __init__(self, function: bool) -> None:
        super().__init__()
        self.one, self.two, self.function = nn.Linear(3, 3), nn.Linear(3, 2), function

    def forward(self, x):
        x = F.linear(self.two(x) @ self.two.weight, self.one.weight) if self.function else x
        return self.two(torch.relu_(self.one(torch.tanh(self.one(x)))))


def patches() -> nn.Module:
    """Strides, padding and dilation, no bias, and a linear layer over places."""
    first = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
    second = nn.Conv2d(4, 3, (2, 3), dilation=(2, 1), padding=(1, 0))
    last = (nn.Flatten(2), nn.Linear(8, 5), nn.Flatten(), nn.Linear(15, 4))
    return nn.Sequential(first, nn.ReLU(inplace=True), second, *last)


def convolution(*sizes, **settings):
    return lambda: nn.Sequential(nn.Conv2d(*sizes, **settings), nn.Flatten())


class Rows(nn.Module):
    """Places of an example as rows of their own, or first; or a row made of other examples'."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.one, self.two, self.how = nn.Linear(3, 4), nn.Linear(4, 2), how

    def forward(self, x):
        if self.how == "merged":
            return self.two(torch.tanh(self.one(x.reshape(-1, 3)))).view(len(x), -1, 2).sum(1)
        if self.how == "places first":
            return self.two(torch.tanh(self.one(x.transpose(0, 1)))).sum(0)
        return self.two(torch.tanh(self.one(x.mean(1)).detach())) + 0 * self.one(x.mean(1))[:, :2]


def tied() -> nn.Module:
    network = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    network[2].weight = network[0].weight
    return network


NETWORKS = {
    "places as rows": (lambda: Rows("merged"), (5, 3)),
    "places first": (lambda: Rows("places first"), (5, 3)),
    "reached twice, once without a gradient": (lambda: Rows("detached"), (5, 3)),
    "tied": (tied, (3,)),
    "named padding": (convolution(2, 3, 2, padding="valid"), (2, 2, 2)),
    "LeNet-5": (LeNet5, (1, 28, 28)),
    "FedFomo's": (TFConvNet, (3, 32, 32)),
    "patches": (patches, (2, 7, 7)),
    "grouped": (convolution(2, 4, 3, groups=2), (2, 3, 3)),
    "reached twice": (lambda: Twice(False), (3,)),
    "by a function": (lambda: Twice(True), (3,)),
}


@pytest.mark.parametrize("network, shape", NETWORKS.values(), ids=NETWORKS)
def test_the_sum_by_layers_is_that_by_examples_and_unclipped_the_gradient(network, shape):
    torch.manual_seed(0)
    flat, theta = flattened(network)
    x, y = 3 * torch.randn(5, *shape, dtype=torch.float64), torch.tensor([1, 0, 1, 1, 0])
    parts = torch.autograd.grad(flat.loss(flat.module(x), y).sum(), list(flat.module.parameters()))
    whole = torch.cat([part.flatten() for part in parts])
    torch.testing.assert_close(by_layer(flat, math.inf)(theta, x, y)[0], whole)
    each = zip(x.split(1), y.split(1), strict=True)
    norms = torch.stack([by_example(flat, math.inf)(theta, *one)[0].norm() for one in each])
    bound = norms.median().item()  # some are clipped, some are not
    by_layers = by_layer(flat, bound)
    by_layers(theta, x[:2] / 100, y[:2])  # the first sum is compared with the other's
    for _ in range(2):
        torch.testing.assert_close(by_layers(theta, x, y), by_example(flat, bound)(theta, x, y))


@pytest.mark.parametrize("name", ["LeNet-5", "FedFomo's"])
def test_these_networks_are_clipped_by_layers_from_the_second_batch_on(name, monkeypatch):
    network, shape = NETWORKS[name]
    (flat, theta), asked, slow = flattened(network), [], private.by_example

    def counted(*given):
        return lambda *batch: asked.append(batch) or slow(*given)(*batch)

    monkeypatch.setattr(private, "by_example", counted)
    clipped = by_layer(flat, 1.0)
    x, y = torch.randn(3, *shape, dtype=torch.float64), torch.tensor([1, 0, 1])
    torch.testing.assert_close(clipped(theta, x, y), clipped(theta, x, y))
    assert len(asked) == 1


def test_a_batch_of_one_does_not_decide_how_later_ones_are_clipped():
    """x less the batch's mean is 0 for one example; gradients of two hang together."""

    class Centred(nn.Linear):
        def forward(self, x):
            return super().forward(x - x.mean(0))

    flat, theta = flattened(lambda: Centred(3, 2))
    (x, y), clipped = examples([4])[0], by_layer(flat, 0.1)
    for some, labels in ((x[:1], y[:1]), (x, y), (x, y)):
        expected = by_example(flat, 0.1)(theta, some, labels)
        torch.testing.assert_close(clipped(theta, some, labels), expected)


def test_no_clipped_norm_exceeds_the_bound():
    norms = torch.rand(100_000, generator=torch.Generator().manual_seed(1)) * 10
    for bound in (1e-3, 0.1, 1.0, 3.0):
        assert (norms * clip_factors(norms, bound) <= bound).all()
    flat, theta = flattened(net, torch.float32)
    clipped = by_layer(flat, 0.05)
    clipped(theta, torch.eye(3)[:2], torch.tensor([0, 1]))  # from here on by layers
    for k in range(50):
        x = 100 * torch.randn(1, 3, generator=torch.Generator().manual_seed(k))
        assert clipped(theta, x, torch.tensor([k % 2]))[0].norm() <= 0.05


def test_an_example_whose_gradient_is_not_finite_counts_for_nothing():
    flat, theta = flattened(net, torch.float32)
    clipped = by_layer(flat, 1.0)
    x, y = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1])
    broken = torch.stack([x[0], torch.full((3,), math.inf), x[1]])
    sums = (clipped(theta, broken, torch.tensor([0, 1, 1])), clipped(theta, x, y))
    assert torch.equal(*(total for total, _ in sums))


def test_the_sum_does_not_depend_on_how_many_gradients_are_held_at_a_time(monkeypatch):
    whole = trained(federation(NOISY))
    monkeypatch.setattr("pfl_lib.engine.private.MOST_NUMBERS", 30)  # the model has 26 parameters
    torch.testing.assert_close(trained(federation(NOISY)), whole, rtol=1e-12, atol=1e-12)
    side = trained(federation(NOISY, engine="vmap"))
    torch.testing.assert_close(side, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("noise, bound", [(0.0, math.inf), (0.0, 0.4), (1.3, 0.4)])
@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_opacus_optimiser_ends_at_the_same_parameters(noise, bound, sampling):
    """Opacus' optimiser with the federation's batches and, tensor by tensor, its noise."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    sizes, client = (6, 8, 4), 1
    fed = federation(DPSGD(noise, bound, sampling), sizes=sizes, momentum=0.2)
    x, y = examples(sizes)[client]
    random = generator(fed.seed, "noise of batches", 1, client)
    blocks, drawn = fed.layout.parameters, []

    class TheSameNoise(DPOptimizer):
        def add_noise(self) -> None:
            row = torch.randn(fed.layout.P, generator=random, dtype=torch.float64)
            drawn.append(row)
            for parameter, block in zip(self.params, blocks, strict=True):
                own = row[block.start : block.stop].view(block.shape)
                scale = self.noise_multiplier * self.max_grad_norm if noise else 0.0
                parameter.grad = (parameter.summed_grad + scale * own).view_as(parameter)

    model = net().double()
    model.load_state_dict(fed.layout.named(**fed.initial()))
    reference = GradSampleModule(model)
    plain = torch.optim.SGD(reference.parameters(), lr=0.3, momentum=0.2)
    settings = {"noise_multiplier": noise, "max_grad_norm": bound, "expected_batch_size": 2}
    optimiser = TheSameNoise(plain, **settings)
    steps = batches(fed.schedule, fed.seed, "batches", 1, client, 8)
    taken = [batch for batch in steps if len(batch)]
    assert len(taken) == len(steps) or sampling == "poisson"
    for batch in steps:
        optimiser.zero_grad()
        if len(batch):
            nn.functional.cross_entropy(reference(x[batch].requires_grad_()), y[batch]).backward()
        else:  # as Opacus' loader gives an empty batch: gradients of no example
            for parameter in reference.parameters():
                parameter.grad_sample = parameter.new_zeros(0, *parameter.shape)
        optimiser.step()
    theirs = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    torch.testing.assert_close(trained(fed)[client], theirs, rtol=1e-12, atol=1e-12)
    assert len(drawn) == len(steps)


def test_poisson_batches_hold_each_example_at_its_rate_and_are_as_many_as_plain_ones():
    private = Schedule(1, batch_size=20, local_epochs=3, private=NOISY)
    drawn = batches(private, 1, "batches", 1, 0, 90)
    assert len(drawn) == len(batches(replace(private, private=None), 1, "batches", 1, 0, 90)) == 15
    assert len({len(batch) for batch in drawn}) > 3
    many = batches(replace(private, local_epochs=1, local_batches=4000), 1, "batches", 1, 0, 90)
    share = torch.cat(many).bincount(minlength=90) / len(many)
    assert (share - 20 / 90).abs().max() < 5 * math.sqrt(2 / 9 * 7 / 9 / 4000)


def test_noise_is_each_clients_and_rounds_own():
    """Where every gradient is clipped to nothing, what is left of training is noise alone."""
    private = DPSGD(noise=1e9, max_norm=1e-9)
    fed = federation(private, sizes=(6, 6, 6), local_epochs=1)
    moved = [trained(fed, round=r) - fed.initial()["theta"] for r in (1, 2)]
    alike = torch.corrcoef(torch.cat(moved))
    assert (alike - torch.eye(6)).abs().max() < 0.6
    # Other clients' data, and who else trains, change nothing of a client's noise.
    others = federation(private, sizes=(6, 6, 4), local_epochs=1)
    mine = trained(others, [1]) - others.initial()["theta"]
    torch.testing.assert_close(mine[0], moved[0][1], rtol=1e-6, atol=1e-6)


def test_one_clients_data_reach_no_other_client():
    fed = federation(NOISY)
    other = fed.with_training_labels({0: 1 - fed.clients.splits["train"].labels[0]})
    before, after = trained(fed), trained(other)
    assert torch.equal(before[1:], after[1:]) and not torch.equal(before[0], after[0])


@pytest.mark.parametrize("method", ["fedavg", "fedfomo", "fedprox", "scaffold", "pfedla", "local"])
def test_methods_train_by_it_and_stay_finite_at_two_sigma(method):
    fed = federation(DPSGD(noise=2.0, max_norm=1.0))
    made = FedFomo(2) if method == "fedfomo" else make_method(method)
    run = Run(made, fed)
    assert list(run.rounds()) == [1, 2] and run.diverged is None
    assert all(row.isfinite().all() for row in made.served(fed, run.state).values())


def test_a_round_tells_what_an_accountant_needs():
    fed = federation(NOISY)
    run = Run(FedAvg(), fed)
    list(run.rounds())
    rows = [row for row in run.metrics if row["round"] == 2]
    assert [row["private_steps"] for row in rows] == [8, 6, 10]  # two passes, batches of two
    assert [row["sampling_rate"] for row in rows] == [2 / 7, 2 / 5, 2 / 9]
    plain, shuffled = Run(FedAvg(), federation(None)), Run(FedAvg(), federation(PLAIN))
    for one in (plain, shuffled):
        list(one.rounds())
    assert "private_steps" not in plain.metrics[0]
    assert shuffled.metrics[0]["private_steps"] == 8 and "sampling_rate" not in shuffled.metrics[0]


def test_settings_are_refused_in_one_line():
    for given, told in (
        ({"max_norm": 1.0}, "noise None and max_norm 1.0: give both"),
        ({"noise": 1.0}, "noise 1.0 and max_norm None: give both"),
        ({}, "give both, the noise multiplier and the clipping bound"),
        ({"noise": 1.0, "max_norm": math.inf}, "noise is in units of the bound"),
        ({"noise": -1, "max_norm": 1.0}, "noise -1: give a number 0 or more"),
        ({"noise": 1, "max_norm": 0}, "max_norm 0: give a number above 0"),
        ({"noise": 1, "max_norm": 1, "sampling": "all"}, "sampling 'all' is not one of"),
    ):
        refused(told, DPSGD, **given)


def test_batch_norm_is_refused_with_the_reason_and_group_norm_is_trained():
    def normed(norm: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), norm, nn.Linear(4, 2))

    for of in ({}, {"track_running_stats": False}):
        refused("BatchNorm mixes", federation, NOISY, model=normed(nn.BatchNorm1d(4, **of)))
    assert trained(federation(NOISY, model=normed(nn.GroupNorm(2, 4)))).isfinite().all()


def test_a_sampling_rate_above_one_and_a_setting_that_is_none_are_refused():
    refused("client 1 has 5 training .* rate 1.2, above 1", federation, NOISY, batch_size=6)
    assert len(federation(PLAIN, batch_size=6)) == 3
    refused("private 1.0: give DPSGD", Schedule, 1, private=1.0)


def test_methods_that_it_cannot_account_for_are_refused():
    fed = federation(NOISY, lr=0.05, alice=0)
    for method, told in (
        (make_method("pfedme"), "accounts for one gradient of each batch"),
        (make_method("fedavg_data"), "this method shares some"),
        (make_method("ditto"), "two models on one noise"),
        (Scaffold("I"), "how many examples each batch drew"),
        (Waffle(option="I"), "how many examples each batch drew"),
    ):
        refused(told, lambda method=method: list(Run(method, fed).rounds()))
