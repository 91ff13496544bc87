"""A recorded gradient gives the bits of the pass that it was recorded from, and is used for
networks that were given a name only.
"""

import copy
import functools
import pickle
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from pfl_lib import BadInput, Federation, Schedule, models
from pfl_lib.engine import LOSSES, recording
from pfl_lib.engine.flat import FlatModule
from pfl_lib.experiments.runner import federation_of
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import APFL, FedAvg, Scaffold
from pfl_lib.rows import Batch

SHAPES = {
    "lenet5": (1, 28, 28),
    "lenet5-relu": (1, 28, 28),
    "tf_cnn": (3, 32, 32),
    "dla": (3, 8, 8),
}
SHAPES |= dict.fromkeys(("linear", "linear-zero", "linear-authors"), (9,))
SHAPES |= dict.fromkeys(("pfedla_cnn", "pfedla_cnn-norm"), (3, 32, 32))


@pytest.fixture(autouse=True)
def nothing_recorded_yet(monkeypatch):
    monkeypatch.setattr(recording, "_shared", {})


@pytest.fixture
def at_once(monkeypatch):
    """Record at the first batch of a shape."""
    monkeypatch.setattr(recording, "WORTH_RECORDING", 1)


def flat(
    module: nn.Module, name: str | None = "some", loss: str = "cross_entropy", dtype=torch.float32
) -> FlatModule:
    return FlatModule(module, LOSSES[loss], torch.device("cpu"), dtype, name)


def linear() -> nn.Module:
    return models.build("linear", (9,), 2)


def batch(shape=(9,), size=6, dtype=torch.float32, seed=0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(size, *shape, generator=random, dtype=torch.float64).to(dtype)
    return Batch(x, torch.randint(2, (size,), generator=random), 0, 0.1, 0.0, 0.0)


def theta(of: FlatModule) -> torch.Tensor:
    return of.layout.rows(of.module)["theta"]


def walk(of: FlatModule, batches) -> list[torch.Tensor]:
    """Gradients and running statistics along a walk of a few steps."""
    at, statistics = (row.clone() for row in of.layout.rows(of.module).values())
    found = []
    for each in batches:
        gradient = of.gradient(at, each, statistics)
        at = at - 0.1 * gradient
        found += [gradient.clone(), statistics.clone()]
    return found


def made(of: FlatModule) -> list[bool]:
    """Whether there is a recording, for each shape of batch that was tried."""
    return [play is not None for play in of.recordings._made.values()]


def played(of: FlatModule) -> list[bool]:
    """Whether a recording is played for this module, for each that was compared."""
    return list(of._agrees.values())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in models.MODELS]
    + [
        (name, torch.float64) for name in models.MODELS if name != "dla"
    ],  # many operations: it takes long to record
)
def test_every_named_model_gives_the_same_bits(name, dtype, at_once):
    torch.manual_seed(1)
    module = models.build(name, SHAPES[name], 2)
    batches = [batch(SHAPES[name], size, dtype, seed) for seed, size in enumerate((6, 6, 5, 6))]
    recorded = flat(module, name, dtype=dtype)
    found, expected = (walk(of, batches) for of in (recorded, flat(module, None, dtype=dtype)))
    assert played(recorded) == [True, True]  # batches of 6 and of 5
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert found[0].abs().sum() > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_part_of_what_is_recorded(loss, at_once):
    module, one = linear(), batch()
    of = flat(module, loss=loss)
    _, gradient = (of.gradient(theta(of), one) for _ in range(2))
    expected = torch.autograd.grad(
        LOSSES[loss](module(one.x), one.y).mean(), list(module.parameters())
    )
    assert played(of) == [True]
    torch.testing.assert_close(gradient, torch.cat([part.reshape(-1) for part in expected]))


def test_statistics_are_left_alone_where_none_are_given(at_once):
    of, one = flat(models.build("pfedla_cnn-norm", (3, 32, 32), 2)), batch((3, 32, 32))
    rows = of.layout.rows(of.module)
    before = rows["statistics"].clone()
    of.gradient(rows["theta"], one)
    alone = of.gradient(rows["theta"], one)
    assert played(of) == [True] and torch.equal(rows["statistics"], before)
    assert torch.equal(alone, of.gradient(rows["theta"], one, rows["statistics"]))
    assert not torch.equal(rows["statistics"], before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", [Scaffold(), APFL()], ids=lambda method: method.name)
def test_a_run_has_the_same_bits_whenever_recording_begins(method, threads, monkeypatch):
    """From the first batch, from the ninth in the middle of a round, or never; with BatchNorm,
    momentum and short last batches.
    """
    data = [
        (batch((3, 16, 16), size, seed=size).x, batch((3, 16, 16), size, seed=size).y)
        for size in (7, 12, 5, 10)
    ]
    states, counts = [], []
    for worth in (1, 9, 10**9):
        monkeypatch.setattr(recording, "_shared", {})
        monkeypatch.setattr(recording, "WORTH_RECORDING", worth)
        schedule = Schedule(3, batch_size=4, lr=0.05, momentum=0.9, weight_decay=0.01)
        make = lambda: models.build("pfedla_cnn-norm", (3, 16, 16), 2)  # noqa: E731
        fed = Federation.from_arrays(
            data, data, make, schedule, device="cpu", threads=threads, recorded_as="own"
        )
        state = method.start(fed)
        for r in (1, 2, 3):
            state, _ = method.round(fed, state, r)
        states.append(state)
        counts.append(sum(made(fed._modules[0])))
        assert all(all(played(module)) for module in fed._modules)
    assert counts[0] == 4 and 0 < counts[1] <= 4 and counts[2] == 0  # batches of 4, 3, 1 and 2
    for other in states[1:]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)


