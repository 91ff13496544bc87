"""A recorded gradient gives the bits of the pass that it was recorded from, and is not used where it might not."""

import types

import pytest
import torch
from torch import nn

from pfl_lib import Federation, Schedule, models
from pfl_lib.engine import LOSSES, recording
from pfl_lib.engine.flat import FlatModule
from pfl_lib.methods import APFL, Scaffold
from pfl_lib.rows import Batch

SHAPES = {"lenet5": (1, 28, 28), "lenet5-relu": (1, 28, 28), "tf_cnn": (3, 32, 32), "dla": (3, 8, 8)}
SHAPES |= dict.fromkeys(("linear", "linear-zero", "linear-authors"), (9,))
SHAPES |= dict.fromkeys(("pfedla_cnn", "pfedla_cnn-norm"), (3, 32, 32))


def flat(module: nn.Module, loss: str = "cross_entropy", dtype=torch.float32) -> FlatModule:
    return FlatModule(module, LOSSES[loss], torch.device("cpu"), dtype)


def batch(shape, size=6, dtype=torch.float32, seed=0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(size, *shape, generator=random, dtype=torch.float64).to(dtype)
    return Batch(x, torch.randint(2, (size,), generator=random), 0, 0.1, 0.0, 0.0)


def gradients(of: FlatModule, batches) -> list[torch.Tensor]:
    """Gradients and running statistics along a walk of a few steps."""
    theta, statistics = (row.clone() for row in of.layout.rows(of.module).values())
    found = []
    for each in batches:
        gradient = of.gradient(theta, each, statistics)
        theta = theta - 0.1 * gradient
        found += [gradient.clone(), statistics.clone()]
    return found


@pytest.fixture(autouse=True)
def nothing_recorded_yet(monkeypatch):
    monkeypatch.setattr(recording, "_kinds", {})


@pytest.fixture
def at_once(monkeypatch):
    """Record at the first batch of a shape."""
    monkeypatch.setattr(recording, "WORTH_RECORDING", 1)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in models.MODELS]
    + [(name, torch.float64) for name in models.MODELS if name != "dla"],  # many operations: it takes long to record
)
def test_every_named_model_is_recorded_and_gives_the_same_bits(name, dtype, at_once, monkeypatch):
    torch.manual_seed(1)
    module = models.build(name, SHAPES[name], 2)
    batches = [batch(SHAPES[name], size, dtype, seed) for seed, size in enumerate((6, 6, 5, 6))]
    recorded = flat(module, dtype=dtype)
    found = gradients(recorded, batches)
    assert len(recorded.recordings._made) == 2 and all(recorded.recordings._made.values())  # batches of 6 and of 5
    monkeypatch.setattr(recording, "_kinds", {})
    monkeypatch.setattr(recording, "WORTH_RECORDING", 10)
    expected = gradients(flat(module, dtype=dtype), batches)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert found[0].abs().sum() > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_part_of_what_is_recorded(loss, at_once):
    module, one = models.build("linear", (9,), 2), batch((9,))
    of = flat(module, loss)
    gradient = of.gradient(of.layout.rows(module)["theta"], one)
    logits = module(one.x)
    expected = torch.autograd.grad(LOSSES[loss](logits, one.y).mean(), list(module.parameters()))
    torch.testing.assert_close(gradient, torch.cat([part.reshape(-1) for part in expected]))


def test_statistics_are_left_alone_where_none_are_given(at_once):
    module = models.build("pfedla_cnn-norm", (3, 32, 32), 2)
    of, one = flat(module), batch((3, 32, 32))
    rows = of.layout.rows(module)
    before = rows["statistics"].clone()
    alone = of.gradient(rows["theta"], one)
    assert torch.equal(rows["statistics"], before)
    assert torch.equal(alone, of.gradient(rows["theta"], one, rows["statistics"]))
    assert not torch.equal(rows["statistics"], before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", [Scaffold(), APFL()], ids=lambda method: method.name)
def test_a_run_has_the_same_bits_whenever_recording_begins(method, threads, monkeypatch):
    """From the first batch, from the ninth in the middle of a round, or never; with BatchNorm, momentum and short last batches."""
    data = [(batch((3, 16, 16), size, seed=size).x, batch((3, 16, 16), size, seed=size).y) for size in (7, 12, 5, 10)]
    states, counts = [], []
    for worth in (1, 9, 10**9):
        monkeypatch.setattr(recording, "_kinds", {})
        monkeypatch.setattr(recording, "WORTH_RECORDING", worth)
        schedule = Schedule(3, batch_size=4, lr=0.05, momentum=0.9, weight_decay=0.01)
        make = lambda: models.build("pfedla_cnn-norm", (3, 16, 16), 2)  # noqa: E731
        fed = Federation.from_arrays(data, data, make, schedule, device="cpu", threads=threads)
        state = method.start(fed)
        for r in (1, 2, 3):
            state, _ = method.round(fed, state, r)
        states.append(state)
        counts.append(sum(play is not None for play in fed._modules[0].recordings._made.values()))
    assert counts[0] == 4 and 0 < counts[1] <= 4 and counts[2] == 0  # batches of 4, 3, 1 and 2
    for other in states[1:]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)


