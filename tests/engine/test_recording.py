"""A recorded gradient gives a computed one's bits, or it is dropped and its work redone."""

import copy
import functools
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from pfl_lib import Federation, Schedule, models
from pfl_lib.engine import LOSSES, Pool, Work, recording
from pfl_lib.engine.flat import FlatModule
from pfl_lib.engine.loop import Loop
from pfl_lib.experiments.runner import federation_of
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.methods import APFL, FedAvg, Scaffold
from pfl_lib.rows import Batch, sgd

# Of the named models, those of fewer than a million parameters: no other is recorded
SHAPES = dict.fromkeys(("lenet5", "lenet5-relu", "lenet5-relu-groupnorm"), (1, 28, 28))
SHAPES |= dict.fromkeys(("linear", "linear-zero", "linear-authors"), (9,)) | {"tf_cnn": (3, 18, 18)}
SHAPES |= dict.fromkeys(("pfedla_cnn", "pfedla_cnn-norm"), (3, 16, 16))


@pytest.fixture(autouse=True)
def nothing_recorded_yet():
    recording.recordings.cache_clear()


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """Each module counts the gradients that it was asked for and those that it computed."""

    def counting(name, call):
        def count(self, *given):
            vars(self)[f"n {name}"] = vars(self).get(f"n {name}", 0) + 1
            return call(self, *given)

        monkeypatch.setattr(FlatModule, name, count)

    for name in ("gradient", "_computed"):
        counting(name, getattr(FlatModule, name))


@pytest.fixture
def at_once(monkeypatch):
    """Record at the first batch of a shape, and compare at the next three."""
    monkeypatch.setattr(recording, "WORTH_RECORDING", 1)
    monkeypatch.setattr("pfl_lib.engine.flat.TRIALS", 3)


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


def several(size: int = 6, shape=(9,), dtype=torch.float32, n: int = 6) -> list[Batch]:
    """Batches of one shape: one to record, three to compare, and two to play."""
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
    assert plays(recorded) == 4 and recorded.recordings.dropped is None
    assert same(found, expected) and found[0].abs().sum() > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_part_of_what_is_recorded(loss, at_once):
    module, one = linear(), several()[-1]
    of = flat(module, loss=loss)
    gradient = [of.gradient(theta(of), each) for each in several()][-1]
    expected = torch.autograd.grad(
        LOSSES[loss](module(one.x), one.y).mean(), list(module.parameters())
    )
    assert plays(of) == 2
    torch.testing.assert_close(gradient, torch.cat([part.reshape(-1) for part in expected]))


def test_statistics_are_left_alone_where_none_are_given(at_once):
    of = flat(models.build("pfedla_cnn-norm", (3, 16, 16), 2))
    *first, one = several(shape=(3, 16, 16))
    rows = of.start
    before = rows["statistics"].clone()
    for each in first:
        of.gradient(rows["theta"], each)
    alone = of.gradient(rows["theta"], one)
    assert plays(of) == 2 and torch.equal(rows["statistics"], before)
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
        assert fed._modules[0].recordings.dropped is None
        assert worth > 7 or sum(plays(module) for module in fed._modules) > 9
    assert counts[0] == 3 and 0 < counts[1] <= 3 and counts[2] == 0  # batches of 4, 2 and 1
    for other in states[1:]:
        assert all(torch.equal(states[0][name], other[name]) for name in other)


