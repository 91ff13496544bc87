"""A federation: data of one's own, who takes part, where training starts."""

import numpy as np
import pytest
import torch
from torch import nn

import pfl_lib
from pfl_lib import Federation, Schedule
from pfl_lib.federation.devices import cores
from pfl_lib.methods import FedAvg
from pfl_lib.progress import tell
from pfl_lib.rows import copies
from tests.common import refusal, refused


def network() -> nn.Module:
    return nn.Linear(3, 2)


def arrays(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    draw, of = np.random.default_rng(0), np.float32
    return [(draw.normal(size=(n, 3)).astype(of), draw.integers(0, 2, n)) for n in sizes]


def federation(model=network, sizes=(4, 6, 5, 3, 8, 2), rounds=5, schedule=None, **settings):
    data, schedule = arrays(*sizes), Schedule(rounds, **schedule or {})
    return Federation.from_arrays(data, data, model, schedule, device="cpu", **settings)


def test_arrays_of_ones_own_are_held_client_by_client():
    data, held_out = arrays(4, 6), {"validation": arrays(2, 3), "device": "cpu"}
    fed = Federation.from_arrays(data, data[::-1], network, Schedule(1), **held_out)
    assert len(fed) == 2 and fed.sizes().tolist() == [4, 6] and fed.sizes([1]).tolist() == [6]
    for split, sizes in (("train", [4, 6]), ("test", [6, 4]), ("validation", [2, 3])):
        held = fed.clients.splits[split]
        assert [*map(len, held.index)] == [*map(len, held.labels)] == sizes
    held = fed.clients.splits["train"]
    assert np.array_equal(held.pool.x[held.index[1]].numpy(), data[1][0])
    assert np.array_equal(held.labels[1].numpy(), data[1][1])
    assert fed.clients.classes == 2 and fed.clients.input_shape == (3,)
    own = {"names": ["north", "south"], "alice": "south", "loss": "half_cross_entropy"}
    halved = Federation.from_arrays(data, data, network, Schedule(1), **own, device="cpu")
    assert (halved.alice, halved.clients.names) == (1, ("north", "south"))
    losses, plain = (of.evaluate(of.initial(), "train")[0] for of in (halved, fed))
    assert torch.equal(2 * losses, plain)


def pairs(n: int, width: int, labels: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.zeros((n, width)), np.zeros(labels))]


def test_float64_and_whole_number_inputs_are_taken_in_the_federations_type():
    data = [(np.arange(12).reshape(4, 3), np.array([0, 1, 1, 0]))]
    of = {"device": "cpu", "dtype": torch.float64}
    fed = Federation.from_arrays(data, data, network, Schedule(1), **of)
    loss, _ = fed.evaluate(fed.initial())
    module, x = network().double(), torch.arange(12.0).double().view(4, 3)
    nn.utils.vector_to_parameters(fed.initial()["theta"], module.parameters())
    plain = nn.functional.cross_entropy(module(x), torch.tensor([0, 1, 1, 0]))
    assert loss.item() == pytest.approx(plain.item(), rel=1e-12)


def test_data_that_do_not_fit_together_are_refused():
    for train, test, sentence in (
        ([], [], "train, test and validation hold 0, 0 and 0 clients: give each client one pair"),
        (arrays(2, 2), arrays(2), "train, test and validation hold 2, 1 and 0 clients: give each"),
        (pairs(2, 3, 3), arrays(2), "client 0's train split has 2 inputs and 3 labels: give"),
        (pairs(0, 3, 0), arrays(2), "client 0's train split has 0 inputs and 0 labels: give"),
        (arrays(2), pairs(0, 3, 0), "client 0 has no test examples, so her model cannot be read"),
        ([*arrays(2), *pairs(2, 4, 2)], arrays(2, 2), "examples have shapes (3,), (4,): all clie"),
        ([(np.zeros((2, 3)), [0, -1])], arrays(2), "labels run from -1 to 1: allowed are 0 to 1"),
        ([(np.full((2, 3), 1e300), [0, 1])], arrays(2), "inputs hold 1e+300, which is infinite in"),
    ):
        told = refusal(Federation.from_arrays, train, test, network, Schedule(1))
        assert told.startswith(sentence)


