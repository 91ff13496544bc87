"""Local training: `loop` and `vmap` give plain PyTorch's numbers, for any number of threads."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pfl_lib import Federation, Schedule
from pfl_lib.data.source import Dataset
from pfl_lib.engine import LOSSES, Pool
from pfl_lib.federation import clients as client_data
from pfl_lib.federation import evaluation
from pfl_lib.methods import APFL, FedAvg, Scaffold
from pfl_lib.models.cnn import LeNet5
from pfl_lib.partitions.base import Partition
from pfl_lib.randomness import generator
from pfl_lib.rows import copies, descend
from tests.common import refused

MOVING = {"momentum": 0.9, "weight_decay": 0.01}
SIZES = (7, 12, 1, 10)  # batches of four: short last ones of 3, 0, 1 and 2 examples


class Normed(nn.Module):
    """A convolution, BatchNorm twice (once without learnt scales), a number, a linear layer; 28x28
    images.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 5, stride=4)
        self.norm = nn.BatchNorm2d(3)
        self.again = nn.BatchNorm2d(3, affine=False, momentum=0.3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.fc = nn.Linear(3 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.scale * self.again(self.norm(self.conv(x)).tanh()).flatten(1))


NETWORKS = {"lenet5": lambda: LeNet5(classes=3), "batchnorm": Normed}
ENGINES = pytest.mark.parametrize("engine", ["loop", "vmap"])


def images(sizes=SIZES, dtype=torch.float64) -> list[tuple[torch.Tensor, torch.Tensor]]:
    random, data = torch.Generator().manual_seed(0), []
    for client, size in enumerate(sizes):
        x = torch.randn(size, 1, 28, 28, generator=random, dtype=torch.float64).to(dtype)
        data.append((x + 0.1 * client, torch.randint(3, (size,), generator=random)))
    return data


def ragged(network="lenet5", dtype=torch.float64, rounds=2, sizes=SIZES, **settings) -> Federation:
    """Clients of unequal sizes; `settings` are the schedule's or, by name, the federation's."""
    own = {name: settings.pop(name) for name in ("engine", "threads", "alice") if name in settings}
    schedule = Schedule(rounds, **{"batch_size": 4, "lr": 0.1, **settings})
    data, network = images(sizes, dtype), NETWORKS.get(network, network)
    return Federation.from_arrays(
        data, data, network, schedule, **{"alice": 0, **own}, device="cpu", dtype=dtype
    )


def played(method, fed: Federation) -> list[dict[str, torch.Tensor]]:
    state, states = method.start(fed), []
    for r in range(1, fed.schedule.rounds + 1):
        state, _ = method.round(fed, state, r)
        states.append({name: value.nan_to_num(-1) for name, value in state.items()})
    return states


def test_loop_and_vmap_agree_in_float32():
    feds = (ragged(rounds=1, engine=one, dtype=torch.float32) for one in ("loop", "vmap"))
    [loop], [vmap] = (played(Scaffold(), fed) for fed in feds)
    for name in loop:
        torch.testing.assert_close(vmap[name], loop[name], rtol=1e-4, atol=1e-6)


def twice_frozen(rows, gradient, batch) -> None:
    """Two gradients, the second at a looked-ahead model; some columns stay where they are."""
    ahead = rows["theta"] - 0.05 * gradient(rows["theta"], batch)
    change = gradient(ahead, batch, rows["statistics"]).clone()
    change[..., :10] = 0
    descend(rows, "theta", change, batch)
    rows["steps"].add_(1)


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9}], ids=["plain", "momentum"])
def test_a_step_is_written_once_for_one_row_and_for_many(settings):
    outs = []
    for engine in ("loop", "vmap"):
        fed = ragged("batchnorm", engine=engine, **settings)
        rows = copies(fed.initial(), 4) | {"steps": torch.zeros(4, 1, dtype=torch.float64)}
        out, steps = fed.train(rows, 1, range(4), twice_frozen, trained=("theta", "steps"))
        assert out["steps"][:, 0].tolist() == steps.tolist() == [2, 3, 1, 3]
        assert torch.equal(out["theta"][:, :10], rows["theta"][:, :10])
        outs.append(out)
    for name in outs[0]:
        torch.testing.assert_close(outs[1][name], outs[0][name], rtol=1e-9, atol=1e-11)


def test_a_step_that_takes_one_clients_row_apart_is_given_no_others():
    """Ten columns of theta; of four clients' rows they would be all four whole ones."""

    def frozen(rows, gradient, batch):
        rows["theta"][10:] -= batch.lr * gradient(rows["theta"], batch)[10:]

    fed = ragged()
    fed.engine = "vmap"  # as on a GPU, where nothing was asked for
    rows = copies(fed.initial(), 4)
    moved = (fed.train(rows, 1, range(4), frozen)[0]["theta"] != rows["theta"]).any(0)
    assert not moved[:10].any() and moved[10:].any()