def test_batches_are_counted_by_shape_and_layout_in_memory(at_once, monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    of = flat(models.build("tf_cnn", (3, 18, 18), 2))
    batches = several(shape=(3, 18, 18), n=7)
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


@pytest.mark.parametrize(
    "model",
    [
        *(linear(), linear, functools.partial(models.build, "linear", (9,), 2)),
        *(lambda: Steep(1e9), Mine("linear", (9,), 2)),
    ],
    ids=["module", "function", "partial", "own", "subclass"],
)
def test_no_other_network_is_recorded(model, at_once):
    assert federation(model)._modules[0].recordings is None


def test_a_network_of_ones_own_that_is_put_among_the_packages_is_not_recorded(monkeypatch):
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
    assert plays(both[0]) == 2 and plays(both[1]) == 3  # the second had nothing to record
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


def test_a_batch_of_a_diverged_run_is_not_what_a_recording_is_judged_by(at_once):
    of = flat(linear())
    start, batches = theta(of), several()
    for one in batches[:5]:
        assert of.gradient(start * float("nan"), one).isnan().all()
    assert made(of) == [True] and plays(of) == 0
    walk(of, batches[:5])
    assert plays(of) == 2
    of.compare_again()
    for one in batches[:2]:
        assert of.gradient(start * float("nan"), one).isnan().all()
    assert plays(of) == 2 and of.recordings.dropped is None  # neither compared nor played


def test_a_diverged_client_does_not_spare_a_recording_the_comparison_of_its_round(at_once):
    """The recording is right for the first round's kind of batches; then a client is NaN."""
    torch.manual_seed(0)
    of = flat(Branching(9, 2))
    for one in several():
        one.x.add_(9.0)
        of.gradient(theta(of), one)
    assert plays(of) == 2
    of.compare_again()
    of.gradient(theta(of) * float("nan"), batch())
    other = batch(seed=1)
    other.x.sub_(9.0)
    assert torch.equal(of.gradient(theta(of), other), plain(of).gradient(theta(of), other))


def test_a_recording_is_compared_at_its_first_batches_and_in_every_round(at_once, monkeypatch):
    """Made at 0 and tried at 1, 2 and 3; a round begins at 60."""
    of, compared = flat(linear()), []
    compare = of._compared
    monkeypatch.setattr(of, "_compared", lambda *given: compared.append(number) or compare(*given))
    for number, one in enumerate(several(n=110)):
        if number == 60:
            of.compare_again()
        of.gradient(theta(of), one)
    assert compared == [1, 2, 3, 60]


CLIENTS, BATCHES = 3, 7


def rounds(of: FlatModule, kinds=(0.0, 0.0, 0.0), step=sgd) -> list[torch.Tensor]:
    """Clients' rows after rounds by `loop`, 7 batches of 4 each; a round's kind adds to inputs."""
    loop, found = Loop([of]), []
    size = 4 * BATCHES
    work = [
        Work(index, torch.arange(size) % 2, torch.arange(size).split(4))
        for index in torch.arange(CLIENTS * size).split(size)
    ]
    rows = {name: row.expand(CLIENTS, -1) for name, row in of.start.items()}
    settings = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0}
    for number, kind in enumerate(kinds):
        random = torch.Generator().manual_seed(number)
        x = torch.randn(CLIENTS * size, 9, generator=random)
        pool = Pool(x, torch.ones(1), torch.full((1,), kind))
        rows = loop.train(pool, rows, work, step, ("theta", "statistics"), settings)
        found += rows.values()
    return found


class Branching(nn.Linear):
    """Takes another way where the batch is of another kind."""

    def forward(self, x):
        return super().forward(x) * (1 if sum(x[:, 0].tolist()) > 0 else 3)


class Masked(nn.Linear):
    """Scales by a statistic of as many examples as a mask leaves: at least the first."""

    def forward(self, x):
        h = super().forward(x)
        return h / (1 + h[(x[:, 0] > 0) | (torch.arange(len(x)) == 0)].std())


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


@pytest.mark.parametrize("network", [Branching, Masked, Outside])
def test_a_network_whose_python_looks_at_the_batch_gives_the_bits_of_computed_rounds(
    network, monkeypatch
):
    """Where a number of examples is all that is seen, several batches agree by chance."""
    monkeypatch.setattr(recording, "WORTH_RECORDING", 1)
    torch.manual_seed(0)
    of = flat(network(9, 2))
    with pytest.warns(RuntimeWarning, match="failed: it gives other numbers than the computed one"):
        found = rounds(of)
    assert same(found, rounds(plain(of))) and made(of) == [True]


def test_a_difference_in_a_later_round_is_said_and_that_round_is_computed(at_once):
    """The first round's batches are of one kind, and its recording is right for them."""
    torch.manual_seed(0)
    module, kinds = Branching(9, 2), (9.0, -9.0, 9.0)
    of = flat(module)
    first = rounds(of, kinds[:1])
    assert plays(of) == CLIENTS * BATCHES - 4 and of.recordings.dropped is None
    sentence = (
        "^a recorded gradient of Branching failed: it gives other numbers than the computed one;"
        " this round's clients are trained again, and from now on, by computed gradients$"
    )
    with pytest.warns(RuntimeWarning, match=sentence) as said:
        found = rounds(of, kinds)
    assert len(said) == 1
    assert same(found, rounds(flat(module, None), kinds)) and same(found[:2], first)


