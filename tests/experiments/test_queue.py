"""The queue of `reproduce --train-only`: its order, what it names, and the budget of hours."""

import pytest

from pfl_lib.__main__ import main
from pfl_lib.cli.training import queue_of
from pfl_lib.experiments.queue import queued
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg, Local
from pfl_lib.pages.registry import page
from pfl_lib.results.store import Store
from tests.common import refusal, refused


def of_page(name: str) -> tuple[RunSpec, ...]:
    return page(name).needed("paper").specs


def test_the_repositorys_queue_names_runs_of_the_papers_pages_each_once():
    runs = queue_of("paper", None)
    pages = "waffle-table1 fedfomo-table2 fedfomo-table1 pfedla-table1 pfedla-table2".split()
    pages += "fedfomo-table3 fedfomo-table4 fedfomo-fig2 fedfomo-fig3 fedfomo-fig9".split()
    pages += "waffle-readings waffle-apfl".split()
    known = {run for page in pages for run in of_page(page)}
    assert set(runs) < known and len(set(runs)) == len(runs)
    assert {run.seed for run in queue_of("paper", 2)} == {1, 2}
    assert queue_of("quick", None) is None and queue_of("small", None) is None


def test_an_entry_keeps_what_it_names_by_seed_and_short_runs_first(tmp_path):
    queue = tmp_path / "queue.yaml"
    queue.write_text(
        "profile: paper\nruns:\n- page: waffle-table1\n  methods: [apfl, local]\n"
        "  partitions: [A*]\n  seeds: [3, 2]\n- {page: waffle-table1, methods: [local]}\n"
    )
    runs = queued(queue, "paper", of_page)
    order = [("local", 2), ("apfl", 2), ("local", 3), ("apfl", 3)]
    assert [(run.method.name, run.seed) for run in runs[:4]] == order
    assert {run.partition for run in runs[:4]} == {"A*"}
    assert {run.method.name for run in runs[4:]} == {"local"} and len(runs) == 4 + 23


def test_a_misspelt_entry_is_told_in_one_line(tmp_path):
    for entry, says in (
        ("page: waffle-tabel1", "table or figure 'waffle-tabel1' (did you mean "),
        ("methods: [local]", "{'methods': ['local']} names no page"),
        ("{page: waffle-table1, method: [local]}", "field 'method' (did you mean methods?)"),
        ("{page: waffle-table1, seeds: 1}", "seeds 1: give a list"),
        ("{page: waffle-table1, methods: [loacl]}", "waffle-table1, methods 'loacl' (did you mean"),
        ("{page: waffle-table1, seeds: [6]}", "waffle-table1, seeds 6 is not one of 1, 2, 3, 4, 5"),
    ):
        (tmp_path / "queue.yaml").write_text(
            f"profile: paper\nruns:\n- page: waffle-fig4\n- {entry}\n"
        )
        told = refusal(queued, tmp_path / "queue.yaml", "paper", of_page)
        assert told.startswith(f"{tmp_path / 'queue.yaml'}, entry 2: {says}")


@pytest.mark.parametrize("text", ["runs: [", "- page: a", "profile: paper\nruns: {}", "\xff"])
def test_a_file_that_is_no_queue_is_told_in_one_line(text, tmp_path):
    (tmp_path / "queue.yaml").write_text(text, encoding="latin-1")
    file = tmp_path / "queue.yaml"
    refused(r"queue\.yaml(:| cannot be read)", queued, file, "paper", of_page)


def test_hours_end_training_and_the_next_call_goes_on(tmp_path, monkeypatch, capsys):
    settings = {"dataset": "digits", "model": "linear", "clients": 2}
    runs = [RunSpec(method, Schedule(2), **settings) for method in (Local(), FedAvg())]
    monkeypatch.setattr("pfl_lib.cli.reproduce.queue_of", lambda profile, seeds: runs)
    monkeypatch.setattr("pfl_lib.cli.training.estimate", lambda *_: 1.0)
    words = ["reproduce", "--profile", "paper", "--train-only", "--jobs", "1"]
    words += ["--results-dir", str(tmp_path)]
    assert main([*words, "--hours", "1e-9"]) == 0
    told = capsys.readouterr().out
    assert "queue.yaml alone (--only names other pages): 0 of 2 runs stored" in told
    assert "trained 0, failed 0, stopped 0, not started 2 (the command resumes)" in told
    assert main(words) == 0
    assert "trained 2, failed 0" in capsys.readouterr().out
    assert all(Store(tmp_path).find(run) for run in runs)
