"""Weight Erosion's pages: the authors' traces and figure, its settings, Appendix A."""

import dataclasses
import functools
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch

from pfl_lib.cli import training
from pfl_lib.experiments.runner import Run, federation_of, run_many
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.experiments.training import one_thread
from pfl_lib.federation.federation import Federation
from pfl_lib.pages.collect import Needed
from pfl_lib.pages.page import Page
from pfl_lib.papers import weight_erosion as paper
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store
from tests.pages.common import DEFAULTS

FULL, QUICK = paper.ALL_PROFILES["paper"], paper.ALL_PROFILES["quick"]

pytestmark = pytest.mark.xdist_group("weight erosion")  # trained once

# Specification, section 5.3, AGE_STRICT: accuracies over 20 initial models in an independent
# program, clients 0 to 3.
RE_RUN = {
    "FedAvg": (0.753, 0.766, 0.925, 0.742),
    "WE": (0.785, 0.780, 0.922, 0.734),
    "Local": (0.728, 0.792, 0.924, 0.729),
}


@functools.cache
def ran(spec: RunSpec, data_dir=None) -> Result:
    with one_thread():
        run = Run(spec.method, federation_of(spec, data_dir), spec.measures)
        for _ in run.rounds():
            pass
    return run.result(spec.config())


def spec_of(method: str, split: str, alice: int, profile, seed: int | None = None) -> RunSpec:
    """One run: where `seed` is None the one that the figures show."""
    table = (paper.FIGURES if seed is None else paper.AVERAGES).only(datasets=[split])
    return table.spec(f"client {alice}", method, profile, seed or 1)


def traces(client: int) -> np.ndarray:
    return as_printed(paper.authors_weights()["AGE_STRICT", f"client {client}"].to_numpy(), client)


def as_printed(weights: np.ndarray, alice: int) -> np.ndarray:
    """Alice's column first, then the others', as in the authors' file."""
    return weights[:, [alice, *(client for client in paper.CLIENTS if client != alice)]]


def test_the_authors_weights_start_near_1_belong_to_their_clients_and_exist_for_one_split():
    authors = paper.authors_weights()
    assert list(authors) == [("AGE_STRICT", f"client {client}") for client in paper.CLIENTS]
    for client, weights in enumerate(authors.values()):
        assert list(weights.index) == list(range(1, 31)) and (weights[client] == 1).all()
        assert not (weights.diff() > 0).any(axis=None)
    first = [of.iloc[0].tolist() for of in authors.values()]
    assert first[0] == [1, 0.991835, 0.990839, 0.986076]
    # The file has Alice first: client 0 is the first of the others of client 2.
    assert first[2] == [0.993502, 0.995644, 1, 0.990619]


@pytest.mark.parametrize("client", paper.CLIENTS)
def test_from_zero_the_weights_follow_the_authors_traces_and_vanish_where_theirs_do(
    client, titanic_dir
):
    spec = dataclasses.replace(spec_of("WE", "AGE_STRICT", client, FULL), model="linear-zero")
    ours, theirs = as_printed(ran(spec, titanic_dir).weights, client), traces(client)
    assert np.abs(ours - theirs).max() <= 0.13
    assert ((ours[-1] == 0) == (theirs[-1] == 0)).all()


@pytest.mark.parametrize("client", paper.CLIENTS)
def test_from_the_authors_initial_model_the_weights_are_theirs_to_every_printed_digit(
    client, titanic_dir
):
    ours = as_printed(ran(spec_of("WE", "AGE_STRICT", client, FULL), titanic_dir).weights, client)
    assert np.abs(ours - traces(client)).max() < 2e-6
    assert ((ours == 0) == (traces(client) == 0)).all()


def test_counting_passes_as_eq_5_does_is_not_what_the_authors_ran(titanic_dir):
    spec = spec_of("WE", "AGE_STRICT", 0, FULL)
    literal = dataclasses.replace(spec, method=dataclasses.replace(spec.method, counting="before"))
    assert np.abs(as_printed(ran(literal, titanic_dir).weights, 0) - traces(0)).max() > 0.04


@pytest.mark.parametrize("client", paper.CLIENTS)
def test_accuracies_of_figure_1_are_the_authors(client, titanic_dir):
    """Within a point of what can be read off their picture, also before round 1."""
    before = (0.38, 0.395, 0.225, 0.445)
    for method in ("Local", "WE", "Global (code)"):
        printed = paper.READ_OFF["AGE_STRICT", f"client {client}", method]
        metrics = ran(spec_of(method, "AGE_STRICT", client, FULL), titanic_dir).metrics
        assert metrics["batch_accuracy"].iloc[0] == pytest.approx(before[client], abs=0.006)
        assert 100 * metrics["batch_accuracy"].iloc[-1] == pytest.approx(printed, abs=1)