def test_a_client_without_test_examples_trains_beside_alice():
    """The run is the one in which she has some, which nobody reads."""
    schedule, results = Schedule(2, batch_size=2), []
    for hers in (([], []), (np.zeros((0, 3), np.float32), []), arrays(3)[0]):
        test = [arrays(4)[0], hers]
        fed = Federation.from_arrays(arrays(4, 6), test, network, schedule, alice=0)
        results.append(pfl_lib.run("waffle", federation=fed).metrics)
        told = "client 1 has no test examples, so her model cannot be read"
        if not len(hers[0]):
            refused(told, Federation.from_arrays, arrays(4, 6), test, network, schedule)
            refused(told, fed.evaluate, fed.initial())
            refused(told, fed.examples, fed.initial(), "test", 1)
    assert results[0].equals(results[2]) and results[1].equals(results[2])


def test_clients_and_rows_that_do_not_fit_are_refused():
    fed = federation()
    for clients in ([9], [True], [-1]):
        refused(f"client {clients[0]} is not one of the clients 0 to 5", fed.sizes, clients)
    for clients in (2, torch.tensor(2)):
        told = "^clients .*: give a list of their numbers"
        refused(told, fed.evaluate, fed.initial(), "test", clients)
    assert fed.sizes(iter([0, 2])).tolist() == [4, 5]
    for clients, rows, sentence in (
        ([0, -1], 2, "client -1 is not one of the clients 0 to 5"),
        ([0, 6], 2, "client 6 is not one of the clients 0 to 5"),
        ([0, 1.0], 2, "client 1.0 is not one of the clients 0 to 5"),
        ([0, 1], 3, "3 rows of 'theta' for 2 clients: give each one"),
        ([0, 1], {"theta": torch.ones(2, 8).long()}, "theta is torch.int64: give fractions"),
        ([0, 1], {"theta": torch.ones(2, 1)}, "[2, 1] theta: give rows of 8, as initial()"),
        ([0, 1], {"statistics": torch.ones(2, 1)}, "[2, 1] statistics: give rows of 0, as"),
    ):
        held = copies(fed.initial(), rows if isinstance(rows, int) else 2)
        rows = held if isinstance(rows, int) else held | rows
        assert refusal(fed.train, rows, 1, clients).startswith(sentence)
        assert refusal(fed.evaluate, rows, clients=clients).startswith(sentence)


@pytest.mark.parametrize("engine", ["loop", "vmap"])
def test_no_clients_are_trained_to_no_rows(engine):
    fed = federation(engine=engine)
    rows, steps = fed.train(copies(fed.initial(), 0), 1, [])
    assert len(rows["theta"]) == len(steps) == 0
    for model in (fed.initial(), copies(fed.initial(), 0)):
        assert [found.tolist() for found in fed.evaluate(model, clients=[])] == [[], []]


def test_a_client_is_trained_once_in_a_whole_round_and_evaluated_as_often_as_asked():
    fed = federation()
    rows = copies(fed.initial(), 2)
    refused(r"^clients \[1, 1\]: give each of them once$", fed.train, rows, 1, [1, 1])
    for wrong in (-1, 1.0, None):
        refused(f"^round {wrong}: give a whole number, 0 or more$", fed.train, rows, wrong, [0, 1])
    refused("^epochs 0: give a whole number, 1 or more$", fed.train, rows, 1, [0, 1], epochs=0)
    assert len(fed.evaluate(rows, clients=np.array([1, 1]))[0]) == 2


def test_settings_that_do_not_fit_the_clients_are_refused():
    away = {"availability": ((6, 1, 2),)}
    for settings, sentence in (
        *(
            ({"alice": a}, f"alice {a!r} is not one of the clients 0 to 5")
            for a in (6, -1, "0", True)
        ),
        ({"seed": 1.5}, "seed 1.5: give a whole number"),
        ({"dtype": torch.float16}, "dtype torch.float16: give torch.float32 or torch.float64"),
        ({"engine": "fast"}, "engine 'fast' is not one of auto, loop, vmap"),
        ({"schedule": away}, "availability names client 6; the clients are 0 to 5"),
    ):
        assert refusal(federation, **settings) == sentence


def test_a_split_that_is_not_there_is_refused():
    fed = federation()
    told = refusal(fed.evaluate, fed.initial(), "validation")
    assert told.startswith("split 'validation': nothing is held out; give run or from_csv valid")
    refused("'valid' is not one of train, test", fed.evaluate, fed.initial(), "valid")


