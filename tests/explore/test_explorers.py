"""The explorers: what they show first, their piece of a page, their widgets."""

import base64
import html
import re
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from pfl_lib import Results, data, explore, partitions
from pfl_lib.experiments.runner import run_one
from pfl_lib.experiments.spec import RunSpec
from pfl_lib.explore import of_partition
from pfl_lib.explore.of_training import Training
from pfl_lib.explore.of_weights import LARGEST, discs, shares_of
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import FedAvg
from pfl_lib.results.result import Result
from pfl_lib.results.store import Store
from tests.common import fresh, refused

pytestmark = pytest.mark.xdist_group("explorers")  # drawn once


def result(weights=None, alice=0, name="m", seed=1, accuracy=(0.5, 0.75), **more) -> Result:
    lines = [
        {"round": r, "client": client, "accuracy": value - 0.1 * client, "loss": 1 / r}
        for r, value in enumerate(accuracy, 1)
        for client in (0, 1)
    ]
    config = {"method": {"name": name}, "seed": seed, "alice": alice}
    return Result(config, pd.DataFrame(lines), weights, None, 4.0, **more)


# Alice's model: 50, 30 and 20 % in round 1; 100 % in round 2.
OF_ALICE = result(np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]))
EACH = result(np.array([np.full((3, 3), 1 / 3), np.diag([0.8, 0.7, 0.6]) + 0.1]), alice=None)
BY_LAYER = result(np.stack([np.stack([np.eye(3), np.full((3, 3), 1 / 3)])] * 2), alice=None)


def test_explorers_are_there_once_the_package_is_imported_and_not_before_they_are_asked_for():
    program = """
        import sys, pfl_lib
        before = "matplotlib" in sys.modules
        print(before, "explore" in dir(pfl_lib), pfl_lib.explore.weights.__name__)
    """
    assert fresh(program) == "False True weights\n"


@pytest.fixture(scope="module")
def every_kind() -> list[explore.Explorer]:
    """One explorer of each kind but the live one, its page made once; three partitions."""
    both = {"a": OF_ALICE, "b": result(name="b", accuracy=(0.4, 0.5))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_partition, "RECIPES", dict([*of_partition.RECIPES.items()][:3]))
        kinds = [
            explore.weights(OF_ALICE, title="Alice's"),
            explore.weights(BY_LAYER),
            explore.matrix(EACH, groups=["a", "b", "a"]),
            explore.partition(),
            explore.methods(both),
        ]
        pieces = [one.to_html() for one in kinds]
    return [replace(one, to_html=lambda p=p: p) for one, p in zip(kinds, pieces, strict=True)]


def test_every_explorer_is_html_with_words_and_labels_and_nothing_from_outside(every_kind):
    for shown in every_kind:
        piece = shown.to_html()
        assert piece.startswith("<figure"), shown
        assert not re.findall(r"(?:src|href)=[\"'](?!data:)", piece), f"{shown}: fetched"
        assert len(piece) < 700_000, f"{shown}: a page stays below a megabyte"
        assert "http" not in piece and "import(" not in piece
        pictures = re.findall(r"<img [^>]*>", piece)
        assert pictures and all(re.search(r'alt="[^"]{15,}"', tag) for tag in pictures), shown
        controls = re.findall(r"<(?:input|select)\b", piece)
        within_labels = re.findall(r"<label\b.*?</label>", piece, re.DOTALL)
        labelled = sum(len(re.findall(r"<(?:input|select)\b", one)) for one in within_labels)
        assert labelled == len(controls), shown


def test_an_explorer_shows_html_on_a_page_and_widgets_and_a_picture_in_jupyterlab(monkeypatch):
    kept = []
    monkeypatch.setattr("IPython.core.interactiveshell.InteractiveShell.initialized", lambda: True)
    patched = "IPython.core.display_functions.publish_display_data"
    monkeypatch.setattr(patched, lambda data, metadata: kept.append((data, metadata)))
    explorer = explore.weights(OF_ALICE)
    explorer._ipython_display_()
    monkeypatch.setenv("PFL_HEADLESS", "0")
    explorer._ipython_display_()
    (page, _), (lab, told) = kept
    assert page["text/plain"] == explorer.words and "<figure" in page["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in lab
    picture = base64.b64decode(lab["image/png"])  # where no kernel draws
    assert picture[:4] == b"\x89PNG" and lab["text/plain"] == explorer.words
    assert told == {"image/png": {"alt": explorer.words}}
    assert repr(explorer) == f"<Explorer: {explorer.words}>"


def test_the_client_stands_in_the_centre_and_areas_are_as_shares_are():
    figure = Figure()
    discs(figure, np.array([0.5, 0.3, 0.2]), 0, "Alice", {})
    others, own = figure.axes[0].collections
    assert own.get_sizes() == pytest.approx([0.5 * LARGEST])
    assert own.get_offsets().tolist() == [[0, 0]]
    assert others.get_sizes() == pytest.approx([0.3 * LARGEST, 0.2 * LARGEST])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "Alice"]


