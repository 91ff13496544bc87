"""The notebooks: their parameters, their form, and one of them executed from another folder."""

import ast
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
import pytest

from pfl_lib import data
from pfl_lib.errors import BadInput
from pfl_lib.methods import Local
from pfl_lib.pages import build, parameters, recorded, registry
from pfl_lib.pages.execute import Job, execute_all
from pfl_lib.pages.page import NotRun, Page
from pfl_lib.pages.registry import pages
from pfl_lib.papers import compare, pfedla, waffle
from pfl_lib.papers.runs import Runs
from pfl_lib.progress import headless, progress
from tests.common import refusal, refused
from tests.experiments.common import Read
from tests.pages.common import DEFAULTS, TYPES, run_cells, settings

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.rglob("*.ipynb"))
NAMES = [str(path.relative_to(FOLDER)) for path in NOTEBOOKS]


def read(path: Path):
    return nbformat.read(path, as_version=4)


def code_of(name: str | Path) -> list:
    return [cell for cell in read(FOLDER / name).cells if cell.cell_type == "code"]


def source_of(name: str) -> str:
    return "\n".join(cell.source for cell in read(FOLDER / name).cells)


# --- parameters ---
def test_defaults_are_accepted_and_the_text_true_is_the_truth():
    assert settings().profile == "quick" and settings().plots_only is False
    assert settings(plots_only="true").plots_only is True
    assert settings(plots_only="False").plots_only is False


def test_unknown_names_and_bad_values_are_refused_in_one_line():
    for changed, words in (
        ({"profil": "small"}, ["'profil'", "profile"]),
        ({"profile": "huge"}, ["'huge'", "quick, small, paper"]),
        ({"profile": 1}, ["profile", "1", "string"]),
        ({"seeds": -1}, ["seeds", "-1"]),
        ({"seeds": "two"}, ["seeds", "'two'", "integer"]),
        ({"jobs": 1.5}, ["jobs", "1.5"]),
        ({"device": "tpu"}, ["device", "'tpu'", "cuda"]),
        ({"plots_only": "perhaps"}, ["plots_only", "'perhaps'"]),
        ({"data_dir": "/does/not/exist"}, ["data_dir", "/does/not/exist"]),
    ):
        line = refusal(settings, **changed)
        assert all(word in line for word in words)


def test_a_notebooks_own_parameters_are_checked_by_the_types_it_declares():
    assert settings({"slopes": list[float]}, slopes=[1, 3.2]).slopes == [1.0, 3.2]
    refused("slopes", settings, {"slopes": list[float]}, slopes="steep")
    cells = ["slopes: list[float] = []; rows = 3", "%%broken\n:"]  # where Python 3.14 leaves them
    refused("slopes = 'steep'", settings, In=cells, slopes="steep")


def test_a_parameter_cell_that_lacks_one_is_refused():
    namespace = {"__annotations__": {"profile": str}, "profile": "quick"}
    refused("does not declare 'seeds'", parameters.settings, namespace)


def test_later_names_functions_modules_and_private_names_are_no_parameters():
    assert settings(settings=settings(), rows=3, table=[1, 2]).seeds == 0
    assert settings(ast=ast, read=read, _hidden=1).jobs == 0


# --- the files ---
def test_every_page_has_its_notebook_which_calls_it_so_and_every_notebook_its_page():
    assert sorted(page.path for page in pages().values()) == NOTEBOOKS
    for id, page in pages().items():
        source = page.path.read_text(encoding="utf-8")
        assert re.findall(r'Page\(\\"([^"]+)\\"', source) == [id]


def test_a_banner_names_the_seeds_that_a_page_runs_of_its_profiles():
    seeds = {"weight-erosion-fig1": (1,), "waffle-table1": (1, 2, 3, 4, 5), "waffle-apfl": (1,)}
    assert {id: pages()[id].needed("paper").size.seeds for id in seeds} == seeds
    assert pages()["waffle-table1"].needed("paper", 2).size.seeds == (1, 2)


def test_of_two_notebooks_of_one_page_one_is_to_be_renamed_and_copies_are_no_pages(
    tmp_path, monkeypatch
):
    (tmp_path / "waffle").mkdir()
    for name in ("table1_accuracy", "table1_accuracy-Copy1", "my_table1"):
        to = tmp_path / f"waffle/{name}.ipynb"
        shutil.copy(FOLDER / "waffle/table1_accuracy.ipynb", to)
    monkeypatch.setattr(registry, "notebooks_folder", lambda: tmp_path)
    found = registry.pages.__wrapped__()
    assert {id: page.path.stem for id, page in found.items()} == {
        "waffle-table1": "table1_accuracy",
        "waffle-my-table1": "my_table1",
    }
    (tmp_path / "waffle" / "my_table1.ipynb").rename(tmp_path / "waffle" / "table1_mine.ipynb")
    refused("are both page 'waffle-table1': rename yours, as my_", registry.pages.__wrapped__)