@ENGINES
def test_training_leaves_its_input_as_it_was(engine):
    fed = ragged("batchnorm", engine=engine, **MOVING)
    rows = {name: matrix.clone() for name, matrix in copies(fed.initial(), 4).items()}
    before = copy.deepcopy(rows)
    fed.train(rows, 1, range(4))
    assert rows.keys() == before.keys()
    assert all(torch.equal(rows[name], before[name]) for name in before)


@ENGINES
def test_dropout_of_nothing_is_taken(engine):
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(784, 3))
    fed = ragged(network, engine=engine)
    assert fed.train(copies(fed.initial(), 4), 1, range(4))[1].tolist() == [2, 3, 1, 3]


@ENGINES
@pytest.mark.parametrize(("sizes", "one"), [(SIZES, 1), ((8, 9), 9)], ids=["alone", "left over"])
def test_a_batch_of_one_that_batchnorm_cannot_normalise_is_refused(engine, sizes, one):
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 3), nn.BatchNorm1d(3))
    cure = "another norm, such as GroupNorm" if one == 1 else "another batch_size"
    told = f"batch of 1, client {sizes.index(one)}'s last: .*; give {cure}$"
    for alice in (None, 0):  # who trains with the others too
        refused(told, ragged, network, sizes=sizes, engine=engine, alice=alice)
    fits = ragged(network, sizes=sizes[:1]).initial()["statistics"]
    assert fits.tolist() == [0, 0, 0, 1, 1, 1], "it was changed by the check"


@ENGINES
def test_only_batches_that_are_trained_on_must_fit_batchnorm(engine):
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 3), nn.BatchNorm1d(3))
    of = {"network": network, "sizes": (8, 9), "engine": engine}
    fed = ragged(rounds=2, local_batches=1, **of)  # of nine examples a third batch holds one
    refused("batch of one: Expec", fed.train, copies(fed.initial(), 1), 1, [1], epochs=1)
    refused("batch of 1, client 1's last", ragged, rounds=3, local_batches=1, **of)
    assert len(ragged(rounds=3, availability=((1, 4, 9),), **of)) == 2  # never there


@ENGINES
@pytest.mark.parametrize("network", NETWORKS)
def test_sgd_with_momentum_and_weight_decay_and_statistics_are_torchs(network, engine):
    fed = ragged(network, engine=engine, local_epochs=2, **MOVING)
    out, steps = fed.train(copies(fed.initial(), 4), 2, range(4))
    assert steps.tolist() == [4, 6, 2, 6]
    for client, (x, y) in enumerate(images()):
        module = NETWORKS[network]().double()
        named = fed.layout.named(**fed.initial())
        module.load_state_dict(named, strict=False)
        sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        for epoch in range(2):
            drawn = generator(fed.seed, "batches", 2, client, epoch)
            for batch in torch.randperm(len(y), generator=drawn).split(4):
                sgd.zero_grad()
                F.cross_entropy(module(x[batch]), y[batch]).backward()
                sgd.step()
        by_torch = fed.layout.rows(module)
        for name in ("theta", "statistics"):
            torch.testing.assert_close(out[name][client], by_torch[name], rtol=1e-9, atol=1e-11)


@ENGINES
def test_a_gradient_that_is_not_given_statistics_leaves_them_alone(engine):
    fed = ragged("batchnorm", engine=engine)

    def silent(rows, gradient, batch) -> None:
        descend(rows, "theta", gradient(rows["theta"], batch), batch)

    out, _ = fed.train(copies(fed.initial(), 4), 1, range(4), silent)
    heard, _ = fed.train(copies(fed.initial(), 4), 1, range(4))
    assert torch.equal(out["statistics"], copies(fed.initial(), 4)["statistics"])
    # In training BatchNorm reads the batch, not the statistics.
    assert torch.equal(out["theta"], heard["theta"])


@pytest.mark.parametrize("loss", LOSSES)
def test_evaluation_is_a_plain_loop_in_evaluation_mode(monkeypatch, loss):
    """Batches that hold several clients, and clients that span several batches."""
    monkeypatch.setattr(evaluation, "EVALUATED", 5)
    data = client_data.from_arrays(images(), images((3, 9, 2, 6)))
    fed = Federation(
        data, Normed, Schedule(1, batch_size=4), device="cpu", dtype=torch.float64, loss=loss
    )
    trained, _ = fed.train(copies(fed.initial(), 4), 1, range(4))

    def plainly(row: int, client: int) -> tuple[float, float]:
        module, named = Normed().double(), {name: rows[row] for name, rows in trained.items()}
        module.load_state_dict(fed.layout.named(**named), strict=False)
        x, y = images((3, 9, 2, 6))[client]
        logits = module.eval()(x)
        mean = F.cross_entropy(logits, y).item() * (0.5 if loss == "half_cross_entropy" else 1)
        return mean, (logits.argmax(1) == y).double().mean().item()

    each_own = torch.stack(fed.evaluate(trained), 1).tolist()
    assert each_own == [pytest.approx(plainly(i, i), rel=1e-12) for i in range(4)]
    one_model = {name: matrix[1] for name, matrix in trained.items()}
    some = torch.stack(fed.evaluate(one_model, clients=[3, 0]), 1).tolist()
    assert some == [pytest.approx(plainly(1, i), rel=1e-12) for i in (3, 0)]
    on_train, _ = fed.evaluate(one_model, "train", [2])
    assert on_train.dtype == torch.float64 and on_train.shape == (1,)


