"""The results folder: whole entries or none, damage noticed, several writers at once."""

import contextlib
import dataclasses
import hashlib
import io
import json
import math
import multiprocessing
import pickle
import resource
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib import BadInput, compare
from pfl_lib.methods import Local
from pfl_lib.models.cnn import LeNet5
from pfl_lib.results import files
from pfl_lib.results.published import Published
from pfl_lib.results.store import PUBLISHED, NotStored, Store, default_results_dir
from tests.common import refused
from tests.results.common import RUN, assert_same, described, layered, result

EMPTY = pd.DataFrame(columns=["round", "client", "accuracy", "loss"])
SHAPES = [(1, 1), (3, 1), (1, 4), (3, 4, 4), (3, 1, 1), (3, 2, 4, 4)]
RESULTS = {
    "weights": result(),
    "matrices": layered(),
    "rounds": result(weights_rounds=np.array([1, 2, 7])),
    "nothing": result(weights=None, model=None),
    "no round": result(metrics=EMPTY, weights=None, diverged=1),
    # Those by client and client are of single precision.
    **{str(of): result(weights=np.random.default_rng(0).random(of)) for of in SHAPES[:3]},
    **{
        str(of): result(weights=np.random.default_rng(0).random(of, np.float32))
        for of in SHAPES[3:]
    },
}


@pytest.mark.parametrize("one", RESULTS.values(), ids=RESULTS)
def test_a_stored_result_comes_back_to_the_last_bit(store, one):
    assert store.find(RUN) is None
    store.save(RUN, one)
    found = store.find(RUN)
    found.metrics, metrics = (of.metrics.astype(float) for of in (found, one))
    config = json.loads(json.dumps(one.config))
    assert_same(dataclasses.replace(one, metrics=metrics, config=config), found)
    assert (found.model or {}).keys() == (one.model or {}).keys()
    assert all(torch.equal(found.model[name], value) for name, value in (one.model or {}).items())
    assert len(metrics) or math.isnan(found.best_accuracy) and math.isnan(found.last_accuracy)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def altered(name: str, old: str, new: str):
    return lambda at: (at / name).write_text((at / name).read_text().replace(old, new, 1))


def written(content: bytes):
    return lambda at: (at / "config.json").write_bytes(content)


DAMAGES = {
    "metrics.csv is cut short": lambda at: cut(at / "metrics.csv"),
    "metrics.csv is empty": lambda at: (at / "metrics.csv").write_bytes(b""),
    "metrics.csv is gone": lambda at: (at / "metrics.csv").unlink(),
    "a weight is altered": altered("weights.csv", "3", "4"),
    "a bit of the model is altered": lambda at: flip(at / "model.pt"),
    "the model is gone": lambda at: (at / "model.pt").unlink(),
    "config.json is cut short": lambda at: cut(at / "config.json"),
    "config.json is gone": lambda at: (at / "config.json").unlink(),
    **{f"config.json is {of!r}": written(of) for of in (b"", b"[1, 2]", b"null", b"{}", b"\xff\0")},
    "config.json has another key": altered("config.json", RUN.key, "0" * 64),
    "config.json says diverged": altered("config.json", '"diverged": null', '"diverged": 7'),
    "config.json has no key": altered("config.json", '"key"', '"kez"'),
    "config.json has no checksum": altered("config.json", '"checksum"', '"checksun"'),
    "the folder is empty": lambda at: [path.unlink() for path in at.iterdir()],
    "the folder is a file": lambda at: (shutil.rmtree(at), at.write_text("")),
}


def signed(at: Path, name: str, content: bytes) -> None:
    """Put other content into a file of an entry, with the checksums that it should have."""
    (at / name).write_bytes(content)
    config = json.loads((at / "config.json").read_text())
    del config["checksum"]
    config["files"][name] = hashlib.sha256(content).hexdigest()
    config["checksum"] = files._checksum(config)
    (at / "config.json").write_text(json.dumps(config))


def pickled(held: object) -> bytes:
    torch.save(held, content := io.BytesIO())
    return content.getvalue()


