"""A run evaluates as often as it is asked to, and loses nothing else by it."""

import math
import re
import subprocess
from datetime import UTC, datetime

import pytest
import torch

import pfl_lib
from pfl_lib import Federation, Schedule
from pfl_lib.experiments import made
from pfl_lib.experiments.training import Run
from pfl_lib.methods import APFL, FedAvg, Local, PerFedAvg
from pfl_lib.rows import with_rows
from tests.experiments.common import drawn, finished, same_bits, with_lost


def federation(rounds: int = 5, alice: int | None = None) -> Federation:
    data, schedule = drawn(3), Schedule(rounds, batch_size=2, lr=0.2)
    given = {"alice": alice, "device": "cpu", "dtype": torch.float64}
    return Federation.from_arrays(data, data, lambda: torch.nn.Linear(4, 3), schedule, **given)


@pytest.mark.parametrize(
    ("every", "evaluated"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (9, [5])]
)
@pytest.mark.parametrize("method", [FedAvg(), APFL()], ids=["fedavg", "apfl"])
def test_every_so_many_rounds_and_the_last_are_evaluated_alike(method, every, evaluated):
    """A model is served only where it is evaluated."""
    always = finished(Run(method, federation())).result({})
    served = []

    class Counted(type(method)):
        def served(self, fed, state):
            served.append(run.done)
            return super().served(fed, state)

    run = Run(Counted(), federation(), evaluate_every=every)
    finished(run)
    assert served == evaluated
    seldom = run.result({})
    assert seldom.metrics["round"].unique().tolist() == evaluated
    expected = always.metrics[always.metrics["round"].isin(evaluated)].reset_index(drop=True)
    assert seldom.metrics.equals(expected)
    always.metrics = expected
    assert same_bits(seldom, always) and len(seldom.weights) == 5


def test_a_checkpoint_keeps_what_was_finished_whatever_comes_after_it():
    run = Run(FedAvg(), federation())
    rounds = run.rounds()
    next(rounds)
    run.seconds = 7.0
    kept = run.checkpoint()
    next(rounds)
    assert kept["done"] == len(kept["weights"]) == len(kept["weights_rounds"]) == 1
    assert {row["round"] for row in kept["metrics"]} == {1} and len(run.weights) == 2
    second = Run(FedAvg(), federation())
    assert second.restore(kept) and (second.done, second.seconds) == (1, 7.0)


class Breaks(FedAvg):
    """FedAvg whose model turns NaN in the third round."""

    def round(self, fed, state, r):
        state, log = super().round(fed, state, r)
        return {name: row * math.nan if r == 3 else row for name, row in state.items()}, log


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_model_that_turns_nan_ends_the_run_in_its_round_whether_or_not_that_is_evaluated(every):
    run = finished(Run(Breaks(), federation(), evaluate_every=every))
    assert (run.diverged, run.done, len(run.weights)) == (3, 3, 2)
    assert [row["round"] for row in run.metrics[::3]] == [r for r in (1, 2) if r % every == 0]


def test_a_result_says_when_with_what_and_on_which_machines_it_was_made():
    """The first rounds were another machine's; its checkpoint says so."""
    first = Run(FedAvg(), federation())
    assert next(first.rounds()) == 1
    there = {"device": ["cuda"], "code": ["0.0"], "processor": ["C-3PO"]}
    checkpoint = first.checkpoint() | {"made_with": first.made_with | there}
    second = Run(FedAvg(), federation())
    second.restore(checkpoint)
    third = Run(FedAvg(), federation())
    third.restore(second.checkpoint())
    before = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    config = finished(third).result({"seed": 1}).config
    assert before <= config.pop("finished") <= datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    here = {"code": made.code_at_start(), "processor": made.processor()}
    assert config == {
        "seed": 1,
        "device": "cuda; cpu",
        "torch": torch.__version__,
        "code": f"0.0; {here['code']}",
        "processor": f"C-3PO; {here['processor']}",
    }
    alone = finished(Run(FedAvg(), federation())).result({}).config
    del alone["finished"]
    assert alone == {"device": "cpu", "torch": torch.__version__, **here}