def test_the_index_links_to_every_other_page_once():
    cells = read(FOLDER / "00_index.ipynb").cells
    prose = "".join(cell.source for cell in cells if cell.source.startswith("**WAFFLE**"))
    assert sorted(re.findall(r"\]\(([^)]+\.ipynb)\)", prose)) == sorted(
        set(NAMES) - {name for name in NAMES if re.match(r"0\d_", name)}
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_declares_typed_parameters_whose_defaults_are_the_quick_profile(path):
    cells = code_of(path)
    assert "globals()" in cells[1].source
    namespace: dict = {}
    exec(compile(cells[0].source, path.name, "exec"), namespace)
    assert {name: namespace[name] for name in DEFAULTS} == DEFAULTS
    understood = papermill.inspect_notebook(str(path))
    assert list(understood) == [n for n in namespace if not n.startswith("__")]
    assert all(one["help"] for one in understood.values())  # papermill shows comments as help
    assert parameters.settings(namespace).profile == "quick"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_thin_answers_after_its_runs_and_ends_with_checks_and_provenance(path):
    cells, code = read(path).cells, code_of(path)
    tagged = {tag: cell for cell in code for tag in cell.metadata.get("tags", [])}
    order = [tag for tag in tagged if tag in ("parameters", "settings", "runs", "answer")]
    assert order in (["parameters", "settings", *runs, "answer"] for runs in ([], ["runs"]))
    assert ".say(" in tagged["answer"].source or ".answer(" in tagged["answer"].source
    lines = [line for cell in code for line in cell.source.splitlines() if line.strip()]
    assert len(lines) <= 130, "code that two pages share has a module"
    assert "provenance(" in code[-1].source
    assert len({cell.id for cell in cells}) == len(cells)
    checks = [cell for cell in code if "nbval-check-output" in cell.metadata.get("tags", [])]
    assert checks and all("keep_output" in cell.metadata.tags and cell.outputs for cell in checks)
    assert all(cell.execution_count for cell in checks), "nbval refuses kept outputs of no run"
    source = "\n".join(cell.source for cell in code)
    asserted = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    assert asserted and all(node.msg for node in asserted), "a failing check must say what failed"
    assert not re.search(r"unstack\([^)]*sort=False", source), "pandas 2.2 mixes cells up"
    training = (".backward(", "torch.optim", "DataLoader")
    assert not any(word in source for word in training), "training code"
    prose = "".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "$" not in prose, "formulas are plain text"


def test_notebooks_are_committed_without_outputs_but_those_of_check_cells():
    command = [sys.executable, *"-m nbstripout --verify --keep-id --keep-count".split(), *NOTEBOOKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


BY_HAND = re.compile(r"run by hand\n\n```python\n(.*?)```", re.S)


@pytest.mark.parametrize("name", [n for n in NAMES if BY_HAND.search(source_of(n))])
def test_the_run_that_a_table_shows_by_hand_is_one_of_its_own(name, monkeypatch):
    class Asked(Exception):
        pass

    def ask(spec, *_, **__):
        raise Asked(spec.key[:12])

    for place in ("api", "experiments.runner"):
        monkeypatch.setattr(f"pfl_lib.{place}.run_one", ask)
    with pytest.raises(Asked) as asked:
        exec(BY_HAND.search(source_of(name))[1], {})
    frozen = json.loads((FOLDER.parent / "tests/papers/frozen.json").read_text())["keys"]
    paper, stem = name.removesuffix(".ipynb").split("/")
    assert str(asked.value) in frozen[f"{paper}-{stem.partition('_')[0]} paper"]


# --- executed ---
def executed(name: str, output: Path, **given) -> Job:
    """How a notebook ended with these parameters; its outputs go to `output`."""
    job = Job(name, FOLDER / name, output, given)
    execute_all([job], 1, lambda ended: None)
    return job


def test_a_notebook_runs_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output, given = tmp_path / "out.ipynb", {"results_dir": str(tmp_path / "results"), "rounds": 40}
    assert executed("waffle/fig8_omega.ipynb", output, slopes=[1.0, 3.2], **given).error == ""
    outputs = [out for cell in read(output).cells for out in cell.get("outputs", [])]
    pictures = [out for out in outputs if "image/png" in out.get("data", {})]
    assert pictures and all(out.metadata["image/png"]["alt"] for out in pictures)
    assert not [out for out in outputs if out.output_type == "stream" and out.name == "stderr"]


def test_a_page_that_draws_data_says_in_one_line_what_is_missing_where_nothing_may_be_downloaded(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PFL_PAGE", "1")
    (tmp_path / "data").mkdir()
    folders = {"data_dir": str(tmp_path / "data"), "results_dir": str(tmp_path)}
    cells = code_of("waffle/table2_distributions.ipynb")
    run_cells(cells, profile="paper", plots_only=True, **folders)
    told = capsys.readouterr().out
    assert told.count("missing in") == 1 and "cannot be shown: mnist: " in told
    assert "--data-dir" in told
    assert "0.40" in told, "counts need no data"


def test_drawing_what_is_stored_downloads_nothing(monkeypatch, cache, capsys):
    downloads = []
    source = dataclasses.replace(data.DATASETS["mnist"], download=downloads.append)
    monkeypatch.setitem(data.DATASETS, "mnist", source)
    monkeypatch.setenv("PFL_PAGE", "1")
    setting = waffle.TABLE1.settings[0]

    def split(**given):
        return Page("p", {"__annotations__": TYPES, **DEFAULTS, **given}).split(setting)

    assert split(plots_only=True) is None and not downloads
    line = capsys.readouterr().out
    assert line.startswith("Who holds what under A cannot be shown: mnist: ")
    assert line.endswith("(nothing is downloaded to draw what is stored)\n")
    assert line.count("\n") == 1
    with pytest.raises(BadInput):  # the stand-in leaves no files
        split()
    assert len(downloads) == 1


@dataclass(frozen=True)
class Failing(Local):
    name = "failing"

    def round(self, fed, state, r):
        raise ZeroDivisionError("no share")


def test_a_readers_method_that_fails_leaves_a_page_its_other_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PFL_PAGE", "1")
    given = {**DEFAULTS, "results_dir": str(tmp_path), "jobs": 1, "device": "cpu", "seeds": 1}
    page = Page("p", {"__annotations__": TYPES, **given}, waffle.ALL_PROFILES)
    table = page.scaled(waffle.TABLE1.only(["C"], ["Local"])).scheduled(rounds=1)
    runs = page.run(table.with_columns({"Mine": Failing()}))
    told = capsys.readouterr().out
    assert "failed: failing-digits-C-seed1-" in told and "ZeroDivisionError: no share (" in told
    assert told.endswith("2 runs, 1 stored.\n") and set(runs.frame["method"]) == {"Local"}
    page.ran(dataclasses.replace(runs.result("Local"), config={}))  # not stored: does not count
    monkeypatch.setattr(Local, "round", Failing.round)
    with pytest.raises(BadInput, match="1 of 1 runs failed; local-"):
        page.run(table.scheduled(rounds=2))
    given |= {"__annotations__": TYPES, "plots_only": True}
    page = Page("waffle-table1", given, waffle.ALL_PROFILES)
    with pytest.raises(NotRun, match="to train the others: set plots_only = False in the cell"):
        page.run(table.scheduled(rounds=2))  # which the page's own command does not train
    with pytest.raises(NotRun, match="--profile quick --only waffle-table1 --seeds 1$"):
        page.run(page.scaled(waffle.TABLE1.only(["C"], ["FedAvg"])))


def test_a_page_takes_no_run_of_a_partition_that_splits_otherwise_by_now(monkeypatch, tmp_path):
    monkeypatch.setenv("PFL_PAGE", "1")
    given = {**DEFAULTS, "results_dir": str(tmp_path), "jobs": 1, "device": "cpu", "seeds": 1}
    page = Page("p", {"__annotations__": TYPES, **given}, waffle.ALL_PROFILES)
    path = tmp_path / "first"
    table = page.scaled(waffle.TABLE1.only(["C"], ["Local"])).scheduled(rounds=1)
    table = table.with_setting(partition=Read(str(path)), clients=2)
    path.write_text("0")
    assert page.run(table).result("Local") and page.run(table).result("Local")
    path.write_text("9")
    assert "was stored with another split of the same version" in refusal(page.run, table)


def test_a_page_speaks_of_its_own_runs_beside_smaller_ones_of_exact_ones_of_no_paper_of_all():
    table1, scorecard = registry.page("waffle-table1"), registry.page("scorecard")
    own = {name: table1.needed(name) for name in ("quick", "small", "paper")}
    specs = {name: {*needed.specs} for name, needed in own.items()}
    shown = {name: {*build.behind(table1, needed)} for name, needed in own.items()}
    assert shown == specs | {"small": specs["small"] | specs["paper"]}
    every = build.behind(scorecard, scorecard.needed("quick"))
    assert set().union(*specs.values()) < {*every}


def test_a_column_for_which_the_paper_prints_nothing_is_shown_without_dots(capsys, monkeypatch):
    monkeypatch.setenv("PFL_PAGE", "1")
    profiles = pfedla.profiles(pfedla.TABLE2)
    page = Page("pfedla-table2", {"__annotations__": TYPES, **DEFAULTS}, profiles)
    runs = Runs((page.scaled(pfedla.TABLE2.only(columns=[pfedla.TUNED.name])),), lambda spec: None)
    page.show_beside(runs, compare.beside(runs))
    told = capsys.readouterr().out
    assert "CIFAR10: printed values and ours of other data" in told and "image/png" not in told
    runs = Runs((page.scaled(pfedla.TABLE2),), lambda spec: None)
    page.show_beside(runs, compare.beside(runs))
    told = capsys.readouterr().out.replace(r"\xa0", " ")
    for clients in (10, 100):  # eleven methods beside each other would be wider than a page
        assert f"CIFAR10, non-IID.2, {clients} clients: printed values and ours" in told


def start_quickstart(folder: Path, **given) -> None:
    """Its cells up to the one that trains: what they refuse needs no kernel."""
    run_cells(
        code_of("01_quickstart.ipynb")[:3], **{"results_dir": str(folder / "results"), **given}
    )


def test_the_quickstart_draws_nothing_where_nothing_is_stored(tmp_path):
    with pytest.raises(NotRun) as refused:
        start_quickstart(tmp_path, plots_only=True)
    told = str(refused.value)
    assert told.startswith("0 of the 4 runs behind this page are stored")
    assert told.endswith("pfl-lib reproduce --profile quick --only quickstart")


def test_the_quickstart_does_what_its_parameters_say(tmp_path, monkeypatch):
    short = waffle.QUICK.make(waffle.MNIST).scheduled(rounds=1)
    monkeypatch.setattr(waffle, "QUICK", dataclasses.replace(waffle.QUICK, make=lambda _: short))
    start_quickstart(tmp_path, seeds=2, jobs=1, device="cpu")
    stored = sorted((tmp_path / "results" / "cells").iterdir())
    assert len(stored) == 8, "four methods, two seeds each"
    assert all("cpu" in (folder / "config.json").read_text() for folder in stored)
    start_quickstart(tmp_path, seeds=2, plots_only=True)  # all of it is stored


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_what_a_check_cell_keeps_has_no_digit_that_another_machine_may_round_otherwise(path):
    """Counts, words and tolerances; the values stand in `recorded`, but for the index's."""
    checks = [cell for cell in code_of(path) if "keep_output" in cell.metadata.get("tags", [])]
    kept = "".join(out.text for cell in checks for out in cell.outputs)
    within = set(re.findall(r"to within (\S+)", kept))
    assert set(re.findall(r"\d+\.\d+|\d+e-?\d+|[0-9a-f]{16}", kept)) <= within
    if path.name != "00_index.ipynb":
        id = next(id for id, page in pages().items() if page.path == path)
        values = json.loads((FOLDER.parent / f"pfl_lib/pages/recorded/{id}.json").read_text())
        compared = set(re.findall(r"^(.+): \d+ values as recorded", kept, re.MULTILINE))
        assert compared and compared == values.keys() - {recorded.OWN, recorded.RUNS}


def test_a_notebook_that_cannot_be_read_is_an_error_of_its_own(tmp_path):
    (tmp_path / "broken.ipynb").write_text("{")
    error = executed(str(tmp_path / "broken.ipynb"), tmp_path / "out.ipynb").error
    assert error and "\n" not in error


# --- progress ---
def test_headless_progress_prints_nothing_but_what_is_said(monkeypatch, capsys):
    monkeypatch.setenv("PFL_HEADLESS", "1")
    monkeypatch.setattr("pfl_lib.progress.SECONDS_BEFORE_FIRST_LINE", 0.0)
    with progress(2, "training", "run") as bar:
        bar.update()
        bar.say("failed: a run")
    assert capsys.readouterr() == ("failed: a run\n", "")


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.delenv("PFL_HEADLESS", raising=False)
    monkeypatch.setattr("pfl_lib.progress._watched", lambda: False)
    clock = iter([0.0, 3.0, 6.0, 34.0, 62.0])  # the start, then one update each
    monkeypatch.setattr("pfl_lib.progress.time.monotonic", lambda: next(clock))
    with progress(30, "training", "run") as bar:
        for n in (1, 1, 5, 1):
            bar.update(n)
    told = "training: 2 of 30 runs after 6 s\ntraining: 8 of 30 runs after 62 s\n"
    assert capsys.readouterr() == ("", told)


def test_a_kernel_that_papermill_gave_parameters_to_shows_no_bars(monkeypatch):
    monkeypatch.setenv("PFL_HEADLESS", "1")
    monkeypatch.delenv("PFL_HEADLESS")  # so that it is unset again after this test
    settings()
    assert not headless()
    settings(In=["", "profile: str = 'quick'", "# Parameters\nprofile = 'quick'\n"])
    assert headless()