HEAD = b"round,client,accuracy,loss\n"
BAD = {
    "nothing": ("model.pt", b""),
    "no pickle": ("model.pt", b"no model"),
    "a pickle of more": ("model.pt", pickle.dumps(Path("."))),
    "no model": ("model.pt", pickled(None)),
    "a model of numbers": ("model.pt", pickled({"weight": 1})),
    "no metrics": ("metrics.csv", b"a,b\n1,2\n"),
    "half a row": ("metrics.csv", HEAD + b"1,0\n"),
    "more than a row": ("metrics.csv", HEAD + b"1,0,0.5,1,2\n"),
    "a row twice": ("metrics.csv", HEAD + b"1,0,0.5,1\n" * 2),
}


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
@pytest.mark.parametrize(("name", "content"), BAD.values(), ids=BAD)
def test_bad_content_with_a_right_checksum_is_damage(store, name, content):
    store.save(RUN, result())
    signed(store.folder(RUN), name, content)
    assert store.find(RUN) is None and list(store.results()) == []
    assert [*store.prune().values()] == ["damaged result"]


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
@pytest.mark.parametrize(
    "content", [b"", b"no pickle", pickle.dumps(Path(".")), pickled([1])], ids=range(4)
)
def test_a_bad_checkpoint_with_a_right_checksum_is_damage(store, content):
    store.check_writable()
    store.checkpoint_path(RUN).write_bytes(hashlib.sha256(content).digest() + content)
    assert store.load_checkpoint(RUN) is None
    assert [*store.prune().values()] == ["damaged checkpoint"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_noticed_and_replaced(store, damage):
    store.save(RUN, result())
    DAMAGES[damage](store.folder(RUN))
    assert store.find(RUN) is None
    assert all(result.config["key"] != RUN.key for result in store.results())
    store.save(RUN, result())
    assert store.find(RUN) is not None
    left = [path.name for path in (store.root / "cells").iterdir()]
    assert left == [RUN.slug], "something was left behind"


@pytest.mark.parametrize(
    ("changed", "new_key"),
    [
        *(({name: 9}, False) for name in ("seed", "dataset", "clients", "extra", "key")),
        *(({name: {}}, True) for name in ("method", "partition", "schedule")),
        ({"seed": ...}, True),
    ],
    ids=str,
)
def test_a_description_without_its_key_or_of_no_run_is_damage(tmp_path, changed, new_key):
    """The checksums are right, so that nothing else tells."""
    for changes, is_whole in (({}, True), (changed, False)):
        one = result()
        one.config = {n: v for n, v in {**one.config, **changes}.items() if v is not ...}
        if new_key:
            told = {n: v for n, v in one.config.items() if n not in files.OUTCOME}
            one.config["key"] = files.key_of(told)
        files.write(one, tmp_path / str(is_whole))
        assert (files.read(tmp_path / str(is_whole)) is not None) == is_whole


@contextlib.contextmanager
def small_disk():
    """No file holds more than 512 bytes: a longer one is cut there, and the error follows."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_result_that_cannot_be_written_is_not_lost_and_is_told_in_one_line(store):
    one = result()
    with pytest.raises(NotStored) as refused, small_disk():
        store.save(RUN, one)
    assert refused.value.result is one and isinstance(refused.value, BadInput)
    told = f"{RUN.slug} could not be stored in {store.root} (File too large): make room"
    assert str(refused.value) == f"{told} there, or give another results_dir (--results-dir)"
    assert not any((store.root / "cells").iterdir()), "something was left behind"


@pytest.mark.parametrize("write", ["result", "checkpoint", "volume", "model", "csv", "latex"])
def test_what_a_full_disk_cuts_is_not_left_behind(write, store, tmp_path):
    one, place = result(), tmp_path / "file"
    one.model = {"w": torch.zeros(1, 1000)}
    one.metrics = pd.concat([one.metrics] * 50).assign(round=range(150))
    several = compare({"much " * 100: one})
    place.write_text("as before")
    store.check_writable()
    writers = {
        "result": lambda: store.save(RUN, one),
        "checkpoint": lambda: store.save_checkpoint(RUN, {"state": one.model}),
        "volume": lambda: Published(tmp_path).put(RUN.slug, one),
        "model": lambda: one.save_model(place),
        "csv": lambda: several.to_csv(place),
        "latex": lambda: several.to_latex(place),
    }
    with pytest.raises(OSError if write == "checkpoint" else BadInput), small_disk():
        writers[write]()
    assert place.read_text() == "as before"
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]
    assert left == [place], "something was left behind"


def test_every_published_result_is_whole(capsys):
    names = list(Published(PUBLISHED).places())
    assert len(list(Store(Path("/nowhere")).results())) == len(names) > 0
    assert capsys.readouterr().err == "", "a damaged line"
    assert sum(path.stat().st_size for path in PUBLISHED.rglob("*")) < 12 * 2**20


def test_published_results_are_not_read_where_they_are_to_be_ignored(monkeypatch, results_dir):
    for unset in ("", "0"):
        monkeypatch.setenv("PFL_IGNORE_PUBLISHED", unset)
        assert any(Store(results_dir).results())
    monkeypatch.setenv("PFL_IGNORE_PUBLISHED", "1")
    store = Store(results_dir)
    assert not any(store.results())
    refused(r"no result in .* \(published ones are not read\)", store.named, "waffle-mnist-A-seed1")
    store.save(RUN, result())
    assert store.find(RUN) is not None and len(list(store.results())) == 1


def test_saving_what_is_there_already_keeps_it(store):
    store.save(RUN, result())
    before = {path.name: path.stat().st_ino for path in store.folder(RUN).iterdir()}
    store.save(RUN, result(seconds=9.0))
    assert {path.name: path.stat().st_ino for path in store.folder(RUN).iterdir()} == before


STATE = {
    "state": {"theta": torch.arange(500.0), "history": torch.full((2, 3), float("nan"))},
    "done": 7,
    "metrics": [],
}


def test_a_checkpoint_comes_back_and_goes_when_the_result_is_saved(store):
    store.check_writable()
    assert store.load_checkpoint(RUN) is None
    store.save_checkpoint(RUN, STATE)
    found = store.load_checkpoint(RUN)
    assert found["done"] == 7 and torch.equal(found["state"]["theta"], STATE["state"]["theta"])
    assert found["state"]["history"].isnan().all()
    store.save(RUN, result())
    assert store.load_checkpoint(RUN) is None
    assert not any((store.root / "checkpoints").iterdir())


def test_checkpoints_saved_at_once_disturb_each_other_nowhere_and_leave_nothing(store, monkeypatch):
    """Two machines on one shared folder may have the same process id: it names no file."""
    store.check_writable()
    replace, nested = Path.replace, []

    def interrupted(path, target):
        if not nested:
            nested.append(path)
            store.save_checkpoint(RUN, STATE | {"done": 8})
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    store.save_checkpoint(RUN, STATE)
    assert store.load_checkpoint(RUN)["done"] == 7
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        store.save_checkpoint(RUN, STATE)
    assert [path.name for path in (store.root / "checkpoints").iterdir()] == [f"{RUN.slug}.pt"]


def test_no_altered_or_cut_checkpoint_is_believed(store):
    """Single flipped bits all over the file, which torch.load alone does not notice."""
    store.check_writable()
    store.save_checkpoint(RUN, STATE)
    path = store.checkpoint_path(RUN)
    whole = path.read_bytes()
    for at in range(0, len(whole), 197):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        assert store.load_checkpoint(RUN) is None
        path.write_bytes(whole[:at])
        assert store.load_checkpoint(RUN) is None
    path.write_bytes(whole)
    assert store.load_checkpoint(RUN)["done"] == 7


@pytest.fixture
def above(tmp_path) -> Store:
    """A store above another's published result of 1.0 seconds, which has no model."""
    theirs = Store(tmp_path / "theirs", tmp_path / "published")
    theirs.save(RUN, result(seconds=1.0))
    assert theirs.publish(RUN)
    return Store(tmp_path / "mine", tmp_path / "published")


def test_published_results_are_read_below_ones_own_and_never_written(above):
    volume = next(above.published.iterdir())
    before = volume.read_bytes()
    assert above.find(RUN).seconds == 1.0
    above.save(RUN, result(seconds=2.0))
    assert above.find(RUN).seconds == 2.0
    assert [result.config["key"] for result in above.results()] == [RUN.key]
    assert volume.read_bytes() == before


@pytest.mark.parametrize("lost", ["metrics.csv", "config.json"])
def test_in_place_of_ones_own_damaged_result_the_published_one_is_used(above, lost):
    above.save(RUN, result(seconds=2.0))
    (above.folder(RUN) / lost).unlink()
    assert above.find(RUN).seconds == 1.0
    assert [result.config["key"] for result in above.results()] == [RUN.key]
    assert above.named(RUN.key[:16])[0] == above.named(RUN.key[:4])[0]  # 16 digits, as on pages
    path, found = above.named(RUN.slug)
    assert path.parent == above.published and found.seconds == 1.0
    assert Store(above.root, None).find(RUN) is None


def test_the_cells_of_a_store_are_listed_once_each_and_not_while_they_are_written(store):
    other = described(Local())
    store.save(RUN, result())
    store.save(other, result(other))
    shutil.copytree(store.folder(RUN), store.root / "cells" / ".tmp" / "spec")  # a killed process's
    found = [result.config["key"] for result in store.results()]
    assert sorted(found) == sorted([RUN.key, other.key])


@pytest.mark.parametrize("place", ["results/cells", "results/checkpoints"])
def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path, place):
    """A file stands where a folder should be: that stops root, too."""
    at = tmp_path / place
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text("")
    one = result()
    with pytest.raises(NotStored) as refused:
        Store(tmp_path / "results", None).save(RUN, one)
    sentence = str(refused.value)
    assert refused.value.result is one
    assert sentence.startswith(f"results folder {tmp_path / 'results'} cannot be written (")
    assert sentence.endswith("): give another results_dir (--results-dir)") and "\n" not in sentence