def test_a_model_that_all_share_has_nobody_in_the_centre_and_weights_are_shares_of_their_sum():
    shares = shares_of(result(np.array([[2.0, 1.0, 1.0], [0.0, 0.0, 0.0]])))
    assert shares[:, 0, 0].tolist() == [[0.5, 0.25, 0.25], [0, 0, 0]]
    figure, shared = Figure(), result(np.array([[0.2, 0.5, 0.3]]), alice=None)
    discs(figure, shares_of(shared)[0, 0, 0], -1, "the shared model", {})
    assert figure.axes[0].collections[1].get_sizes() == [0]
    assert explore.weights(shared).words == (
        "Round 1, the shared model is 50.0 % client 1's, 30.0 % client 2's, 20.0 % client 0's;"
        " 3 of 3 clients count."
    )


def test_a_sentence_says_what_a_picture_shows():
    shown = explore.weights(OF_ALICE)
    assert shown.words == ("Round 2, Alice's model is 100.0 % Alice's; 1 of 3 clients count.")
    first = "Alice&#x27;s model is 50.0 % Alice&#x27;s, 30.0 % client 1&#x27;s, 20.0 % client 2"
    assert first in shown.to_html()
    layered = explore.weights(BY_LAYER, ["conv", "head"]).to_html()
    assert "Round 2, head: client 2&#x27;s model is 33.3 % client 0&#x27;s" in layered
    nobody = explore.weights(result(np.zeros((1, 3)))).words
    assert "Alice's model is nobody's; 0 of 3 clients count" in nobody


def test_clients_have_their_names_in_sentences_and_pictures():
    names = ["Bern", "Basel", "Universitätsspital"]
    named = replace(OF_ALICE, config=OF_ALICE.config | {"names": names})
    assert (
        "30.0 % Basel&#x27;s, 20.0 % Universitätsspital&#x27;s" in explore.weights(named).to_html()
    )
    weights = named.plot().axes[1]
    shown = [label.get_text() for label in weights.get_yticklabels()]
    assert {*shown} == {"Alice", "Basel", "Universitätss…"}  # no more letters have room
    figure = Figure()
    discs(figure, np.array([0.5, 0.3, 0.2]), 0, "Alice", named.client_names)
    assert [text.get_text() for text in figure.axes[0].texts] == [
        "Basel",
        "Universitätss…",
        "Alice",
    ]
    every = replace(EACH, config=EACH.config | {"names": names}).plot().axes[1]
    assert [text.get_text() for text in every.get_xticklabels()] == [*names[:2], "Universitätss…"]


def test_in_jupyterlab_round_client_and_layer_draw_their_picture():
    client, layer, moves, view = explore.weights(BY_LAYER, ["conv", "head"]).widget().children
    button, slider = moves.children
    client.value, layer.value, slider.value = 2, 1, 0
    assert "Round 1, head: client 2" in view.value and button.value == 0
    button.value = 1
    assert slider.value == 1 and "Round 2" in view.value


def test_weights_that_cannot_be_shown_are_told_in_one_line():
    refused("^result 'waffle': give a Result, as pfl_lib.run returns", explore.weights, "waffle")
    refused("m has no weights", explore.weights, result())
    refused("a negative weight is no share", explore.weights, result(np.array([[-0.1, 1.1]])))
    refused("1 names for 2 layers", explore.weights, BY_LAYER, ("conv",))


def test_a_matrix_is_the_weights_or_what_the_method_logs():
    affinity = {"affinity": np.arange(18.0).reshape(2, 3, 3)}
    logged = result(EACH.weights, None, matrices=affinity, matrices_rounds=np.array([1, 2]))
    assert explore.matrix(logged, "affinity").words.startswith("Round 2: own affinity 13.00")
    assert explore.matrix(BY_LAYER).words.startswith("Round 2: layer 1: own weight 1.00")
    refused("matrix 'gain' is not one of weights, affinity", explore.matrix, logged, "gain")
    refused("pictures 0: give a whole number", explore.matrix, logged, pictures=0)
    flat = replace(logged, matrices={"affinity": np.ones((2, 3))})
    told = r"^matrix 'affinity' is \[3\] a round: give one of \[N, N\]"
    refused(told, explore.matrix, flat, "affinity")
    refused("^result 3: give a Result", explore.matrix, 3)
    refused(r"has no matrix of clients; weights\(\) shows its weights", explore.matrix, OF_ALICE)


