"""`pfl_lib.run`: what a notebook user gets back, and in which words a mistake is told."""

import dataclasses
import random
import shutil
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import pfl_lib
from pfl_lib import DPSGD, Federation, Result, Schedule, partitions
from pfl_lib import data as data_sets
from pfl_lib.experiments.spec import FederationRun
from pfl_lib.federation.behaviour import behaviour_of
from pfl_lib.federation.clients import from_arrays
from pfl_lib.federation.model_checks import make_module
from pfl_lib.methods import METHODS, FedAvg, Waffle
from pfl_lib.models.cnn import LeNet5
from pfl_lib.results import files
from pfl_lib.results import store as stores
from pfl_lib.rows import copies, model
from tests.common import fresh, no_room, refusal, refused
from tests.experiments.common import drawn

QUICK = {"dataset": "digits", "clients": 3, "rounds": 2, "device": "cpu"}


@pytest.fixture
def run(results_dir):
    """`pfl_lib.run` on three clients of the digits, two rounds, into a folder of this test's."""

    def go(method, **settings) -> Result:
        return pfl_lib.run(method, **{**QUICK, "results_dir": results_dir, **settings})

    return go


# --- results ---
@pytest.mark.parametrize("name", ["fedavg", "apfl"])
def test_a_method_gives_a_tidy_table_of_alices_rounds(run, name):
    result = run(name)
    assert list(result.metrics.columns)[:4] == ["round", "client", "accuracy", "loss"]
    assert result.metrics[["round", "client"]].to_numpy().tolist() == [[1, 0], [2, 0]]
    assert result.metrics["accuracy"].between(0, 1).all() and (result.metrics["loss"] > 0).all()
    assert isinstance(result.weights, np.ndarray) and result.weights.shape == (2, 3)
    assert result.config["method"]["name"] == name
    assert result.diverged is None and result.seconds > 0
    assert result.last_accuracy == result.metrics["accuracy"].iloc[-1]
    assert result.best_accuracy == result.metrics["accuracy"].max()
    assert ("alpha" in result.metrics) == (name == "apfl")


def test_without_alice_every_client_has_a_row_and_accuracies_are_means(run):
    result = run("local", alice=None)
    assert result.metrics["client"].tolist() == [0, 1, 2] * 2
    means = result.metrics.groupby("round")["accuracy"].mean()
    assert result.accuracy_by_round().tolist() == means.tolist()
    assert result.last_accuracy == means[2] and result.best_accuracy == means.max()


def test_another_alice_is_read(run):
    alone = run("local", alice=2)
    assert set(alone.metrics["client"]) == {2} and alone.weights.tolist() == [[0, 0, 1]] * 2
    among = run("local", alice=None).metrics.query("client == 2")
    assert alone.metrics["accuracy"].tolist() == among["accuracy"].tolist()


@pytest.mark.parametrize("name", ["local", "waffle"])
def test_a_saved_model_loads_into_lenet5_and_has_the_last_accuracy(run, tmp_path, name):
    result = run(name, alice=1)
    module = LeNet5()
    module.load_state_dict(torch.load(result.save_model(tmp_path / "alice.pt"), weights_only=True))
    digits = data_sets.load("digits")
    test = partitions.make("C", digits, clients=3).test[1]
    inputs = (digits.test_x[test].float() / 255 - digits.mean[0]) / digits.std[0]
    right = module.eval()(inputs).argmax(1) == digits.test_y[test]
    assert right.double().mean().item() == result.last_accuracy
    for path in (tmp_path / "nowhere" / "alice.pt", tmp_path):
        refused("give a file in a folder that exists", result.save_model, path)


def test_a_result_stored_without_its_model_is_trained_again_where_it_is_asked_for(run, results_dir):
    stored = run("local", rounds=1)
    (entry,) = (results_dir / "cells").iterdir()
    shutil.rmtree(entry)
    files.write(dataclasses.replace(stored, model=None), entry)
    assert run("local", rounds=1).model is None
    assert run("local", rounds=1, with_model=True).model is not None