@pytest.mark.parametrize("schedule", [None, {"rounds": 3}], ids=str)
def test_what_is_no_schedule_is_refused(schedule):
    told = refusal(Federation.from_arrays, arrays(2), arrays(2), network, schedule)
    assert told.startswith(f"schedule {schedule!r}: give a pfl_lib.Schedule, such as Schedule(")


class Viewing(nn.Module):
    """The tutorials' way to flatten: by `view`, which channels-last images cannot be."""

    def __init__(self, view: bool) -> None:
        super().__init__()
        self.convolution, self.head, self.view = nn.Conv2d(3, 4, 3), nn.Linear(16, 2), view

    def forward(self, x):
        x = self.convolution(x).relu()
        return self.head(x.view(-1, 16) if self.view else x.flatten(1))


@pytest.mark.parametrize("engine", ["loop", "vmap"])
def test_a_network_that_views_its_activations_trains_as_one_that_flattens_them(engine):
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 6, 3, 4, 4, generator=random), torch.arange(12).reshape(2, 6) % 2
    data, rows = list(zip(x, y, strict=True)), []
    for view in (True, False):
        make, where = lambda view=view: Viewing(view), {"engine": engine, "device": "cpu"}
        fed = Federation.from_arrays(data, data, make, Schedule(1, batch_size=4), **where)
        rows.append(fed.train(copies(fed.initial(), 2), 1, [0, 1])[0]["theta"])
    torch.testing.assert_close(*rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused():
    data = arrays(2)
    told = refusal(Federation.from_arrays, data, data, network, Schedule(1), device="cuda")
    assert told.startswith("device 'cuda' is not available here: give device='cpu' (--device cpu)")


def frozen() -> nn.Module:
    module = network()
    module.bias.requires_grad_(False)
    return module


def computed() -> nn.Module:
    """As torch.nn.utils.weight_norm leaves it."""
    module = network()
    module.twice = 2 * module.bias
    return module


def test_what_is_no_module_or_cannot_learn_from_the_data_is_refused():
    for model, sentence in (
        (nn.Linear(4, 2), "the model cannot take a batch of shape (1, 3): mat1 and mat2 shapes"),
        (nn.Linear(3, 1), "the model gives numbers of shape (1, 1) for a batch of 1; give each e"),
        (nn.Sequential(network(), nn.LSTM(2, 2)), "the model gives a tuple for a batch of 1; give"),
        (nn.Sequential(network(), nn.Flatten(0)), "the model gives numbers of shape (2,) for a b"),
        (nn.Flatten, "model Flatten has no parameters: there is nothing to train"),
        (frozen, "parameter bias is frozen (requires_grad=False): train it, or make it a buffer"),
        (
            lambda: nn.Sequential(network(), nn.BatchNorm1d(2, track_running_stats=False)),
            "BatchNorm with track_running_stats=False is evaluated by whatever else is in the",
        ),
        (nn.Sequential(network(), nn.BatchNorm1d(2, momentum=None)), "BatchNorm with momentum=N"),
        (nn.Sequential(network(), nn.Dropout(0.5)), "the model draws random numbers in training"),
        (nn.Embedding(3, 2, max_norm=1.0), "an embedding with max_norm writes into its parameters"),
        (computed, "the model cannot be copied, since an attribute is computed from its param"),
        (nn.Linear, "model <class 'torch.nn.modules.linear.Linear'> cannot be made: "),
        (lambda seed: network(), "model <function "),
        ("linear", "model 'linear' cannot be made: 'str' object is not callable; give a module"),
        (lambda: nn.Linear, "model <function "),
    ):
        assert refusal(federation, model=model).startswith(sentence)


def test_a_local_step_that_writes_nothing_in_place_is_told(capsys):
    def lost(rows, gradient, batch):
        theta = rows["theta"]
        theta = theta - batch.lr * gradient(theta, batch, rows["statistics"])

    def half(rows, gradient, batch):
        rows["theta"][0] += 1

    def counting(rows, gradient, batch):
        gradient(rows["theta"], batch, rows["statistics"])

    tell.cache_clear()
    fed, normed = federation(), federation(lambda: nn.Sequential(nn.BatchNorm1d(3), network()))
    for one, n, step in ((fed, 2, half), (fed, 0, lost), (normed, 2, counting), (fed, 2, lost)):
        assert capsys.readouterr().err == ""
        one.train(copies(one.initial(), n), 1, range(n), step)
    told = "a local step left all rows as they were: if it is to train, it should change them in"
    assert capsys.readouterr().err.startswith(told)


def test_scores_of_classes_that_no_label_has_are_told(capsys):
    data = [(torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))] * 2
    for scores, told in ((5, "the model gives 5 scores, and the labels are of 2 classes"), (2, "")):
        Federation.from_arrays(data, data, nn.Linear(3, scores), Schedule(1))
        assert told in (found := capsys.readouterr().err) and bool(found) == bool(told)


