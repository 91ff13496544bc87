"""A recorded gradient gives a computed one's bits, or it is not played."""

import copy
import functools
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from pfl_lib import Federation, Schedule, models
from pfl_lib.engine import LOSSES, recording
from pfl_lib.engine.flat import FlatModule
from pfl_lib.experiments.runner import federation_of
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import APFL, FedAvg, Scaffold
from pfl_lib.rows import Batch

# Of the named models, those of fewer than a million parameters: no other is recorded
SHAPES = dict.fromkeys(("lenet5", "lenet5-relu", "lenet5-relu-groupnorm"), (1, 28, 28))
SHAPES |= dict.fromkeys(("linear", "linear-zero", "linear-authors"), (9,)) | {"tf_cnn": (3, 18, 18)}
SHAPES |= dict.fromkeys(("pfedla_cnn", "pfedla_cnn-norm"), (3, 16, 16))


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """Nothing is recorded yet; each module counts the gradients it was asked for and computed."""
    recording.recordings.cache_clear()

    def counting(name, call):
        def count(self, *given):
            vars(self)[f"n {name}"] = vars(self).get(f"n {name}", 0) + 1
            return call(self, *given)

        monkeypatch.setattr(FlatModule, name, count)

    for name in ("gradient", "_computed"):
        counting(name, getattr(FlatModule, name))


@pytest.fixture
def at_once(monkeypatch):
    """Record at the first batch of a shape."""
    monkeypatch.setattr(recording, "WORTH_RECORDING", 1)


def flat(
    module: nn.Module, name: str | None = "some", loss: str = "cross_entropy", dtype=torch.float32
) -> FlatModule:
    of = FlatModule(module, LOSSES[loss], torch.device("cpu"), dtype, name)
    of.start = of.layout.rows(of.module)  # what the module holds moves with every gradient
    return of


def plain(of: FlatModule) -> FlatModule:
    """The same network from the same start, computed throughout."""
    other = FlatModule(of.module, of.loss, torch.device("cpu"), of._theta.dtype)
    other.start = of.start
    return other


def linear() -> nn.Module:
    return models.build("linear", (9,), 2)


def batch(shape=(9,), size=6, dtype=torch.float32, seed=0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(size, *shape, generator=random, dtype=torch.float64).to(dtype)
    return Batch(x, torch.randint(2, (size,), generator=random), 0, 0.1, 0.0, 0.0)


def theta(of: FlatModule) -> torch.Tensor:
    return of.start["theta"]


def walk(of: FlatModule, batches) -> list[torch.Tensor]:
    """Gradients and running statistics along a walk of a few steps."""
    at, statistics = (row.clone() for row in of.start.values())
    found = []
    for each in batches:
        gradient = of.gradient(at, each, statistics)
        at = at - 0.1 * gradient
        found += [gradient.clone(), statistics.clone()]
    return found


def made(of: FlatModule) -> list[bool]:
    """Whether there is a recording, for each shape of batch that was tried."""
    return [play is not None for play in of.recordings._made.values()]


def plays(of: FlatModule) -> int:
    """How many of this module's gradients were played and not computed."""
    return vars(of).get("n gradient", 0) - vars(of).get("n _computed", 0)


def several(size: int = 6, shape=(9,), dtype=torch.float32, n: int = 3) -> list[Batch]:
    """Batches of one shape."""
    return [batch(shape, size, dtype, seed) for seed in range(n)]


def same(found, expected) -> bool:
    return all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SHAPES)
def test_every_named_model_gives_the_same_bits(name, dtype, at_once):
    torch.manual_seed(1)
    module = models.build(name, SHAPES[name], 2)
    batches = [each for size in (4, 3) for each in several(size, SHAPES[name], dtype)]
    recorded = flat(module, name, dtype=dtype)
    found, expected = (walk(of, batches) for of in (recorded, flat(module, None, dtype=dtype)))
    assert plays(recorded) == 6 and made(recorded) == [True, True]
    assert same(found, expected) and found[0].abs().sum() > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_part_of_what_is_recorded(loss, at_once):
    module, one = linear(), several()[-1]
    of = flat(module, loss=loss)
    gradient = [of.gradient(theta(of), each) for each in several()][-1]
    expected = torch.autograd.grad(
        LOSSES[loss](module(one.x), one.y).mean(), list(module.parameters())
    )
    assert plays(of) == 3
    torch.testing.assert_close(gradient, torch.cat([part.reshape(-1) for part in expected]))


def test_statistics_are_left_alone_where_none_are_given(at_once):
    of = flat(models.build("pfedla_cnn-norm", (3, 16, 16), 2))
    *first, one = several(shape=(3, 16, 16))
    rows = of.start
    before = rows["statistics"].clone()
    for each in first:
        of.gradient(rows["theta"], each)
    alone = of.gradient(rows["theta"], one)
    assert plays(of) == 3 and torch.equal(rows["statistics"], before)
    assert torch.equal(alone, of.gradient(rows["theta"], one, rows["statistics"]))
    assert not torch.equal(rows["statistics"], before)