def test_the_results_folder_is_the_environments_or_the_checkouts(monkeypatch, tmp_path):
    monkeypatch.setenv("PFL_RESULTS_DIR", str(tmp_path))
    assert default_results_dir() == Store().root == tmp_path
    monkeypatch.delenv("PFL_RESULTS_DIR")
    assert default_results_dir().name == "results" and default_results_dir().is_absolute()
    assert Store("elsewhere").root == Path.cwd() / "elsewhere"


SEVERAL = [described(seed=seed) for seed in range(15)]

# Saves the same specs again and again; with `damage`, each time over an entry that it has spoilt.
WRITER = """
for spec, result in pairs * times:
    if damage and (store.root / "cells" / spec.slug / "metrics.csv").exists():
        (store.root / "cells" / spec.slug / "metrics.csv").write_text("")
    store.save_checkpoint(spec, state)
    store.save(spec, result)
"""


def writer(store: Store, times: int, damage: bool = False):
    # A clean process that has imported the package already; `exec`, since a test module is no place
    # to import from.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pfl_lib.experiments.runner"])
    pairs = [(spec, result(spec)) for spec in SEVERAL]
    names = {"store": store, "pairs": pairs, "times": times, "damage": damage, "state": STATE}
    process = context.Process(target=exec, args=(WRITER, names))
    process.start()
    return process