def test_schedule_arguments_reach_the_schedule(run):
    given = {"local_epochs": 2, "batch_size": 64, "lr": 0.05, "lr_decay": 0.9, "momentum": 0.5}
    given |= {"weight_decay": 0.001, "participation": 0.7, "order": "fixed", "rounds": 1}
    other = {"local_batches": 1, "augment": "crop_flip", "rounds": 2, "availability": ((2, 2, 2),)}
    for settings in (given, other):
        schedule = run("fedavg", **settings).config["schedule"]
        assert {name: schedule[name] for name in settings} == settings


# --- several seeds ---
@pytest.mark.xdist_group("processes")  # started once
def test_seeds_give_each_seeds_results_whatever_the_number_of_jobs(run, results_dir, tmp_path):
    alone = [run("local", model="linear", seed=seed) for seed in (1, 2, 3)]
    for jobs, place in ((None, results_dir), (1, tmp_path / "one"), (2, tmp_path / "two")):
        several = run("local", model="linear", seeds=3, jobs=jobs, results_dir=place)
        assert isinstance(several, pfl_lib.Results) and several.seeds == (1, 2, 3)
        for one, other in zip(alone, several, strict=True):
            assert one.metrics.equals(other.metrics)
        assert len(list((place / "cells").iterdir())) == 3
        assert list(several.metrics)[:3] == ["seed", "round", "client"]
        assert several.metrics["seed"].tolist() == [1, 1, 2, 2, 3, 3]


def test_settings_and_seeds_may_be_numpys_and_seeds_keep_their_order(run):
    plain = {"rounds": 1, "clients": 5, "lr": 0.5}
    same = {"rounds": np.int64(1), "clients": np.uint8(5), "lr": np.float32(0.5)}
    expected = run("local", model="linear", seeds=[3, 2], **plain)
    assert expected.seeds == (3, 2) and expected.metrics["seed"].tolist() == [3, 2]
    for seeds in (range(3, 1, -1), np.array([3, 2]), [np.int32(3), 2]):
        found = run("local", model="linear", seeds=seeds, **same)
        assert [one.config["key"] for one in found] == [one.config["key"] for one in expected]
    refused("seeds array.3.: give a whole number", run, "local", seeds=np.array(3))


def test_seeds_and_jobs_that_do_not_fit_are_told_in_one_line(run):
    for settings, sentence in (
        ({"seeds": 0}, "seeds 0: give a whole number, 1 or more"),
        ({"seeds": (1, "2")}, "a seed '2': give a whole number"),
        ({"seeds": [1, 2, 1]}, "seeds [1, 2, 1]: give each of them once"),
        ({"seeds": 3, "seed": 2}, "seed 2 beside seeds 3: give one of them"),
        ({"seeds": [1, 2], "seed": 5}, "seed 5 beside seeds [1, 2]: give one of them"),
        ({"jobs": 2}, "jobs 2: one run takes one process; give seeds=3 as well"),
        ({"jobs": 0, "seeds": 2}, "jobs 0: give a whole number, 1 or more"),
    ):
        assert refusal(run, "local", **settings) == sentence


# --- bring your own ---
class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm, self.out = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(self.hidden(x)).relu())


@dataclass(frozen=True)
class Mine:
    """A method of a user's own: FedAvg that stops sharing after so many rounds."""

    until: int = 1
    name: ClassVar[str] = "mine"

    def start(self, fed: Federation) -> dict:
        return {name: matrix.clone() for name, matrix in copies(fed.initial(), len(fed)).items()}

    def round(self, fed: Federation, state: dict, r: int) -> tuple[dict, dict]:
        trained, _ = fed.train(state, r, range(len(fed)))
        if r <= self.until:
            trained = {name: matrix.mean(0).expand_as(matrix) for name, matrix in trained.items()}
        return trained, {"shared": float(r <= self.until)}

    def served(self, fed: Federation, state: dict) -> dict:
        return state


def own(network=Two, **named) -> Federation:
    pairs, schedule = [(x, y % 2) for x, y in drawn(3)], Schedule(3, batch_size=4)
    return Federation.from_arrays(pairs, pairs, network, schedule, device="cpu", **named)