@pytest.mark.parametrize(("method", "threads"), [(Scaffold(), 1), (APFL(), 2)], ids=["one", "two"])
def test_a_run_has_the_same_bits_whenever_recording_begins(method, threads, at_once, monkeypatch):
    """From the first batch, from the seventh in the middle of a round, or never."""
    given = [batch((3, 16, 16), size, seed=size) for size in (6, 12, 5, 10)]
    data = [(one.x, one.y) for one in given]
    states, counts = [], []
    for worth in (1, 7, 10**9):
        recording.recordings.cache_clear()
        monkeypatch.setattr(recording, "WORTH_RECORDING", worth)
        schedule = Schedule(
            3, local_epochs=2, batch_size=4, lr=0.05, momentum=0.9, weight_decay=0.01
        )
        network = models.Architecture("pfedla_cnn-norm", (3, 16, 16), 2)
        fed = Federation.from_arrays(data, data, network, schedule, device="cpu", threads=threads)
        state = method.start(fed)
        for r in (1, 2, 3):
            state, _ = method.round(fed, state, r)
        states.append(state)
        counts.append(sum(made(fed._modules[0])))
        assert worth > 7 or sum(plays(module) for module in fed._modules) > 9
    assert counts[0] == 3 and 0 < counts[1] <= 3 and counts[2] == 0  # batches of 4, 2 and 1
    for other in states[1:]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)