def test_batches_are_counted_by_shape_and_layout_in_memory(monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    of, one = flat(models.build("tf_cnn", (3, 32, 32), 2)), batch((3, 32, 32))
    last = Batch(one.x.contiguous(memory_format=torch.channels_last), one.y, 0, 0.1, 0.0, 0.0)
    first = [of.gradient(theta(of), each) for each in (one, last)]
    assert not made(of)
    second = [of.gradient(theta(of), each) for each in (one, last, one, last)][2:]
    assert played(of) == [True, True]
    assert all(torch.equal(before, after) for before, after in zip(first, second, strict=True))


# --- what is recorded ---


class Steep(nn.Linear):
    """Its slope is a setting: no input of a recording."""

    def __init__(self, slope: float) -> None:
        super().__init__(9, 2)
        self.slope = slope

    def forward(self, x):
        return super().forward(x) * self.slope


def test_a_network_of_ones_own_is_recorded_only_if_it_is_given_a_name(at_once):
    data = [(batch(seed=k).x, batch(seed=k).y) for k in (1, 2)]
    settings = {"device": "cpu", "threads": 2}
    feds = [
        Federation.from_arrays(
            data, data, lambda: Steep(2.0), Schedule(1, batch_size=3), recorded_as=name, **settings
        )
        for name in (None, "steep")
    ]
    found = [FedAvg().round(fed, fed.initial(), 1)[0]["theta"] for fed in feds]
    assert torch.equal(*found)
    assert all(module.recordings is None for module in feds[0]._modules)
    assert all(played(module) in ([], [True]) for module in feds[1]._modules) and made(
        feds[1]._modules[0]
    ) == [True]


@pytest.mark.parametrize("name", ["", 5, True, ["x"]], ids=str)
def test_a_name_is_a_text(name):
    data = [(batch().x, batch().y)]
    with pytest.raises(BadInput, match=r"^recorded_as .*: give a name, a text that is not empty$"):
        Federation.from_arrays(data, data, linear, Schedule(1), device="cpu", recorded_as=name)


def test_a_module_for_which_its_names_recording_is_wrong_is_computed(at_once):
    """Another setting under the same name, after somebody else's was recorded."""
    first, second = flat(Steep(0.1)), flat(Steep(0.9))
    for of in (first, second):
        expected = flat(of.module, None).gradient(theta(of), batch())
        assert all(torch.equal(of.gradient(theta(of), batch()), expected) for _ in range(3))
    assert first.recordings is second.recordings and (played(first), played(second)) == (
        [True],
        [False],
    )


def test_cells_name_their_network_and_those_of_a_million_parameters_are_never_recorded():
    spec = RunSpec(FedAvg(), Schedule(1), dataset="digits", model="lenet5", clients=2)
    assert federation_of(spec, device="cpu")._modules[0].recorded_as == "lenet5"
    data = [(batch((3, 8, 8)).x, batch((3, 8, 8)).y)]
    make = lambda: models.build("dla", (3, 8, 8), 2)  # noqa: E731
    fed = Federation.from_arrays(data, data, make, Schedule(1), device="cpu", recorded_as="dla")
    assert fed.layout.P > 1_000_000 and fed._modules[0].recordings is None


def test_networks_of_one_name_share_recordings_whatever_their_weights(at_once):
    one, both = batch(), [flat(linear()) for _ in range(2)]
    next(both[1].module.parameters()).data.add_(1.0)
    found = [[of.gradient(theta(of), one) for _ in range(2)][1] for of in both]
    expected = [flat(of.module, None).gradient(theta(of), one) for of in both]
    assert both[0].recordings is both[1].recordings and played(both[0]) == played(both[1]) == [True]
    assert all(
        torch.equal(*pair) for pair in zip(found, expected, strict=True)
    ) and not torch.equal(*found)
    others = [
        flat(linear(), "other"),
        flat(models.build("linear", (9,), 3)),
        flat(linear(), loss="half_cross_entropy"),
        flat(linear(), dtype=torch.float64),
    ]
    assert len({id(of.recordings) for of in (both[0], *others)}) == 5


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda fed: pickle.loads(pickle.dumps(fed))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("name", [None, "some"])
def test_a_copied_federation_trains_and_evaluates_as_the_first(name, way, at_once):
    data = [(batch(seed=k).x, batch(seed=k).y) for k in (1, 2)]
    build = functools.partial(models.build, "linear", (9,), 2)
    first = Federation.from_arrays(
        data, data, build, Schedule(3, batch_size=2), device="cpu", recorded_as=name
    )
    state, _ = FedAvg().round(first, FedAvg().start(first), 1)
    second = way(first)
    found = [FedAvg().round(fed, state, 2)[0] for fed in (first, second)]
    assert torch.equal(found[0]["theta"], found[1]["theta"]) and not torch.equal(
        found[0]["theta"], state["theta"]
    )
    for each in (state, found[0]):
        assert all(
            torch.equal(*pair)
            for pair in zip(*(fed.evaluate(each) for fed in (first, second)), strict=True)
        )


# --- what must not go wrong ---


def test_recording_leaves_a_batch_as_it_was_though_the_network_writes_into_it(at_once):
    of, one = flat(nn.Sequential(nn.LeakyReLU(0.5, inplace=True), nn.Linear(9, 2))), batch()
    expected = flat(of.module, None).gradient(theta(of), batch())
    assert torch.equal(of.gradient(theta(of), one), expected)
    assert made(of) == [True]  # of a copy


def test_a_batch_of_a_diverged_run_is_not_what_a_recording_is_judged_by(at_once):
    of = flat(linear())
    start = theta(of)
    for _ in range(2):
        assert of.gradient(start * float("nan"), batch()).isnan().all()
    assert played(of) == []
    of.gradient(start, batch())
    assert played(of) == [True]
    assert of.gradient(start * float("nan"), batch()).isnan().all()


def test_a_recording_with_other_bits_is_not_used(at_once, monkeypatch):
    """As if the interpreter rounded otherwise."""
    plain = recording._plain

    def wrong(operations):
        for node in operations.graph.nodes:
            if node.op == "output":
                with operations.graph.inserting_before(node):
                    node.args = (
                        operations.graph.call_function(
                            torch.ops.aten.mul.Tensor, (node.args[0], 1 + 2**-20)
                        ),
                    )
        return plain(operations)

    monkeypatch.setattr(recording, "_plain", wrong)
    of = flat(linear())
    found = [of.gradient(theta(of), batch()) for _ in range(2)]
    assert played(of) == [False]
    assert torch.equal(*found) and torch.equal(
        found[0], flat(of.module, None).gradient(theta(of), batch())
    )


@pytest.mark.parametrize("step", ["script", "play"])
def test_what_cannot_be_recorded_or_played_is_computed(step, at_once, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such interpreter")

    monkeypatch.setattr(
        torch.jit,
        "script",
        broken if step == "script" else lambda _: types.SimpleNamespace(forward=broken),
    )
    of = flat(linear())
    assert all(of.gradient(theta(of), batch()).abs().sum() > 0 for _ in range(2))
    assert (made(of), played(of)) == (([False], []) if step == "script" else ([True], [False]))


def test_a_recording_that_leaves_other_statistics_is_not_used(at_once, monkeypatch):
    record = recording.Recordings._record

    def wrong(*args):
        play = record(*args)
        return lambda theta, statistics, x, y: (
            play(theta, statistics, x, y),
            statistics.add_(1e-6),
        )[0]

    monkeypatch.setattr(recording.Recordings, "_record", wrong)
    of = flat(models.build("pfedla_cnn-norm", (3, 16, 16), 2))
    walk(of, [batch((3, 16, 16))])
    assert played(of) == [False]


def test_under_autocast_nothing_is_recorded_or_played(at_once):
    of = flat(nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 2)))
    plain = flat(of.module, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(of.gradient(theta(of), batch()), plain.gradient(theta(of), batch()))
    assert made(of) == []
    of.gradient(theta(of), batch())
    assert played(of) == [True]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(of.gradient(theta(of), batch()), plain.gradient(theta(of), batch()))


def test_threads_that_record_different_networks_leave_torch_as_it_was(monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    call = nn.Module.__call__

    def several(width: int) -> list[bool]:
        of = flat(
            nn.Sequential(nn.Linear(9, width), nn.Tanh(), nn.Linear(width, 2)), f"width {width}"
        )
        for size in (6, 5, 4):
            for _ in range(3):
                of.gradient(theta(of), batch(size=size))
        return played(of)

    with ThreadPoolExecutor(4) as threads:
        assert all(found == [True] * 3 for found in threads.map(several, range(3, 11)))
    assert nn.Module.__call__ is call and not torch.fx._symbolic_trace.is_fx_tracing()
