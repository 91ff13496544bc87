"""A user's methods on the papers' tables."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from pfl_lib import papers
from pfl_lib.errors import BadInput
from pfl_lib.experiments import own
from pfl_lib.experiments.runner import run_many, stored_config
from pfl_lib.pages.execute import Job, execute_all
from pfl_lib.papers import comparison, own_methods, pfedla, waffle
from pfl_lib.papers.profiles import Profile
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = f"{ROOT / 'notebooks' / 'same_direction.py'}:SameDirection"
OWN = "Same direction"
pytestmark = pytest.mark.xdist_group("own methods")  # one worker trains them


def shorter(page: papers.Exhibit, rounds: int = 2) -> Profile:
    """The quick profile with three seeds and few rounds."""
    return page.profile("quick", 3).with_rounds(rounds)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Store:
    """Three seeds of the example and of local training, on C of WAFFLE's Table 1 and on pFedLA's
    Table 1."""
    store = Store(tmp_path_factory.mktemp("results"), published=None)
    specs = []
    for id in ("waffle-table1", "pfedla-table1"):
        page = papers.exhibit(id).with_methods([EXAMPLE])
        for column in page.tables[0].columns:
            if column.name in (OWN, "Local", "Local Training"):
                specs += page.tables[0].only(columns=[column.name]).runs(shorter(page))
    specs = [s for s in specs if s.partition == "C" or s.model == "pfedla_cnn"]
    results = run_many(specs, store, jobs=1, progress=False)
    assert all(hasattr(result, "metrics") for result in results), results
    return store


def test_the_example_has_at_most_twenty_lines():
    lines = Path(EXAMPLE.rpartition(":")[0]).read_text().splitlines()
    start = lines.index("@dataclass(frozen=True)")
    code = [line for line in lines[start:] if line.strip() and '"""' not in line]
    assert len(code) <= 20


@pytest.mark.parametrize(
    ("id", "setting"),
    [("waffle-table1", "C"), ("pfedla-table1", "non_iid_1_10_clients")],
)
def test_a_method_stands_beside_the_papers_without_printed_value_or_verdict(shelf, id, setting):
    page = papers.exhibit(id).with_methods([EXAMPLE])
    profile = shorter(page)
    beside = comparison.compare(page.tables[0], profile, shelf)
    mine = beside[(beside["method"] == OWN) & (beside["status"] == "ran")]
    assert set(mine["setting"]) == {setting}
    assert (mine["seeds"] == 3).all() and mine["ours std"].notna().all()
    assert mine["paper"].isna().all() and set(mine["verdict"]) == {"–"}
    plain = comparison.compare(papers.exhibit(id).tables[0], profile, shelf)
    assert beside[beside["method"] != OWN].reset_index(drop=True).equals(plain)
    shown = comparison.as_printed(beside[beside["setting"] == setting], page.tables[0])
    assert shown.loc[shown["value"] == "paper", OWN].eq("–").all()
    assert OWN in comparison.to_latex(beside)


def test_its_runs_join_the_pages_and_no_other_run_changes():
    plain = papers.exhibit("waffle-table1")
    page, profile = plain.with_methods([EXAMPLE]), plain.profile("quick", 3)
    before, after = plain.runs(profile), page.runs(profile)
    assert after[: len(before)] == before
    further = after[len(before) :]
    assert {run.method.name for run in further} == {"same_direction"}
    assert len(further) == 3 * len([row for row in waffle.TABLE1.rows if profile.make(row.at)])
    assert page.methods == (EXAMPLE,) and plain.methods == ()
    assert plain.with_methods([]) is plain


def test_its_differences_are_paired_by_seed(shelf):
    page = papers.exhibit("waffle-table1").with_methods([EXAMPLE])
    profile = shorter(page)
    (row,) = own_methods.differences(page.tables[0], profile, shelf.find).to_dict("records")
    assert (row["setting"], row["method"], row["against"], row["seeds"]) == ("C", OWN, "Local", 3)
    by_seed = []
    for seed in (1, 2, 3):
        runs = (page.tables[0].spec("C", name, profile, seed) for name in (OWN, "Local"))
        mine, local = (100 * shelf.find(run).best_accuracy for run in runs)
        by_seed.append(mine - local)
    assert row["difference"] == pytest.approx(sum(by_seed) / 3)
    assert row["95 % from"] < row["difference"] < row["95 % to"]


def test_the_pages_answer_names_it_and_counts_its_comparisons(shelf):
    """One row, one method beside it: one comparison, whose word is that of the table below."""
    page = papers.exhibit("waffle-table1").with_methods([EXAMPLE])
    profile, (table,) = shorter(page), page.tables
    (row,) = own_methods.differences(table, profile, shelf.find).to_dict("records")
    times = {word: int(row["seen as"] == word) for word in ("above", "below", "undecided")}
    assert own_methods.in_a_sentence(table, profile, shelf.find) == (
        f"{OWN} (yours): above the others in {times['above']} of 1 comparisons on common seeds,"
        f" below in {times['below']}, undecided in {times['undecided']}."
    )
    one = own_methods.in_a_sentence(table, replace(profile, seeds=(1,)), shelf.find)
    assert one.endswith(", undecided in 1. One seed decides nothing: ask for three.")

    def says(keep) -> str:
        found = {run.key: shelf.find(run) for run in table.runs(profile)}
        kept = {key: keep(one) for key, one in found.items() if one is not None}
        return own_methods.in_a_sentence(table, profile, lambda run: kept.get(run.key))

    mine = "same_direction"
    assert says(lambda one: None) == f"{OWN} (yours) was not run."
    assert says(lambda one: one if one.config["method"]["name"] == mine else None) == (
        f"{OWN} (yours) has no seed in common with the others."
    )
    assert says(lambda one: replace(one, diverged=2)) == f"{OWN} (yours) diverged at round 2."
    assert own_methods.in_a_sentence(waffle.TABLE1, profile, shelf.find) == ""