def test_examples_are_what_evaluation_averages():
    fed = ragged("batchnorm")
    losses, correct = fed.examples(fed.initial(), "test", 1)
    loss, accuracy = fed.evaluate(fed.initial(), clients=[1])
    assert losses.shape == correct.shape == (12,)
    assert losses.mean().item() == pytest.approx(loss.item(), rel=1e-12)
    assert correct.mean().item() == pytest.approx(accuracy.item(), rel=1e-12)


@ENGINES
@pytest.mark.parametrize("part", ["", "norm"])
def test_evaluation_between_rounds_changes_no_training(engine, part):
    """Nor does it matter in which mode the user's module, or a part of it, is handed over."""
    network, states = Normed(), []
    network.get_submodule(part).eval()
    for look in (True, False):
        fed = ragged(network, engine=engine)
        state = FedAvg().start(fed)
        for r in (1, 2):
            state, _ = FedAvg().round(fed, state, r)
            if look:
                fed.evaluate(state)
        states.append(state)
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("method", [Scaffold(), APFL()], ids=lambda method: method.name)
@pytest.mark.parametrize("network", NETWORKS)
def test_two_at_once_give_the_bits_of_one(method, network):
    alone, together = (
        played(method, ragged(network, torch.float32, threads=threads, alice=None, **MOVING))
        for threads in (1, 2)
    )
    pairs = zip(alone, together, strict=True)
    assert all(torch.equal(one[name], two[name]) for one, two in pairs for name in one)


def test_an_error_in_one_of_several_is_not_lost():
    fed = ragged(threads=2)

    def broken(rows, gradient, batch) -> None:
        raise ArithmeticError("a step of one's own that fails")

    fed.train(copies(fed.initial(), 4), 1, range(4))
    for _ in range(3):  # and no module is lost with it
        with pytest.raises(ArithmeticError, match="a step of one's own that fails"):
            fed.train(copies(fed.initial(), 4), 1, range(4), broken)
    fed.train(copies(fed.initial(), 4), 1, range(4))


def test_steps_of_several_at_once_that_draw_random_numbers_are_refused():
    def noisy(rows, gradient, batch) -> None:
        noise = torch.randn_like(rows["theta"])
        descend(rows, "theta", gradient(rows["theta"], batch) + noise, batch)

    one, two = (ragged(threads=threads) for threads in (1, 2))
    given = copies(one.initial(), 4), 1, range(4), noisy
    one.train(*given)  # one after the other, always in the same order
    refused("^a local step draws random numbers that follow no seed", two.train, *given)


@pytest.mark.parametrize(
    ("mean", "std"),
    [((0.1307,), (0.3081,)), ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))],
    ids=["grey", "rgb"],
)
def test_bytes_are_normalised_as_torchvision_does(mean, std):
    random = torch.Generator().manual_seed(0)
    x = torch.randint(256, (6, len(mean), 5, 4), dtype=torch.uint8, generator=random)
    y = torch.arange(6) % 2
    dataset = Dataset("made up", x, y, x, y, 2, mean, std, "none")
    parts = Partition("made up", (torch.tensor([4, 1]),), (torch.tensor([0]),))
    split = client_data.from_partition(dataset, parts).splits["train"]
    shaped = [torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (mean, std)]
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        found = split.pool.to(torch.device("cpu"), dtype).inputs(split.index[0])
        torchvisions = (x[[4, 1]].double() / 255 - shaped[0]) / shaped[1]
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), torchvisions, rtol=tolerance, atol=tolerance)
    side_by_side = split.pool.inputs(torch.tensor([[4, 1], [0, 5]]))
    torch.testing.assert_close(side_by_side[0], split.pool.inputs(torch.tensor([4, 1])))


def test_inputs_in_the_networks_own_type_are_not_written_to():
    x = torch.ones(3, 2, dtype=torch.float64)
    pool = Pool(x, *torch.tensor([[2.0], [1.0]], dtype=torch.float64))
    assert pool.inputs(torch.tensor([0, 2])).tolist() == [[3, 3], [3, 3]]
    assert x.tolist() == [[1, 1]] * 3