def test_arrays_a_module_and_a_method_of_ones_own(tmp_path, results_dir, monkeypatch):
    monkeypatch.setenv("PFL_RESULTS_DIR", str(results_dir))
    seen: list = []
    settings = {"federation": own(), "with_model": True, "on_round": seen.append}
    result = pfl_lib.run(Mine(until=2), **settings)
    pd.testing.assert_frame_equal(pd.concat(seen, ignore_index=True), result.metrics)
    assert result.metrics["round"].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert result.metrics["shared"].tolist() == [1.0] * 6 + [0.0] * 3 and result.weights is None
    assert result.config["method"]["name"] == "mine" and not any(results_dir.iterdir())
    module = Two()
    saved = result.save_model(tmp_path / "two.pt", client=1)
    module.load_state_dict(torch.load(saved, weights_only=True))
    held = own().clients.splits["test"]
    right = module.eval()(held.pool.x[held.index[1]]).argmax(1) == held.labels[1]
    assert right.double().mean().item() == result.metrics["accuracy"].iloc[-2]


def test_a_method_without_a_version_runs_on_the_packages_data_and_is_not_stored(
    run, results_dir, capsys
):
    result, other = run(Mine(), alice=None, seeds=2)
    assert len(result.metrics) == 6 and not any(results_dir.iterdir())
    assert not result.metrics.equals(other.metrics)
    assert len(pfl_lib.compare({"mine": result, "stored": run("local", alice=None)}).table) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "method Mine(until=1) cannot be stored: give it version = 1, and raise that by hand when"
        " its results change"
    )
    told = refusal(run, Mine(), seeds=2, jobs=2)
    assert told == "jobs 2: what is not stored runs in this process: leave it out"


# --- mistakes ---
PAIR = "it should give a pair of dicts, (state, log)"
WRONG = {
    "start": [
        (lambda rows: rows["theta"], "its start gives Tensor; it should give a dict, the"),
        (lambda rows: {}, "its start gives no rows; it should give a flat dict of tensors by name"),
        (lambda rows: {**rows, "k": 3}, "its start gives a state with 'k': int; it should give a"),
        (lambda rows: {**rows, 3: rows["theta"]}, "its start gives a state with 3: Tensor; it"),
    ],
    "round": [
        (lambda rows: rows, f"its round gives dict; {PAIR}"),
        (lambda rows: (rows["theta"], {}), f"its round gives Tensor, dict; {PAIR}"),
        (
            lambda rows: ({"statistics": rows["statistics"]}, {}),
            "its round gives a state without theta; it should give all rows that start gives",
        ),
        (lambda rows: ({**rows, "k": 3}, {}), "its round gives a state with 'k': int; it should"),
        (
            lambda rows: ({**rows, "theta": rows["theta"][:2]}, {}),
            "its round gives theta [2, 56] of torch.float32; it should give theta [3, 56] of",
        ),
    ],
    "served": [
        (
            lambda rows: {**rows, "theta": rows["theta"][:, :5]},
            "its served gives theta [3, 5], statistics [3, 12]; it should give theta [56],"
            " statistics [12] or theta [3, 56], statistics [3, 12]",
        ),
        (lambda rows: {n: row[:2] for n, row in rows.items()}, "its served gives theta [2, 56]"),
        (lambda rows: rows["theta"], "its served gives Tensor; it should give a dict of theta and"),
    ],
}


@pytest.mark.parametrize(
    ("part", "gives", "sentence"), [(part, *case) for part, of in WRONG.items() for case in of]
)
def test_a_method_of_ones_own_that_gives_something_else_is_told_in_one_line(part, gives, sentence):
    class Wrong(Mine):
        pass

    setattr(Wrong, part, lambda self, fed, *_: gives(Mine().start(fed)))
    assert refusal(pfl_lib.run, Wrong(), federation=own()).startswith(f"method 'mine': {sentence}")


GENERATOR, LEGACY = np.random.default_rng(0), np.random.RandomState(0)
OF_PYTHON, OF_TORCH = random.Random(0), torch.Generator()
MANY = torch.zeros(2000)  # whose words are the same after