def test_a_checkout_is_named_by_its_commit_and_by_whether_it_has_changes(tmp_path, monkeypatch):
    """A file of the package that is new or other counts, one beside the package does not."""
    monkeypatch.setattr(made, "ROOT", tmp_path)
    assert re.fullmatch(r"\d+\.\d+\.\d+", made.code_version())

    def git(*words: str) -> str:
        names = ("-c", "user.name=A", "-c", "user.email=a@b")
        command = ["git", "-C", str(tmp_path), *names, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    package = tmp_path / "pfl_lib"
    package.mkdir()
    (package / "one.py").touch()
    git("init", "-q")
    assert re.fullmatch(r"\d+\.\d+\.\d+", made.code_version()), "no commit yet"
    git("add", "-A")
    git("commit", "-qm", "one")
    clean = f", commit {git('rev-parse', '--short=7', 'HEAD')}"
    (tmp_path / "notes.txt").touch()
    assert made.code_version().endswith(clean)
    (package / "two.py").touch()
    assert made.code_version().endswith(f"{clean} with changes")
    (package / "two.py").unlink()
    (package / "one.py").write_text("1")
    assert made.code_version().endswith(f"{clean} with changes")


@pytest.mark.parametrize("alice", [None, 1])
def test_a_result_holds_one_model_where_it_is_the_same_for_all(alice, tmp_path):
    shared = finished(Run(FedAvg(), federation(alice=alice))).result({})
    own = finished(Run(APFL(), federation(alice=alice))).result({})
    evaluated_clients = 3 if alice is None else 1
    assert {len(value) for value in shared.model.values()} == {1}
    assert {len(value) for value in own.model.values()} == {evaluated_clients}
    for client in range(3) if alice is None else [1]:
        saved = torch.load(shared.save_model(tmp_path / "model.pt", client), weights_only=True)
        assert torch.equal(saved["weight"], shared.model["weight"][0])
        saved = torch.load(own.save_model(tmp_path / "model.pt", client), weights_only=True)
        assert torch.equal(saved["weight"], own.model["weight"][client if alice is None else 0])


class Tied(torch.nn.Module):
    """The last layer's weight is the first one's; a whole-number buffer, one that is not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        self.layers[1].weight = self.layers[0].weight
        self.register_buffer("order", torch.tensor([3, 0, 2, 1]))
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x):
        return self.layers(x[:, self.order] * self.scale)


@pytest.mark.parametrize("method", [FedAvg(), Local()], ids=["fedavg", "local"])
def test_a_saved_model_loads_where_weights_are_shared_and_buffers_are_whole(method, tmp_path):
    data, given = drawn(3), {"alice": None, "device": "cpu"}
    fed = Federation.from_arrays(data, data, Tied, Schedule(2, batch_size=2, lr=0.2), **given)
    result = finished(Run(method, fed)).result({})
    module = Tied()
    module.order.zero_(), module.count.zero_()
    saved = result.save_model(tmp_path / "tied.pt", client=2)
    module.load_state_dict(torch.load(saved, weights_only=True))
    assert (module.order.tolist(), module.count.item()) == ([3, 0, 2, 1], 7)
    x, y = data[2]
    loss = torch.nn.functional.cross_entropy(module(x), y).item()
    assert loss == pytest.approx(result.metrics["loss"].iloc[-1], rel=1e-5)


@pytest.mark.parametrize(
    ("alice", "lost", "words", "every"),
    [(0, (2,), " (client 2)", 1), (None, (1, 3), " (clients 1, 3)", 9)],
    ids=["one", "two"],
)
def test_a_run_that_diverges_names_the_clients_who_brought_it_about(lost, words, alice, every):
    run = finished(Run(FedAvg(), with_lost(*lost, alice=alice), evaluate_every=every))
    result = run.result({"method": {"name": "fedavg"}})
    assert result.diverged == 2 and result.non_finite == dict.fromkeys(lost, 2)
    assert f"diverged in round 2{words};" in repr(result)


def test_where_only_a_served_model_is_not_finite_its_client_is_named():
    class Breaks(Local):
        def served(self, fed, state):
            theta = state["theta"].clone()
            theta[1] = math.nan
            return {**state, "theta": theta}

    run = finished(Run(Breaks(), federation()))
    assert (run.diverged, run.non_finite) == (1, {1: 1})
    assert run.result({}).metrics.dtypes.map(str).tolist() == ["int64"] * 2 + ["float64"] * 2


def test_a_client_who_is_lost_and_has_no_weight_is_remembered_and_the_run_goes_on():
    """Local training of each client; only Alice is read."""

    class Everybody(Local):
        def round(self, fed, state, r):
            clients = fed.participants(r)
            rows = {name: matrix[clients] for name, matrix in state.items()}
            trained, _ = fed.train(rows, r, clients)
            return {n: with_rows(state[n], clients, trained[n]) for n in state}, {}

    run = Run(Everybody(), with_lost(2, 3))
    assert list(run.rounds())[-1] == 8 and run.diverged is None
    assert run.result({}).non_finite == {2: 2, 3: 2}
    second = Run(Everybody(), with_lost(2, 3))
    second.restore(run.checkpoint())
    assert second.result({}).non_finite == {2: 2, 3: 2}


def test_the_served_model_has_the_same_bits_on_any_number_of_torchs_threads(tmp_path):
    def model(threads: int) -> dict[str, torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            # It serves after a further step, whose sums several threads would add otherwise.
            folder = tmp_path / str(threads)
            return pfl_lib.run(PerFedAvg(), dataset="digits", rounds=1, results_dir=folder).model
        finally:
            torch.set_num_threads(before)

    one, four = model(1), model(4)
    assert all(torch.equal(one[name], four[name]) for name in one)