def test_a_matrix_turned_to_another_round_is_the_picture_drawn_anew(every_kind):
    first, turned = re.findall('src="(.*?)"', every_kind[2].to_html())
    last = result(EACH.weights[1:], alice=None)
    anew = explore.matrix(last, groups=["a", "b", "a"]).to_html()
    assert re.findall('src="(.*?)"', anew) == [turned] != [first]


# --- partition ---
def test_a_page_has_a_picture_for_each_distribution_and_all_can_be_made(every_kind):
    piece, digits = every_kind[3].to_html(), data.load("digits")
    options = re.findall(r"<option>(.*?)</option>", piece)
    assert options == [*of_partition.RECIPES][:3] and piece.count('class="choice"') == 3
    assert piece.count(" hidden>") == 2 and "cannot be made" not in piece
    assert "C: 10 clients hold 100 training examples of 5 labels each" in piece
    made = [partitions.make(recipe, digits, 10, 1) for recipe in of_partition.RECIPES.values()]
    assert len({of.name for of in made}) == len(made) >= 20


def test_in_jupyterlab_distribution_clients_and_seed_draw_their_matrix():
    explorer = explore.partition()
    distribution, clients, seed, view = explorer.widget().children
    assert html.escape(explorer.words) in view.value and explorer.words.startswith("C: ")
    distribution.value = "Dirichlet, alpha 10.0"
    before = view.value
    assert "Dirichlet(alpha=10.0" in before
    seed.value = 2
    assert view.value != before
    distribution.value, clients.value = "3 shards a client (FedFomo)", 7
    assert "This cannot be made: clients 7" in view.value


# --- methods ---
def test_methods_are_compared_by_each_number_along_rounds_and_seconds():
    results = {
        name: Results(tuple(result(seed=s, accuracy=(0.4, top + s / 100)) for s in (1, 2, 3)))
        for name, top in (("first", 0.5), ("second", 0.6))
    }
    shown = explore.methods(results)
    piece = shown.to_html()
    options = re.findall(r"<option>(.*?)</option>", piece)
    assert options == ["accuracy", "accuracy of the worst client", "loss", "round", "seconds"]
    assert piece.count('class="choice"') == 6
    assert "Points above first in the last round, paired by seed" in piece
    assert "accuracy of the worst client in percent by seconds" in piece
    # Accuracies of the two clients are 0.62 and 0.52 with seed 2: 57 % on average.
    assert "second 57.00 (3 seeds)" in shown.words
    lost = Results((result(seed=1), replace(result(seed=2), diverged=2)))
    words = explore.methods({"first": results["first"], "second": lost}).words
    assert "second diverged at round 2 (seed 2)" in words


def described(rounds: int = 3) -> RunSpec:
    return RunSpec(FedAvg(), Schedule(rounds=rounds), "digits", "C", "linear", clients=3)


def test_a_stopped_run_goes_on_to_the_same_numbers(store, tmp_path, monkeypatch):
    """Stopped while the second round is looked at, which ends it after the third."""
    monkeypatch.setattr("pfl_lib.explore.of_training.DRAWN_EVERY", 0)
    long = described(rounds=5)
    live = Training(long, store, device="cpu")
    live.watch = lambda of: of.stop() if of.done == 2 else None
    live.start()
    live._thread.join(120)
    assert live.state == "stopped after round 3, which is kept"
    assert store.load_checkpoint(long)["done"] == live.done == 3 and live.result is None
    again = Training(long, store, device="cpu")
    again.start()
    again._thread.join(200)
    assert again.state == "finished and stored"
    whole = run_one(long, Store(tmp_path / "whole", published=None), device="cpu")
    pd.testing.assert_frame_equal(again.result.metrics, whole.metrics)


def test_a_run_that_fails_says_so(store, monkeypatch):
    live = Training(described(), store, data_dir="/nowhere")
    monkeypatch.setattr("pfl_lib.explore.of_training.training", lambda *_, **__: 1 / 0)
    live.start()
    live._thread.join(60)
    assert live.state.startswith("ZeroDivisionError: division by zero (test_explorers.py, line ")


def test_on_a_page_nothing_is_trained(results_dir):
    shown = explore.live(described(), results_dir)
    assert shown.words == "fedavg: not started; round 0 of 3."
    assert "not started" in shown.to_html() and not any(results_dir.iterdir())
    refused("give a run description", explore.live, "fedavg")


def test_the_buttons_start_and_stop(store):
    widget = explore.live(described(), store.root, device="cpu").widget()
    buttons, bar, view = widget.children
    start, stop = buttons.children
    start.click()
    began = time.monotonic()
    while "finished" not in view.value and time.monotonic() - began < 120:
        time.sleep(0.05)
    assert bar.value == 3 and "finished and stored" in view.value and "<img alt=" in view.value
    assert store.find(described()) and Training(described(), store).state == "stored"