KEEPS = "changes the method itself: keep what the next round"


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        (lambda self, state: state["theta"][0].zero_(), "writes into 'theta', which it is given"),
        (lambda self, state: setattr(self, "seen", 1), KEEPS),
        (lambda self, state: self.until.append(1), KEEPS),
        (lambda self, state: GENERATOR.normal(), KEEPS),
        (lambda self, state: OF_PYTHON.random(), KEEPS),
        (lambda self, state: LEGACY.rand(), KEEPS),
        (lambda self, state: OF_TORCH.seed(), KEEPS),
        (lambda self, state: MANY.add_(1), KEEPS),
        (lambda self, state: torch.rand(1), "draws random numbers that follow no seed: draw from"),
    ],
)
def test_a_round_that_leaves_anything_outside_its_new_state_is_told_in_one_line(does, sentence):
    class Wrong(Mine):
        __setattr__ = object.__setattr__
        a, b, c, d, e = GENERATOR, LEGACY, OF_PYTHON, OF_TORCH, MANY

        def round(self, fed, state, r):
            does(self, state)
            return state, {}

    told = refusal(pfl_lib.run, Wrong(until=[3]), federation=own())
    assert told.startswith(f"method 'mine': its round {sentence}")


def some_of(clients: int) -> int:
    return GENERATOR.integers(clients)


def test_a_generator_that_a_method_names_in_its_module_or_holds_in_a_closure_follows_no_seed():
    mine = torch.Generator()

    class Named(Mine):
        def round(self, fed, state, r):
            return (state, {"drawn": some_of(3)}) if r == 1 else super().round(fed, state, r)

    class Held(Mine):
        def served(self, fed, state):
            mine.seed()
            return super().served(fed, state)

    for method, part in ((Named(), "round"), (Held(), "served")):
        told = refusal(pfl_lib.run, method, federation=own())
        assert told.startswith(f"method 'mine': its {part} {KEEPS}")


def test_parts_of_a_method_that_take_something_else_are_told_before_anything_is_trained():
    class Short(Mine):
        def round(self, fed, state):
            return state, {}

    class Selfless(Mine):
        def served(fed, state):
            return state

    for method, called in ((Short(), "round(fed, state, r)"), (Selfless(), "served(fed, state)")):
        told = refusal(pfl_lib.run, method, federation=own())
        part = called.partition("(")[0]
        said = f"method 'mine': its {part} is called as {called}: too many positional arguments"
        assert told == f"{said}; its own first argument is self"


def test_a_result_is_itself_alone_and_stands_in_lists_and_sets(run):
    one, other = (run("local", rounds=1) for _ in range(2))
    assert one in [other, one] and one != other and len({one, other}) == 2


def test_rows_that_clients_share_are_not_written_into():
    class Wrong(Mine):
        def start(self, fed):
            return copies(fed.initial(), len(fed))

        def round(self, fed, state, r):
            state["theta"].mul_(2)

    told = refusal(pfl_lib.run, Wrong(), federation=own())
    assert told.endswith("one and the same for several clients: clone() them first")


def test_what_is_no_federation_is_told_in_one_line():
    sentence = refusal(pfl_lib.run, "fedavg", federation=[1], rounds=3)
    told = "give a pfl_lib.Federation, as Federation.from_arrays makes one"
    assert sentence == f"federation [1]: {told}"
    of_seed = refusal(pfl_lib.run, "fedavg", federation=lambda seed: 3, seeds=2)
    assert of_seed == f"federation 3: {told}"
    sentence = refusal(pfl_lib.run, "fedavg", federation=lambda seed: own())
    assert sentence.endswith(f"{told}, or seeds=3 beside the function")
    for none in (own(), lambda: own()):
        sentence = refusal(pfl_lib.run, "fedavg", federation=none, seeds=2)
        told = "beside seeds: give a function that makes the federation of a seed"
        assert sentence.endswith(told)


def test_an_unknown_setting_is_told_with_the_known_ones_and_what_to_do(run):
    for method, setting, does in (
        ("waffle", "epochs", "did you mean local_epochs?"),
        ("waffle", "data", "did you mean dataset?"),
        ("waffle", "callbacks", "did you mean on_round?"),
        ("waffle", "slope", "give Waffle(slope=...) as the method"),
        (Waffle(), "slope", "give Waffle(slope=...) as the method"),
        ("fedavg", "slope", "leave it out"),
    ):
        sentence = refusal(run, method, **{setting: 3})
        assert sentence.startswith(
            f"setting '{setting}': {does} (settings are dataset, partition, "
        )
        assert sentence.endswith(", with_model, on_round, federation)")


