"""Published results: many runs in few text files, which say what the folders of runs said."""

import base64
import contextlib
import json
import shutil
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from pfl_lib.methods import Local
from pfl_lib.results import published
from pfl_lib.results.published import MOST_NUMBERS, signed, thinned
from pfl_lib.results.store import Store
from tests.common import refused
from tests.results.common import assert_same, described, layered, result

RUNS = [described(seed=seed) for seed in (1, 2, 3)]
OTHER = described(Local())


@pytest.fixture
def mine(tmp_path) -> Store:
    """One's own results, the last with weights by round, and an empty folder to publish into."""
    store = Store(tmp_path / "mine", tmp_path / "published")
    for spec in RUNS:
        store.save(spec, layered(spec))
    store.save(OTHER, result(OTHER))
    return store


@pytest.fixture
def reader(tmp_path, mine) -> Store:
    """Another's store, without results of its own, above the same published folder."""
    return Store(tmp_path / "other", mine.published)


def test_a_published_run_says_to_the_last_bit_what_its_folder_says(mine, reader):
    for spec in (*RUNS, OTHER):
        assert reader.find(spec) is None and mine.publish(spec)
        assert_same(reader.find(spec), mine.find(spec))
        assert reader.find(spec).model is None and mine.find(spec).model is not None


def test_runs_of_a_method_and_a_data_set_share_a_file_a_sorted_line_each(mine, reader):
    """Another run leaves the lines of the others as they are, and is seen at once."""
    for spec in (RUNS[2], OTHER):
        assert reader.find(spec) is None
        mine.publish(spec)
        assert reader.find(spec) is not None
    volumes = {path.name for path in mine.published.glob("[!.]*")}
    assert volumes == {"fedavg-digits.jsonl", "local-digits.jsonl"}
    file = mine.published / "fedavg-digits.jsonl"
    (before,) = file.read_text().splitlines()
    mine.publish(RUNS[0])
    after = file.read_text().splitlines()
    assert before in after
    names = [json.loads(line)["run"] for line in after]
    assert names == sorted(spec.slug for spec in (RUNS[0], RUNS[2]))
    assert not mine.publish(RUNS[0]), "it is there already"
    assert file.read_text().splitlines() == after


def test_what_a_reader_changes_in_a_result_is_not_seen_by_the_next(mine, reader):
    mine.publish(RUNS[0])
    changed = reader.find(RUNS[0])
    changed.metrics["accuracy"] = 0.0
    changed.weights[:] = 0
    changed.config["method"]["name"] = "other"
    assert_same(reader.find(RUNS[0]), mine.find(RUNS[0]))