def test_several_processes_may_save_the_same_cells_at_once(store):
    """Once there, an entry is there for every reader at every moment."""
    store.check_writable()
    writers = [writer(store, times=2) for _ in range(3)]
    there = set()
    while any(process.is_alive() for process in writers):
        found = {spec.seed for spec in SEVERAL if store.find(spec) is not None}
        assert there <= found
        there = found
    assert [process.exitcode for process in writers] == [0, 0, 0]
    assert all(store.find(spec) is not None for spec in SEVERAL)
    assert len(list((store.root / "cells").iterdir())) == len(SEVERAL)
    assert not any((store.root / "checkpoints").iterdir())


@pytest.mark.parametrize("moment", [0.011, 0.083])
def test_a_process_killed_while_it_saves_leaves_whole_entries_or_none(store, moment):
    store.check_writable()
    process = writer(store, times=1000, damage=True)
    while not any(path.name[0] != "." for path in (store.root / "cells").iterdir()):
        time.sleep(0.001)
    time.sleep(moment)
    process.kill()
    process.join()
    assert process.exitcode == -9, "it had finished"
    for entry in (store.root / "cells").glob("[!.]*"):
        names = {path.name for path in entry.iterdir()}
        assert names == {"config.json", "metrics.csv", "model.pt", "weights.csv"}
    for spec in SEVERAL:  # whatever was left behind disturbs nobody
        store.save(spec, result(spec))
        assert store.find(spec) is not None


def test_a_saved_model_is_the_readers_own(tmp_path):
    models = [LeNet5().state_dict() for _ in range(2)]
    stacked = {name: torch.stack([model[name] for model in models]) for name in models[0]}
    metrics = pd.DataFrame({"round": [1, 1], "client": [3, 5], "accuracy": 0.5, "loss": 1.0})
    both, file = result(metrics=metrics, model=stacked), tmp_path / "model.pt"
    for client, expected in zip((3, 5), models, strict=True):
        module = LeNet5()
        module.load_state_dict(torch.load(both.save_model(file, client), weights_only=True))
        held = module.state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in held.items())
    assert file.stat().st_size < 2 * sum(v.nbytes for v in models[0].values())
    refused("^client 4 has no served model here: give one of 3, 5", both.save_model, file, 4)
    refused("^several clients have a served model here: give one of 3, 5", both.save_model, file)
    both.config["names"] = [*"abcdef"]
    refused("^client 'e' has no served model here: give one of d, f", both.save_model, file, "e")
    cure = r"carries no model, .*run\(..., with_model=True\)"
    refused(cure, result(model=None).save_model, file)


def test_a_result_is_asked_for_with_its_model(above):
    store = above
    assert store.find(RUN).seconds == 1.0 and store.find(RUN, with_model=True) is None
    assert store.has(RUN) and not store.has(RUN, with_model=True)
    assert not store.has(described(seed=9))
    store.save(RUN, result(model=None, seconds=2.0))
    assert store.find(RUN).seconds == 2.0 and store.find(RUN, with_model=True) is None
    store.save(RUN, result(seconds=3.0))
    assert store.find(RUN).seconds == store.find(RUN, with_model=True).seconds == 3.0
    assert store.has(RUN, with_model=True)
    store.save(RUN, result(model=None, seconds=4.0))
    assert store.find(RUN).seconds == 3.0
    left = [path.name for path in (store.root / "cells").iterdir()]
    assert left == [RUN.slug], "something was left behind"