def test_what_is_no_method_is_told_in_one_line(run):
    names = ", ".join(METHODS)
    for name in ("WAFFLE", "wafle"):
        assert refusal(run, name) == f"method {name!r} (did you mean waffle?) is not one of {names}"
    assert refusal(run, Waffle).endswith(
        f"give an instance, not the class itself, or a name: {names}"
    )
    told = refusal(run, 3)
    parts = "name, start(fed), round(fed, state, r), served(fed, state)"
    assert told == f"method 3: give an object with {parts}, or a name: {names}"
    assert refusal(run, "waffle", alice=None).startswith("WAFFLE makes one client's model: give")

    class Misspelt(FedAvg):
        round, rounds = None, FedAvg.round

    assert "an object with round(fed, state, r) (it has rounds), or" in refusal(run, Misspelt())

    class Nameless(FedAvg):
        name = ["x"]

    assert refusal(run, Nameless()).endswith("has the name ['x']: give it a text")


def test_what_a_federation_has_of_its_own_is_not_given_beside_it():
    for names in (["rounds"], ["seed", "alice"], ["results_dir"]):
        told = refusal(pfl_lib.run, "fedavg", federation=own(), **dict.fromkeys(names, 2))
        assert told.startswith(f"{', '.join(names)}: a federation")
    usual = refusal(pfl_lib.run, "fedavg", federation=own(), rounds=20, lr=0.1, device="auto")
    assert usual.startswith("rounds, lr: a federation has data, model and settings of its own")


def test_a_federation_of_another_seed_than_asked_for_is_refused():
    told = refusal(pfl_lib.run, "fedavg", federation=lambda seed: own(), seeds=[1, 2])
    assert told.startswith("the federations of seeds [1, 2] have seeds [1, 1]: give seed=seed to")
    both = pfl_lib.run("fedavg", federation=lambda seed: own(seed=seed), seeds=2)
    assert both.seeds == (1, 2)


class Acting(Two):
    """What `does` does is in no parameter and no buffer, and not in what the network prints."""

    def __init__(self, does, first=0, last=4):
        super().__init__()
        self.does = does
        self.register_buffer("keep", (torch.arange(4) >= first) & (torch.arange(4) < last))

    def forward(self, x):
        return super().forward(self.does(x * self.keep))


def times(factor):
    return lambda x: factor * x


def hooked(does, momentum=0.1):
    network = Two()
    network.hidden.register_forward_hook(lambda part, given, gives: does(gives))
    network.norm.momentum = momentum
    network.out.weight.data.zero_()  # whose scores tell nothing
    return network


def without_a_number():
    network = Two()
    network.register_forward_hook(lambda part, given, gives: torch.nan * gives)
    return network


def behaviours(makes) -> list[str]:
    x = torch.arange(32).reshape(8, 4) % 7 / 4 - 0.5
    split = from_arrays(*[[(x, torch.arange(8) % 2)]] * 2).splits["train"]
    return [behaviour_of(make_module(make, 1), split, True) for make in makes]


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def single(x):
    assert x.dtype == torch.float32
    return x


DOES = (
    lambda: Acting(times(1)),
    lambda: Acting(single),
    lambda: Acting(times(2)),
    without_a_number,
    lambda: Acting(partial(torch.clamp, min=0)),
    lambda: Acting(torch.tanh, last=2),
    lambda: Acting(torch.tanh, first=2),
    lambda: Acting([nn.Linear(4, 4)][0].requires_grad_(False).forward),
    lambda: hooked(times(1)),
    lambda: hooked(Turned.apply),
    lambda: hooked(times(3)),
    lambda: hooked(times(3), momentum=0.5),
)