def test_a_flipped_bit_loses_no_other_run_is_told_and_is_never_written_over(mine, capsys):
    for spec in RUNS[:2]:
        mine.publish(spec)
    path = mine.published / "fedavg-digits.jsonl"
    whole = path.read_bytes()
    first, second = sorted(RUNS[:2], key=lambda spec: spec.slug)
    end = 8 * whole.index(b"\n")
    # Spread over the first line; then its high bits, which are no UTF-8, and the run's name.
    for bit in [*range(0, end, end // 15), 7, end - 1, 8 * 9 + 7, 8 * 12]:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        reader = Store(mine.root.parent / "other", mine.published)
        assert reader.find(first) is None and reader.find(second) is not None
        assert [one.config["key"] for one in reader.results()] == [second.key]
        assert "fedavg-digits.jsonl, line 1 is damaged" in capsys.readouterr().err
        before = path.read_bytes()
        refused("line 1 is damaged: restore it .git checkout.", mine.publish, RUNS[2])
        assert path.read_bytes() == before
    path.write_bytes(whole)
    assert mine.publish(RUNS[2]) and Store(mine.root, mine.published).find(first)


def test_a_table_that_is_altered_and_packed_again_is_no_result(mine, reader):
    mine.publish(RUNS[0])
    path = mine.published / "fedavg-digits.jsonl"
    of_run = json.loads(path.read_text())
    table = zlib.decompress(base64.b85decode(of_run["metrics.csv.zlib"])).decode()
    altered = table.replace("0.3333333333333333", "0.4333333333333333", 1)
    assert altered != table
    packed = base64.b85encode(zlib.compress(altered.encode())).decode()
    del of_run["sha256"]
    path.write_text(signed(json.dumps(of_run | {"metrics.csv.zlib": packed})) + "\n")
    assert reader.find(RUNS[0]) is None


@pytest.mark.parametrize("left", ["", "{", "no line of ours\n", "\xff", '{"run": "fedavg'])
def test_a_file_that_holds_no_runs_is_passed_over(mine, reader, left):
    mine.publish(RUNS[0])
    (mine.published / "fedavg-digits.jsonl").write_text(left, encoding="latin-1")
    assert reader.find(RUNS[0]) is None and list(reader.results()) == []


def test_a_small_model_goes_along_where_it_is_asked_for_and_replaces_one_without(mine, reader):
    assert mine.publish(RUNS[0]) and reader.find(RUNS[0]).model is None
    assert mine.publish(RUNS[0], with_model=True), "it lacked its model"
    assert not mine.publish(RUNS[0], with_model=True) and not mine.publish(RUNS[0])
    assert reader.has(RUNS[0], with_model=True)
    model = reader.find(RUNS[0], with_model=True).model
    assert torch.equal(model["fc.weight"], torch.tensor([[[0.1, -2.0]]]))


def test_a_large_model_never_goes_along(mine, reader):
    large = Store(mine.root.parent / "large", mine.published)
    large.save(RUNS[1], layered(RUNS[1], model={"weight": torch.zeros(1, 1_001)}))
    assert large.publish(RUNS[1], with_model=True)
    assert reader.find(RUNS[1]).model is None
    assert not large.publish(RUNS[1], with_model=True), "it would come without its model again"


def test_a_file_that_another_process_writes_is_waited_for(mine, monkeypatch):
    """Else both would have read the file before either replaces it, and one line would be lost."""
    both, line = threading.Barrier(2), published._line

    def waiting(slug, result):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(1)
        return line(slug, result)

    monkeypatch.setattr(published, "_line", waiting)
    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(mine.publish, RUNS[:2]))
    assert {run.slug for run in RUNS[:2]} <= set(published.Published(mine.published).places())


def test_what_is_there_already_is_said_of_a_folder_that_cannot_be_written(mine, monkeypatch):
    mine.publish(RUNS[0])
    monkeypatch.setattr(published, "FileLock", None)
    assert not mine.publish(RUNS[0])


def test_of_large_matrices_evenly_spaced_rounds_are_published_as_they_are():
    """MOST_NUMBERS 16,000: of 41 rounds of 1,600 weights ten are kept, of 41 matrices of 10,000
    numbers the first and the last.
    """
    draw = np.random.default_rng(0)
    weights = draw.random((41, 4, 20, 20)).astype(np.float32)
    affinity = draw.random((41, 100, 100)).astype(np.float32)
    rounds = np.arange(0, 82, 2) + 1
    of = {"weights": weights, "matrices": {"affinity": affinity}}
    one = thinned(layered(RUNS[0], **of, weights_rounds=rounds, matrices_rounds=rounds))
    assert one.weights.size == MOST_NUMBERS and len(one.weights) == 10
    assert one.weights_rounds[[0, -1]].tolist() == [1, 81]
    assert set(np.diff(one.weights_rounds)) <= {8, 10}, "nine steps of 40 / 9 kept rounds"
    assert np.array_equal(one.weights, weights[np.isin(rounds, one.weights_rounds)])
    assert one.matrices_rounds.tolist() == [1, 81]
    assert np.array_equal(one.matrices["affinity"], affinity[[0, -1]])


def test_a_published_run_is_shown_by_its_name_or_its_key(mine, reader):
    mine.publish(RUNS[0])
    for name in (RUNS[0].slug, RUNS[0].key, RUNS[0].key[:10]):
        path, found = reader.named(name)
        assert path == mine.published / "fedavg-digits.jsonl"
        assert found.config["key"] == RUNS[0].key
    refused("is no result in .* and not published: give the name", reader.named, RUNS[1].slug)


def test_a_folder_or_volume_that_cannot_be_used_is_told_in_one_line(mine, reader, capsys):
    mine.published.mkdir()
    (mine.published / "fedavg-digits.jsonl").mkdir()
    assert reader.find(RUNS[0]) is reader.find(RUNS[0]) is None
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("cannot be read (Is a directory): its runs count as not run")
    refused("cannot be read .Is a directory.: restore it", mine.publish, RUNS[0])
    shutil.rmtree(mine.published)
    mine.published.write_text("")
    refused(f"^{RUNS[0].slug} cannot be published in .*\\)$", mine.publish, RUNS[0])