def test_rows_without_a_run_of_ones_own_have_no_figure(shelf):
    page = papers.exhibit("waffle-table1").with_methods([EXAMPLE])
    found = own_methods.results_by_row(page.tables[0], shorter(page), shelf.find)
    assert list(found) == ["MNIST, C"] and {*found["MNIST, C"]} == {"Local", OWN}
    assert [len(results) for results in found["MNIST, C"].values()] == [3, 3]


@pytest.mark.parametrize(
    ("id", "methods", "says"),
    [
        ("waffle-fig3", [EXAMPLE], "page 'waffle-fig3' shows no printed table"),
        ("waffle-table1", ["pfl_lib.methods:FedAvg"], "has a column 'FedAvg'"),
        ("waffle-table1", [EXAMPLE, EXAMPLE], f"has a column {OWN!r}"),
        ("waffle-table1", ["nowhere.py:Mine"], "does not exist"),
        (
            "waffle-table1",
            ["pfl_lib.errors:BadInput"],
            "give an object with name, start, round, served",
        ),
    ],
)
def test_what_cannot_join_is_told_in_one_line(id, methods, says):
    with pytest.raises(BadInput) as refused:
        papers.exhibit(id).with_methods(methods)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_another_method_of_the_packages_may_join_too():
    table = papers.exhibit("waffle-table1").with_methods(["pfl_lib.methods:Ditto"]).tables[0]
    assert table.own_columns == ("Ditto",)


def test_every_page_with_a_printed_table_takes_methods_of_ones_own():
    for page in papers.EXHIBITS.values():
        source = (ROOT / "notebooks" / page.notebook).read_text()
        takes = "methods: list = []" in source and "with_methods(settings.methods)" in source
        assert takes == bool(page.tables), page.id
        for use in ("show", "sentence"):
            assert (f"own_methods.{use}(page, profile, settings)" in source) == takes, page.id


def made_up(spec, rounds: int = 5) -> Result:
    """A stored run of each client that is read, whose accuracy grows with rounds and seed."""
    clients = range(spec.clients) if spec.alice is None else [spec.alice]
    lines = [
        {"round": r, "client": i, "accuracy": 0.5 + 0.04 * r + 0.03 * spec.seed, "loss": 1.0}
        for r in range(1, rounds + 1)
        for i in clients
    ]
    config = {**stored_config(spec), "device": "cpu", "torch": "2"}
    return Result(config, pd.DataFrame(lines), None, None, 1.0)


@pytest.mark.parametrize("id", ["waffle-table1", "pfedla-table1"])
def test_the_page_shows_its_band_and_its_differences(id, tmp_path):
    """Three seeds of the example and of one of the paper's columns, in the first setting that is
    run: trained for WAFFLE's table, made up for pFedLA's; the page is drawn from them."""
    page = papers.exhibit(id).with_methods([EXAMPLE])
    profile, table = page.profile("quick", 3), page.tables[0]
    names = [OWN, table.columns[0].name]
    ran = next(row for row in table.rows if row.at and profile.make(row.at))
    store = Store(tmp_path / "results")
    specs = table.only([ran.setting], names, [ran.dataset]).runs(profile)
    if id == "waffle-table1":
        run_many(specs, store, jobs=1, progress=False)
    else:
        for spec in specs:
            store.save(spec, made_up(spec))
    assert all(store.find(spec) is not None for spec in specs)
    parameters = {
        "profile": "quick",
        "seeds": 3,
        "results_dir": str(store.root),
        "methods": list(page.methods),
        "plots_only": True,
    }
    ended = []
    notebook = shutil.copy(ROOT / "notebooks" / page.notebook, tmp_path / "page.ipynb")
    execute_all([Job(id, Path(notebook), tmp_path / "out.ipynb", parameters)], 1, ended.append)
    assert ended[0].error is None
    executed = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    (cell,) = [cell for cell in executed.cells if cell.source.startswith("own_methods.show")]
    told = [output["data"].get("text/plain", "") for output in cell.outputs]
    figures = [words for words in told if words.startswith("Line plot")]
    assert figures and all(f"{OWN}" in words and "3 seeds" in words for words in figures)
    assert any("in points of accuracy, on common seeds" in str(output) for output in cell.outputs)
    assert OWN in str([cell.outputs for cell in executed.cells if "as_printed(" in cell.source])


def test_a_method_in_a_file_is_named_by_its_whole_path(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert own.absolute("notebooks/same_direction.py:SameDirection") == EXAMPLE
    assert own.absolute("a.module:Mine") == "a.module:Mine"
    assert not math.isnan(own.load(EXAMPLE).power)
    assert pfedla.TABLE1.own_columns == ()


def test_notebook_and_docs_show_the_example_as_it_stands_in_its_file():
    text = Path(EXAMPLE.rpartition(":")[0]).read_text()
    example = text[text.index("@dataclass(frozen=True)") :].rstrip()
    cells = nbformat.read(ROOT / "notebooks" / "03_your_method.ipynb", as_version=4).cells
    assert any(example in cell.source for cell in cells)
    assert example in (ROOT / "docs" / "own_work.md").read_text()