def test_what_a_network_does_is_part_of_its_key_on_every_machine():
    found = behaviours(DOES)
    assert len({*found}) == len(DOES) and found == behaviours(DOES)
    program = "from tests.test_api import DOES, behaviours\nprint(*behaviours(DOES))"
    other = fresh(program, ATEN_CPU_CAPABILITY="default", OMP_NUM_THREADS="2", PYTHONHASHSEED="1")
    assert other.split() == found
    plain, other = (FederationRun(FedAvg(), own(net, name="mine")) for net in (Two, DOES[0]))
    assert plain.key != other.key


class Scaled(Two):
    """Its scale is in no parameter and no buffer."""

    def __init__(self, scale, unit=torch.tanh):
        super().__init__()
        self.scale, self.unit = scale, unit


def test_what_a_constructor_gives_a_network_is_part_of_its_key(results_dir):
    def key(*settings):
        made = own(lambda: Scaled(*settings), name="mine")
        return pfl_lib.run("local", federation=made, results_dir=results_dir).config["key"]

    keys = [key(1.0), key(0.1), key(1.0, torch.relu), key(1.0)]
    assert len(set(keys)) == 3 and keys[0] == keys[3]
    units = (lambda x: 2 * x, lambda x: 3 * x, partial(torch.clamp, min=0), partial(torch.clamp))
    assert len({key(1.0, unit) for unit in units}) == 4
    assert len({key([1.0]), key(np.ones(1)), key({"a": 1}), key({"a": 2})}) == 4
    assert key(torch.ones(2, dtype=torch.bfloat16)) != key(torch.zeros(2, dtype=torch.bfloat16))
    around: list = [1]
    around.append(around)  # a list that holds itself, a tensor without bytes
    assert len({key(around), key(torch.ones(2, device="meta"))}) == 2


def test_the_key_of_a_networks_settings_is_the_same_in_every_process():
    program = """
        from torch import nn
        from pfl_lib.federation.behaviour import settings_of
        net = nn.Linear(2, 2)
        part = type("Mine", (nn.Module,), {})()
        part.unit = lambda x: [(lambda y: y in {"a", "b", "c", "d"})(one) for one in x]
        print(settings_of(part), settings_of(net) or "none")
    """
    told = {fresh(program, PYTHONHASHSEED=str(seed)) for seed in (1, 2, 3)}
    assert len(told) == 1 and told.pop().endswith(" none\n")


def test_what_a_network_writes_down_in_its_forward_is_no_part_of_its_key(results_dir):
    class Counts(Two):
        calls = 0

        def forward(self, x):
            self.calls += 1
            self.last = super().forward(x)
            return self.last

    fed = own(Counts, name="mine")
    results = [pfl_lib.run("local", federation=fed, results_dir=results_dir) for _ in range(2)]
    assert results[0].config["key"] == results[1].config["key"]
    assert results[0].config["finished"] == results[1].config["finished"]
    assert len(list(results_dir.glob("cells/*/config.json"))) == 1


def test_a_served_state_may_hold_further_rows():
    class Whole(Mine):
        def start(self, fed):
            return super().start(fed) | {"velocity": fed.zeros()}

        def round(self, fed, state, r):
            after, log = super().round(fed, model(state), r)
            return after | {"velocity": state["velocity"]}, log

    result = pfl_lib.run(Whole(), federation=own())
    assert set(result.model) == set(pfl_lib.run(Mine(), federation=own()).model)


def test_a_result_that_cannot_be_stored_is_returned_and_a_line_says_so(run, monkeypatch, capsys):
    monkeypatch.setattr(stores, "write", no_room)
    result = run("local", model="linear")
    assert result.metrics["round"].tolist() == [1, 2] and result.model is not None
    [line] = capsys.readouterr().err.splitlines()
    assert " could not be stored in " in line and "No space left on device" in line