def test_batches_are_counted_by_shape_and_layout_in_memory(at_once, monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    of = flat(models.build("tf_cnn", (3, 18, 18), 2))
    batches = several(shape=(3, 18, 18))
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = [
            Batch(one.x.contiguous(memory_format=layout), one.y, 0, 0.1, 0.0, 0.0)
            for one in batches
        ]
        expected = walk(plain(of), laid)
        of.gradient(theta(of), laid[0])
        assert len(made(of)) == (layout is torch.channels_last)
        assert same(walk(of, laid), expected)
    assert plays(of) == 6


class Steep(nn.Linear):
    """Its slope is a setting: no input of a recording."""

    def __init__(self, slope: float) -> None:
        super().__init__(9, 2)
        self.slope = slope

    def forward(self, x):
        return super().forward(x) * self.slope


def federation(model) -> Federation:
    data = [(batch(seed=k).x, batch(seed=k).y) for k in (1, 2)]
    return Federation.from_arrays(data, data, model, Schedule(3, batch_size=2), device="cpu")


def test_the_packages_own_networks_are_recorded_under_name_shape_classes_and_settings():
    fed = federation(models.Architecture("linear", (9,), 2))
    network, settings = fed._modules[0].recorded_as
    assert network == models.Architecture("linear", (9,), 2) and "in_features=9" in settings
    spec = RunSpec(FedAvg(), Schedule(1), dataset="digits", model="lenet5-relu", clients=2)
    own, _ = federation_of(spec, device="cpu")._modules[0].recorded_as
    assert own == models.Architecture("lenet5-relu", (1, 28, 28), 10)


class Mine(models.Architecture):
    """Goes by the name of a network of the package."""

    def __call__(self) -> nn.Module:
        return Steep(2.0)


def test_no_other_network_is_recorded(at_once, monkeypatch):
    """Nor one of a user's own that is put among the package's."""
    partial = functools.partial(models.build, "linear", (9,), 2)
    for model in (linear(), linear, partial, lambda: Steep(1e9), Mine("linear", (9,), 2)):
        assert federation(model)._modules[0].recordings is None
    monkeypatch.setitem(models.MODELS, "linear", lambda shape, classes: Steep(4.0))
    assert federation(models.Architecture("linear", (9,), 2))._modules[0].recordings is None


def test_networks_of_one_name_with_other_settings_share_nothing(monkeypatch, at_once):
    """Clamped at .5 and at 1: settings that no parameter's shape tells apart."""
    found = []
    for limit in (0.5, 1.0, 0.5):

        def clamped(shape, classes, limit=limit) -> nn.Module:
            return nn.Sequential(nn.Linear(9, 2), nn.Hardtanh(-limit, limit))

        monkeypatch.setitem(models.MODELS, "linear", clamped)
        found.append(federation(models.Architecture("linear", (9,), 2))._modules[0].recordings)
    assert found[0] is found[2] is not found[1] is not None


def test_networks_of_a_million_parameters_are_never_recorded():
    data = [(batch((3, 8, 8)).x, batch((3, 8, 8)).y)]
    network = models.Architecture("dla", (3, 8, 8), 2)
    fed = Federation.from_arrays(data, data, network, Schedule(1), device="cpu")
    assert fed.layout.P > 1_000_000 and fed._modules[0].recordings is None


def test_networks_of_one_name_share_recordings_whatever_their_weights(at_once):
    both = [flat(linear()) for _ in range(2)]
    next(both[1].module.parameters()).data.add_(1.0)
    found = [walk(of, several()) for of in both]
    assert made(both[0]) == [True] and both[0].recordings is both[1].recordings
    assert plays(both[0]) == plays(both[1]) == 3
    assert all(same(walk(plain(of), several()), mine) for of, mine in zip(both, found, strict=True))
    assert not same(*found)
    others = [flat(linear(), "other"), flat(models.build("linear", (9,), 3))]
    others += [flat(linear(), loss="half_cross_entropy"), flat(linear(), dtype=torch.float64)]
    assert len({id(of.recordings) for of in (both[0], *others)}) == 5


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda fed: pickle.loads(pickle.dumps(fed))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_copied_federation_trains_and_evaluates_as_the_first(recorded, way, at_once):
    network = models.Architecture("linear", (9,), 2)
    first = federation(network if recorded else network())
    state, _ = FedAvg().round(first, FedAvg().start(first), 1)
    second = way(first)
    after, theirs = (FedAvg().round(fed, state, 2)[0] for fed in (first, second))
    assert torch.equal(after["theta"], theirs["theta"])
    assert not torch.equal(after["theta"], state["theta"])
    for each in (state, after):
        assert same(*(fed.evaluate(each) for fed in (first, second)))


def test_recording_leaves_a_batch_as_it_was_though_the_network_writes_into_it(at_once):
    of, one = flat(nn.Sequential(nn.LeakyReLU(0.5, inplace=True), nn.Linear(9, 2))), batch()
    expected = plain(of).gradient(theta(of), batch())
    assert torch.equal(of.gradient(theta(of), one), expected)
    assert made(of) == [True]  # of a copy


def test_a_recording_made_in_a_diverged_run_is_right_in_others(at_once):
    of, batches = flat(linear()), several()
    start = theta(of)
    assert all(of.gradient(start * float("nan"), one).isnan().all() for one in batches)
    assert same(walk(of, batches), walk(plain(of), batches)) and made(of) == [True]


class Branching(nn.Linear):
    """Takes another way where the batch is of another kind."""

    def forward(self, x):
        return super().forward(x) * (1 if sum(x[:, 0].tolist()) > 0 else 3)


class Tanh(torch.autograd.Function):
    """Its numbers come from outside the library."""

    @staticmethod
    def forward(ctx, x):
        y = torch.from_numpy(np.tanh(x.detach().numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.from_numpy(1 - ctx.saved_tensors[0].detach().numpy() ** 2)


class Outside(nn.Linear):
    def forward(self, x):
        return Tanh.apply(super().forward(x))


@pytest.mark.parametrize("network", [Branching, Outside])
def test_a_network_whose_python_looks_at_the_batch_is_found_out_and_computed(network, at_once):
    torch.manual_seed(0)
    of = flat(network(9, 2))
    assert same(walk(of, several()), walk(plain(of), several()))
    assert made(of) == [False] and plays(of) == 0


def careless(operations, script=torch.jit.script) -> SimpleNamespace:
    """Writes something else into the statistics, the second input."""
    scripted = script(operations)

    def forward(*given):
        gradient = scripted(*given)
        given[1].add_(1e-6)
        return gradient

    return SimpleNamespace(forward=forward)


def broken(*_):
    raise RuntimeError("no such interpreter")


@pytest.mark.parametrize("script", [careless, broken])
def test_a_recording_that_is_wrong_or_cannot_be_made_is_not_played(script, at_once, monkeypatch):
    monkeypatch.setattr(torch.jit, "script", script)
    of, batches = flat(models.build("pfedla_cnn-norm", (3, 16, 16), 2)), several(shape=(3, 16, 16))
    assert same(walk(of, batches), walk(plain(of), batches))
    assert made(of) == [False] and plays(of) == 0


def test_under_autocast_nothing_is_recorded_or_played(at_once):
    module = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 2))
    of = flat(module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(walk(of, several()), walk(plain(of), several()))
    assert made(of) == []
    walk(of, several())
    assert plays(of) == 3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(walk(of, several()), walk(plain(of), several()))
    assert plays(of) == 3


def test_threads_that_record_different_networks_leave_torch_as_it_was(at_once, monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    call = nn.Module.__call__

    def of_width(width: int) -> int:
        network = nn.Sequential(nn.Linear(9, width), nn.Tanh(), nn.Linear(width, 2))
        of = flat(network, f"width {width}")
        for size in (6, 5):
            walk(of, several(size))
        return plays(of)

    with ThreadPoolExecutor(4) as threads:
        assert all(found == 4 for found in threads.map(of_width, range(3, 9)))
    assert nn.Module.__call__ is call and not torch.fx._symbolic_trace.is_fx_tracing()
