"""`pfl-lib results`: what it shows, takes over and removes, and that results stay."""

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from pfl_lib.__main__ import main
from pfl_lib.methods import Local
from pfl_lib.results import files as files_of
from pfl_lib.results import store as stores
from pfl_lib.results.several import Results
from pfl_lib.results.store import Store
from tests.common import no_room
from tests.results.common import RUN, described, layered, result

FEDAVG, LOCAL = RUN, described(Local())
STATE = {"state": {"theta": torch.arange(5.0)}, "done": 2}


@pytest.fixture
def store(results_dir, monkeypatch) -> Store:
    """One's own results, with FedAvg's in it; none are published."""
    monkeypatch.setenv("PFL_IGNORE_PUBLISHED", "1")
    store = Store(results_dir, published=None)
    store.save(FEDAVG, result(FEDAVG))
    return store


@pytest.fixture
def other(tmp_path) -> Store:
    return Store(tmp_path / "other", published=None)


def files(store: Store) -> dict[str, bytes]:
    there = [path for path in store.root.rglob("*") if path.is_file()]
    return {str(path.relative_to(store.root)): path.read_bytes() for path in there}


@pytest.fixture
def say(store, capsys):
    """Run an action on one's own results: its exit status and its lines."""

    def go(*words) -> tuple[int, list[str]]:
        status = main(["results", *map(str, words), "--results-dir", str(store.root)])
        printed = capsys.readouterr()
        return status, (printed.out if status != 2 else printed.err).splitlines()

    return go


def test_what_list_shows_can_be_shown(say):
    _, lines = say("list")
    assert lines[1].endswith(f"33.33% {FEDAVG.key[:10]} clients=2")
    for name in (FEDAVG.key[:10], FEDAVG.key[:4], FEDAVG.key):
        assert say("show", name) == say("show", FEDAVG.slug)


def test_list_shows_results_of_a_newer_version_by_their_names(say, store):
    newer = {
        "newer_method": {"method": {"name": "newer_method", "depth": 2}},
        "newer_set": {"dataset": "newer_set"},
        "dirichlet": {"partition": {"name": "dirichlet", "version": 7, "breadth": 0.3}},
    }
    for name, change in newer.items():
        config = FEDAVG.config() | change
        config["key"] = files_of.key_of(config)
        files_of.write(result(FEDAVG, config=config), store.root / "cells" / name)
    shown = "\n".join(say("list")[1])
    for words in ("newer_method", "depth=2", "newer_set", "dirichlet(breadth=0.3)"):
        assert words in shown


def test_list_keeps_to_the_lines_that_have_all_words_and_says_where_there_are_none(say, store):
    store.save(LOCAL, result(LOCAL))
    assert len(say("list")[1]) == 3
    for words, spec in ((["local"], LOCAL), (["FedAvg", FEDAVG.dataset], FEDAVG)):
        status, lines = say("list", *words)
        assert status == 0 and len(lines) == 2 and spec.key[:10] in lines[1]
    assert "none of 2 results has fedavg and local" in say("list", "fedavg", "local")[1][0]
    shutil.rmtree(store.root)
    assert say("list") == (0, ["no results yet (pfl-lib reproduce)"])


def test_a_result_is_shown_with_its_settings_rounds_and_matrices(say, store):
    store.save(LOCAL, layered(LOCAL))
    status, lines = say("show", LOCAL.slug)
    assert status == 0 and lines[0] == str(store.folder(LOCAL))
    assert json.loads("\n".join(lines[1:-5]))["method"] == {"name": "local", "version": 1}
    assert lines[-5:] == [
        "accuracy: best 33.33% (round 2), last 30.00% (round 3)",
        "0.00 MB sent by all clients, 0.00 MB received",
        "weights [2, 3, 2, 2]: 2 of the rounds 1 to 3",
        "affinity [2, 2, 2]: 2 of the rounds 1 to 2",
        "1.5 seconds of training; with its model",
    ]


def test_a_last_round_without_a_mean_is_not_a_number(say, store):
    rows = {"round": [1, 2], "client": 0, "accuracy": [0.5, float("nan")], "loss": 1.0}
    lost = result(LOCAL, metrics=pd.DataFrame(rows))
    store.save(LOCAL, lost)
    told = "accuracy: best 50.00% (round 1), last not a number (round 2)"
    assert told in say("show", LOCAL.slug)[1]
    assert "best 50.00%, last not a number" in repr(lost)
    assert "best 50.00 %, last not a number;" in repr(Results([lost]))


def test_rounds_that_all_lack_a_mean_have_no_best_one(say, store):
    none = pd.DataFrame({"round": [1], "client": 0, "accuracy": [float("nan")], "loss": 1.0})
    lost = result(LOCAL, metrics=none)
    store.save(LOCAL, lost)
    assert " not a number " in say("list", "local")[1][-1]
    assert "best not a number, last not a number" in repr(lost)


def test_a_diverged_result_without_any_round_is_listed_and_shown(say, store):
    none = pd.DataFrame(columns=["round", "client", "accuracy", "loss"])
    store.save(LOCAL, result(LOCAL, metrics=none, weights=None, diverged=1, model=None))
    assert f" diverged at round 1 {LOCAL.key[:10]}" in "\n".join(say("list")[1])
    _, lines = say("show", LOCAL.slug)
    assert lines[-2:] == ["diverged in round 1", "1.5 seconds of training; without its model"]