@pytest.mark.parametrize("method", paper.AVERAGED)
def test_averages_over_initial_models_are_those_of_an_independent_program(method, titanic_dir):
    """Over four seeds, but Local of client 0, which varies most, over all twenty."""
    for client, expected in enumerate(RE_RUN[method]):
        seeds = FULL.seeds if (method, client) == ("Local", 0) else FULL.seeds[:4]
        found = [
            ran(spec_of(method, "AGE_STRICT", client, FULL, seed), titanic_dir).metrics
            for seed in seeds
        ]
        mean = np.mean([metrics["batch_accuracy"].iloc[-1] for metrics in found])
        assert mean == pytest.approx(expected, abs=0.02)


SHORT = dataclasses.replace(QUICK, make=lambda at: QUICK.make(at).scheduled(rounds=3))


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """The runs of one client of Figure 1, three rounds long, on breast cancer."""
    store = Store(tmp_path_factory.mktemp("results"), published=None)
    run_many(ONE_CLIENT.runs(SHORT.with_seeds(1)), store, jobs=1)
    return store


ONE_CLIENT = paper.FIGURES.only(["client 0"], datasets=["AGE_STRICT"])


@pytest.mark.parametrize("by", ["notebook", "reproduce"])
def test_a_page_that_shows_parameters_trains_what_is_published_without_its_model(
    store, tmp_path, by
):
    """Nothing else, and not where stored results are only to be drawn."""
    table = ONE_CLIENT.scaled(SHORT).with_seeds(1)
    specs = Runs((table,), store.find).specs
    theirs = Store(tmp_path / "theirs", tmp_path / "published")
    for spec in specs:
        theirs.save(spec, store.find(spec))
        theirs.publish(spec)
    mine = Store(tmp_path / "mine", tmp_path / "published")
    for plots_only, trained in ((True, 0), (False, 4)):
        given = DEFAULTS | {"jobs": 1, "device": "cpu", "plots_only": plots_only}
        if by == "notebook":
            kinds = {name: type(value) for name, value in given.items()}
            page = Page("weight-erosion-fig2", given | {"__annotations__": kinds})
            page.store = mine
            page.run(table, models=True)
        else:
            page = SimpleNamespace(needed=lambda *_: Needed("quick", specs, specs))
            given |= {"seeds": None, "data_dir": None}
            given |= {"scheduler": None, "hours": None, "store": mine}
            assert training.train("quick", [page], SimpleNamespace(**given)) == 0
        assert sum(mine.find(spec, with_model=True) is not None for spec in specs) == trained


def test_the_page_of_gradients_takes_those_of_a_federation(monkeypatch):
    monkeypatch.setenv("PFL_PAGE", "1")
    page = Path(__file__).parents[2] / "notebooks/weight_erosion/gradient_distances.ipynb"
    cells = [cell for cell in nbformat.read(page, 4).cells if cell.cell_type == "code"]
    told: dict = {}
    for cell in cells[:4]:
        exec(cell.source, told)
    x, y = told["clients"][1]
    theta = torch.from_numpy(np.random.RandomState(1).randn(22))
    spec = dataclasses.replace(spec_of("Local", "AGE_STRICT", 1, SHORT), model="linear-zero")
    schedule = dataclasses.replace(spec.schedule, rounds=1, batch_size=1000, lr=1.0)
    module = torch.nn.Linear(10, 2, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(theta.reshape(2, 11)[:, :-1])
        module.bias.copy_(theta.reshape(2, 11)[:, -1])
    own = [(x[:, :-1], y)]
    held = Federation.from_arrays(own, own, module, schedule, device="cpu").clients
    fed = Federation(held, module, schedule, loss=spec.loss, device="cpu", dtype=torch.float64)
    before = fed.initial()
    after, _ = fed.train({name: row[None] for name, row in before.items()}, 1, [0])
    step = (before["theta"] - after["theta"][0]).double()
    ours = told["gradient"](theta, x, y).reshape(2, 11)
    assert torch.allclose(step, torch.cat([ours[:, :-1].reshape(-1), ours[:, -1]]), atol=1e-6)