@pytest.mark.parametrize("alice", [None, 0])
def test_a_client_that_is_never_drawn_has_to_fit_all_the_same(alice):
    """Else the same federation would be taken with one seed and refused with another."""
    schedule = {"participation": 0.5, "batch_size": 3}

    def normalised() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))

    settings, drawn = {"sizes": (3, 4), "rounds": 1, "schedule": schedule, "alice": alice}, set()
    for seed in range(1, 5):
        sentence = refusal(federation, model=normalised, seed=seed, **settings)
        assert sentence.startswith("the model cannot train on a batch of 1, client 1's last")
        drawn.add(tuple(federation(seed=seed, **settings).participants(1)))
    assert (0,) in drawn  # so some seeds never draw client 1


def test_the_initial_model_follows_the_seed_alone_and_leaves_torchs_random_numbers_alone():
    first = federation(seed=1).initial()["theta"]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(federation(seed=1, rounds=9, alice=2, threads=2).initial()["theta"], first)
    assert torch.equal(torch.rand(3), expected)
    assert not torch.equal(federation(seed=2).initial()["theta"], first)


def test_one_client_is_trained_at_a_time_unless_more_are_asked_for():
    clients = federation().clients
    one, three = (Federation(clients, network, Schedule(1), **of) for of in ({}, {"threads": 3}))
    assert (len(one._modules), len(three._modules)) == (1, 3)


def test_a_module_of_ones_own_is_where_everybody_starts_and_is_left_alone():
    module = network()
    before = nn.utils.parameters_to_vector(module.parameters()).clone()
    fed = federation(model=module, seed=7)
    assert torch.equal(fed.initial()["theta"], before)
    FedAvg().round(fed, FedAvg().start(fed), 1)
    assert torch.equal(nn.utils.parameters_to_vector(module.parameters()), before)


def test_other_clients_are_drawn_in_other_rounds_and_for_other_seeds():
    feds = [federation(schedule={"participation": 0.5}, seed=seed) for seed in (1, 2)]
    draws = [[fed.participants(r) for r in range(1, 9)] for fed in feds]
    assert draws[0] != draws[1]
    assert set().union(*draws[0]) == set(range(6))
    assert len(set(map(tuple, draws[0]))) > 3


def test_a_round_without_alice_or_without_anybody_is_refused():
    away = {"schedule": {"availability": ((2, 1, 1),)}, "alice": 2}
    assert federation(rounds=1, **away).participants(1) == list(range(6))
    sentence = "Alice (client 2) is not available in round 2: change the schedule's availability"
    assert refusal(federation, **away) == sentence
    empty = {"sizes": (4,), "schedule": {"availability": ((0, 1, 2), (0, 4, 9))}}
    sentence = "no client is available in round 3: change the schedule's availability"
    assert refusal(federation, **empty) == sentence


def test_some_clients_are_trained_as_they_are_among_all():
    fed = federation(schedule={"batch_size": 2})
    everybody, steps = fed.train(copies(fed.initial(), 6), 2, range(6))
    some, some_steps = fed.train(copies(fed.initial(), 2), 2, [4, 1])
    assert torch.equal(some["theta"], everybody["theta"][[4, 1]])
    assert steps.tolist() == [2, 3, 3, 2, 4, 1] and some_steps.tolist() == [4, 3]


def test_a_limit_lowers_the_number_of_cores_and_never_raises_it(monkeypatch):
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    there = cores()
    for limit, expected in ((1, 1), (there + 5, there)):
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", str(limit))
        assert cores() == expected


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_pictures_of_whole_numbers_are_told_to_be_divided(kind, capsys):
    tell.cache_clear()
    pairs = [(torch.full((4, 1, 2, 2), 200, dtype=kind), torch.tensor([0, 1, 0, 1]))]
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    Federation.from_arrays(pairs, pairs, network, Schedule(1), device="cpu")
    assert "divided by 255" in capsys.readouterr().err
    Federation.from_arrays([(pairs[0][0] / 255, pairs[0][1])], pairs, network, Schedule(1))
    assert capsys.readouterr().err == ""