def test_a_name_of_no_result_or_of_several_or_of_a_damaged_one_is_told_in_one_line(say, store):
    def refused(name: str) -> str:
        status, (line,) = say("show", name)
        assert status == 2
        return line

    store.save(LOCAL, result(LOCAL))
    for nothing in ("nothing", "", LOCAL.key[:3], FEDAVG.key[:10] + "zz"):
        assert refused(nothing).startswith(f"pfl-lib: {nothing!r} is no result in")
    digits = "11" if LOCAL.key[8:10] == "00" else "00"
    other = store.folder(LOCAL).with_name(f"local-else-seed1-{LOCAL.key[:8]}{digits}")
    shutil.copytree(store.folder(LOCAL), other)
    assert "fits 2 results: give the name of one" in refused(LOCAL.key[:8])
    shutil.rmtree(other)
    (store.folder(LOCAL) / "metrics.csv").write_text("")
    assert "is damaged: 'pfl-lib results prune' removes it" in refused(LOCAL.slug)


def test_results_of_another_folder_are_taken_over_whole_and_ones_own_stay(say, store, other):
    other.save(FEDAVG, result(FEDAVG, seconds=9.0))
    other.save(LOCAL, result(LOCAL))
    mine, theirs = files(store), files(other)
    status, lines = say("merge", other.root)
    assert status == 0
    told = "{} of 2 results taken over, 0 damaged, the others are here already"
    assert lines == [f"taken: {LOCAL.slug}", told.format(1)]
    assert store.find(FEDAVG).seconds == 1.5 and store.find(LOCAL).model
    assert mine.items() <= files(store).items() and files(other) == theirs
    assert say("merge", other.root)[1] == [told.format(0)]


def test_what_is_damaged_there_is_not_taken_and_what_is_damaged_here_is_mended(say, store, other):
    other.save(FEDAVG, result(FEDAVG))
    other.save(LOCAL, result(LOCAL))
    config = other.folder(LOCAL) / "config.json"
    config.write_text(config.read_text().replace('"diverged": null', '"diverged": 3'))
    shutil.copytree(other.folder(FEDAVG), other.folder(FEDAVG).with_name("renamed"))
    (store.folder(FEDAVG) / "metrics.csv").write_text("")
    status, lines = say("merge", other.root)
    assert status == 1
    assert sorted(lines) == [
        "1 of 3 results taken over, 2 damaged, the others are here already",
        f"damaged: {LOCAL.slug}",
        "damaged: renamed",
        f"taken: {FEDAVG.slug}",
    ]
    assert store.find(FEDAVG) is not None and not store.folder(LOCAL).exists()


def test_no_results_and_a_full_disk_are_told_in_one_line(say, store, other, tmp_path, monkeypatch):
    status, (line,) = say("merge", tmp_path / "none")
    assert status == 2 and "is no results folder: give one that holds 'cells'" in line
    other.save(LOCAL, result(LOCAL))
    kept = files(store)

    monkeypatch.setattr(stores, "write", no_room)
    status, (line,) = say("merge", other.root)
    assert status == 2 and "could not be stored" in line and "make room there" in line
    assert files(store) == kept


# --- prune ---
def age(path: Path) -> None:
    two_hours_ago = time.time() - 7200
    os.utime(path, (two_hours_ago, two_hours_ago))


def test_leftovers_go_and_results_and_checkpoints_of_unfinished_runs_stay(say, store):
    kept = files(store)
    store.save_checkpoint(LOCAL, STATE)
    kept |= {f"checkpoints/{LOCAL.slug}.pt": store.checkpoint_path(LOCAL).read_bytes()}
    store.save_checkpoint(FEDAVG, STATE)  # of a run that is finished
    damaged = dataclasses.replace(LOCAL, seed=2)
    store.save(damaged, result(damaged))
    (store.folder(damaged) / "model.pt").unlink()
    store.checkpoint_path(damaged).write_bytes(b"half")
    for place in ("cells/.killed01", "checkpoints/.killed01"):
        (store.root / place).mkdir()
        (store.root / place / "half").write_text("")
        age(store.root / place)
    status, lines = say("prune")
    assert status == 0 and lines[-1] == f"5 removed from {store.root}"
    assert sorted(lines[:-1]) == [
        f"checkpoint of a finished run: checkpoints/{FEDAVG.slug}.pt",
        f"damaged checkpoint: checkpoints/{damaged.slug}.pt",
        f"damaged result: cells/{damaged.slug}",
        "left behind by a process that was killed: cells/.killed01",
        "left behind by a process that was killed: checkpoints/.killed01",
    ]
    assert files(store) == kept
    assert say("prune") == (0, [f"0 removed from {store.root}"])


def test_files_that_no_run_has_written_stay(say, store):
    places = "cells/README.txt cells/blood/image.png checkpoints/best_model.pt checkpoints/.gitkeep"
    for place in places.split():
        path = store.root / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        age(path)
        age(path.parent)
    kept = files(store)
    assert say("prune", "--checkpoints")[1][-1] == f"0 removed from {store.root}"
    assert files(store) == kept


def test_what_a_run_may_be_writing_just_now_stays_and_checkpoints_go_where_asked_for(say, store):
    (store.root / "checkpoints" / ".now_now_").mkdir()
    store.save_checkpoint(LOCAL, STATE)
    assert say("prune")[1] == [f"0 removed from {store.root}"]
    line = f"checkpoint of an unfinished run: checkpoints/{LOCAL.slug}.pt"
    assert say("prune", "--checkpoints")[1][0] == line
    assert store.load_checkpoint(LOCAL) is None and store.find(FEDAVG) is not None


def test_a_result_whose_reading_failed_once_stays(say, store, monkeypatch):
    kept, real, failed = files(store), stores.read, []

    def flaky(path, key=None):
        if path == store.folder(FEDAVG) and not failed:
            failed.append(1)
            return None
        return real(path, key)

    monkeypatch.setattr(stores, "read", flaky)
    assert say("prune")[1][-1] == f"0 removed from {store.root}" and failed
    assert files(store) == kept