def test_on_round_gets_each_rounds_rows_of_a_stored_result_and_a_resumed_run_too(tmp_path):
    setting = {"model": "linear", "rounds": 3, "alice": None, "results_dir": tmp_path}
    for _, measures in product(("trained", "read"), ([], ["start"])):  # "start": round 0 too
        seen = []
        result = pfl_lib.run("fedavg", **setting, measures=measures, on_round=seen.append)
        assert [len(rows) for rows in seen] == [10] * (3 + len(measures))
        pd.testing.assert_frame_equal(pd.concat(seen, ignore_index=True), result.metrics)
    told = []

    def interrupt(rows):
        told.append(rows)
        if len(told) == 2:
            raise KeyboardInterrupt

    other = setting | {"rounds": 4}
    with pytest.raises(KeyboardInterrupt, match="stopped after round 2 of 4; the same "):
        pfl_lib.run("fedavg", **other, on_round=interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"stopped after round 2 of 3 \(seed 1\); nothing"):
        told.clear()
        pfl_lib.run("fedavg", federation=own(), on_round=interrupt)
    resumed = []
    whole = pfl_lib.run("fedavg", **other, on_round=resumed.append)
    pd.testing.assert_frame_equal(pd.concat(resumed, ignore_index=True), whole.metrics)


def test_each_client_as_alice_once_reads_as_one_result_of_all_clients(tmp_path):
    common = {"partition": "B", "clients": 10, "model": "linear", "rounds": 2}
    common |= {"results_dir": tmp_path, "seeds": 2}
    each = pfl_lib.run("waffle", alice="each", **common)
    alone = pfl_lib.run("waffle", alice=3, **common)
    assert each.seeds == (1, 2) and each[1].weights.shape == (2, 10, 10)
    np.testing.assert_array_equal(each[1].weights[:, 3], alone[1].weights)
    rows = each[1].metrics
    assert rows["client"].tolist() == [*range(10)] * 2
    assert rows[rows["client"] == 3]["loss"].tolist() == alone[1].metrics["loss"].tolist()
    compared = pfl_lib.compare(
        {"WAFFLE": each, "FedAvg": pfl_lib.run("fedavg", alice=None, **common)}
    )
    assert len(compared.table) == 2
    made = {"dataset": "breast_cancer", "partition": "radius_strict"}
    refused("is made for one Alice", pfl_lib.run, "waffle", alice="each", **made)
    refused("alice 'each' beside with_model", pfl_lib.run, "waffle", alice="each", with_model=True)
    private = {"alice": "each", "private": DPSGD(noise=1.0, max_norm=1.0)}
    refused("with the same noise, which cancels", pfl_lib.run, "waffle", **private)


def test_a_plot_has_a_mark_for_one_round_and_the_last_weights_of_each_client(run):
    pairs = {"alice": None, "clients": 5, "validation": 0.2, "partition": partitions.Latent(5)}
    one = run("local", rounds=1).plot().axes[0]
    assert one.lines[0].get_marker() == "o" and len(one.lines[0].get_xdata()) == 1
    result = run("fedfomo", rounds=2, **pairs)
    shown = result.plot().axes[1].collections[0].get_array()
    np.testing.assert_array_equal(shown.reshape(5, 5), result.weights[-1])
    by_layer = run("pfedla", rounds=1, alice=None, clients=5)
    shown = by_layer.plot().axes[1].collections[0].get_array()
    np.testing.assert_allclose(shown.reshape(5, 5), by_layer.weights[-1].mean(axis=0))


def test_a_round_is_chosen_by_validation_where_it_is_measured(run):
    held = {"alice": None, "rounds": 3, "validation": 0.3}
    refused("measures='validation'", run("fedavg", **held).value, protocol="best on validation")
    result = run("fedavg", measures="validation", **held)
    means = result.metrics.groupby("round")[["accuracy", "accuracy_validation"]].mean()
    best = means.loc[means["accuracy_validation"].idxmax(), "accuracy"]
    assert result.value(protocol="best on validation") == pytest.approx(best, abs=1e-12)
    for measures, words in ((["trianed"], "did you mean trained"), (3, "measures 3: give a list")):
        refused(words, run, "fedavg", measures=measures)


def test_a_federation_of_ones_own_is_measured_too_and_stored_apart(results_dir):
    fed, at = own(name="mine"), {"results_dir": results_dir}
    plain = pfl_lib.run("local", federation=fed, **at)
    more = pfl_lib.run("local", federation=fed, measures=["trained"], **at)
    assert "accuracy_trained" in more.metrics and "accuracy_trained" not in plain.metrics
    refused("needs validation data", pfl_lib.run, "local", federation=fed, measures="validation")