def replayed(monkeypatch, change) -> None:
    """Each playback becomes `change(play, number, *given)`; all recordings count as one."""
    record, numbers = recording.Recordings._record, itertools.count(1)

    def recorded(*made_of):
        play = record(*made_of)
        return lambda *given: change(play, next(numbers), *given)

    monkeypatch.setattr(recording.Recordings, "_record", recorded)


def test_clients_that_played_before_the_difference_are_trained_again_too(at_once, monkeypatch):
    """Compared at batches 1 to 3, wrong from 5 on; what ends it comes in the last client's work."""

    def wrong(play, number, *given):
        if number == 18:
            raise RuntimeError("no memory")
        return play(*given) * (1 + (number >= 5))

    replayed(monkeypatch, wrong)
    module = linear()
    with pytest.warns(RuntimeWarning, match="it cannot be played"):
        found = rounds(flat(module))
    assert same(found, rounds(flat(module, None)))


def crashing(monkeypatch, at: int) -> None:
    """Recordings whose playback fails the `at`-th time, with statistics half written."""

    def broken(play, number, theta, statistics, x, y):
        if number == at:
            statistics.fill_(7.0)
            raise RuntimeError("The following operation failed.\n\nno memory\n")
        return play(theta, statistics, x, y)

    replayed(monkeypatch, broken)


@pytest.mark.parametrize("at", [1, 4, 12], ids=["first trial", "first play", "later"])
def test_a_playback_that_crashes_is_computed_instead(at, at_once, monkeypatch):
    crashing(monkeypatch, at)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(9, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    of = flat(module)
    with pytest.warns(RuntimeWarning, match=r"failed: it cannot be played \(RuntimeError: no mem"):
        found = rounds(of)
    assert same(found, rounds(flat(module, None)))


def test_a_network_that_cannot_be_recorded_is_computed(at_once, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such interpreter")

    monkeypatch.setattr(torch.jit, "script", broken)
    module = linear()
    of = flat(module)
    assert same(rounds(of), rounds(flat(module, None)))
    assert made(of) == [False] and plays(of) == 0


def test_a_recording_that_leaves_other_statistics_is_dropped(at_once, monkeypatch):
    replayed(monkeypatch, lambda play, _, w, of, x, y: (play(w, of, x, y), of.add_(1e-6))[0])
    of = flat(models.build("pfedla_cnn-norm", (3, 16, 16), 2))
    walk(of, several(shape=(3, 16, 16), n=2))
    assert of.recordings.dropped == "it gives other numbers than the computed one"


def test_a_step_that_draws_random_numbers_draws_the_same_where_a_round_is_taken_again(
    at_once, monkeypatch
):
    crashing(monkeypatch, at=9)

    def noisy(rows, gradient, batch) -> None:
        sgd(rows, gradient, batch)
        rows["theta"].add_(torch.randn_like(rows["theta"]))

    of = flat(linear())
    torch.manual_seed(4)
    with pytest.warns(RuntimeWarning, match="cannot be played"):
        found = rounds(of, step=noisy)
    torch.manual_seed(4)
    assert same(found, rounds(plain(of), step=noisy))


def test_under_autocast_nothing_is_recorded_or_played(at_once):
    module = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 2))
    of = flat(module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(walk(of, several()), walk(plain(of), several()))
    assert made(of) == []
    walk(of, several())
    assert plays(of) == 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(walk(of, several()), walk(plain(of), several()))
    assert plays(of) == 2


def test_threads_that_record_different_networks_leave_torch_as_it_was(at_once, monkeypatch):
    monkeypatch.setattr(recording, "WORTH_RECORDING", 2)
    call = nn.Module.__call__

    def of_width(width: int) -> int:
        network = nn.Sequential(nn.Linear(9, width), nn.Tanh(), nn.Linear(width, 2))
        of = flat(network, f"width {width}")
        for size in (6, 5):
            walk(of, several(size, n=7))
        return plays(of)

    with ThreadPoolExecutor(4) as threads:
        assert all(found == 4 for found in threads.map(of_width, range(3, 9)))
    assert nn.Module.__call__ is call and not torch.fx._symbolic_trace.is_fx_tracing()