def test_batches_are_counted_by_shape_and_layout_in_memory(monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    of = flat(models.build("tf_cnn", (3, 32, 32), 2))
    theta, one = of.layout.rows(of.module)["theta"], batch((3, 32, 32))
    last = Batch(one.x.contiguous(memory_format=torch.channels_last), one.y, 0, 0.1, 0.0, 0.0)
    first = [of.gradient(theta, each) for each in (one, last)]
    assert not of.recordings._made
    second = [of.gradient(theta, each) for each in (one, last)]
    assert len(of.recordings._made) == 2
    assert all(torch.equal(before, after) for before, after in zip(first, second, strict=True))


class Counting(nn.Linear):
    """Its output depends on how often it was called: a recording would give the first call's for ever."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * self.calls


def hooked() -> nn.Module:
    module = nn.Linear(9, 2)
    module.register_forward_hook(lambda *_: None)
    return module


def rewritten() -> nn.Module:
    module = nn.Linear(9, 2)
    module.forward = types.MethodType(lambda self, x: nn.Linear.forward(self, x) * 2, module)
    return module


@pytest.mark.parametrize(
    "make", [lambda: Counting(9, 2), lambda: nn.Sequential(Counting(9, 2)), hooked, rewritten], ids=str
)
def test_modules_with_code_of_somebody_elses_run_as_they_are(make, at_once):
    of, one = flat(make()), batch((9,))
    for _ in range(3):
        of.gradient(of.layout.rows(of.module)["theta"], one)
    assert of.recordings is None


def test_the_librarys_own_modules_are_recorded(at_once):
    of, one = flat(nn.Sequential(nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2))), batch((9,))
    found = [of.gradient(of.layout.rows(of.module)["theta"], one) for _ in range(2)]
    assert list(of.recordings._made.values()) != [None] and torch.equal(*found)


def test_a_recording_with_other_bits_is_not_used(at_once, monkeypatch):
    """As if the interpreter rounded otherwise."""
    plain = recording._plain

    def wrong(operations):
        for node in operations.graph.nodes:
            if node.op == "output":
                with operations.graph.inserting_before(node):
                    node.args = (operations.graph.call_function(torch.ops.aten.mul.Tensor, (node.args[0], 1 + 2**-20)),)
        return plain(operations)

    monkeypatch.setattr(recording, "_plain", wrong)
    of, one = flat(models.build("linear", (9,), 2)), batch((9,))
    found = [of.gradient(of.layout.rows(of.module)["theta"], one) for _ in range(2)]
    assert list(of.recordings._made.values()) == [None] and torch.equal(*found)


def test_what_cannot_be_recorded_is_computed(at_once, monkeypatch):
    def gone(*_):
        raise RuntimeError("no such interpreter")

    monkeypatch.setattr(torch.jit, "script", gone)
    of, one = flat(models.build("linear", (9,), 2)), batch((9,))
    assert of.gradient(of.layout.rows(of.module)["theta"], one).abs().sum() > 0
    assert list(of.recordings._made.values()) == [None]


def test_modules_of_one_kind_share_recordings_and_others_do_not(at_once):
    """Weights and the dropped-out pieces of a name are no part of a kind; classes, settings, sizes, loss and dtype are."""
    same = [flat(models.build("lenet5", (1, 28, 28), 10)) for _ in range(2)]
    assert same[0].recordings is same[1].recordings
    one = batch((1, 28, 28))
    found = [of.gradient(of.layout.rows(of.module)["theta"], one) for of in same]
    assert len(same[0].recordings._made) == 1 and not torch.equal(*found)
    expected = same[1].module(one.x)
    expected = torch.autograd.grad(LOSSES["cross_entropy"](expected, one.y).mean(), list(same[1].module.parameters()))
    torch.testing.assert_close(found[1], torch.cat([part.reshape(-1) for part in expected]))
    others = [
        flat(models.build("lenet5-relu", (1, 28, 28), 10)),
        flat(models.build("lenet5", (1, 28, 28), 9)),
        flat(models.build("lenet5", (1, 28, 28), 10), loss="half_cross_entropy"),
        flat(models.build("lenet5", (1, 28, 28), 10), dtype=torch.float64),
        flat(nn.Sequential(nn.Linear(9, 2), nn.ReLU())),
        flat(nn.Sequential(nn.Linear(9, 2), nn.Tanh())),
        flat(nn.Sequential(nn.BatchNorm1d(9), nn.Linear(9, 2))),
        flat(nn.Sequential(nn.BatchNorm1d(9, momentum=0.3), nn.Linear(9, 2))),
    ]
    assert len({id(of.recordings) for of in [same[0], *others]}) == 9
