import base64
import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from pfl_lib.display import figures, theme
from pfl_lib.papers import waffle
from pfl_lib.partitions.base import Partition
from pfl_lib.results.result import Result

ROUNDS = 20
FINAL = {"Local": 0.95, "FedAvg": 0.91, "SCAFFOLD": 0.97, "WE": 0.98, "WAFFLE": 0.99, "APFL": 0.94}


def result(final: float, rounds: int = ROUNDS, diverged: int | None = None, weights=None) -> Result:
    """A run of Alice that rises to `final` (0 to 1)."""
    round = np.arange(1, rounds + 1)
    accuracy = final - 0.5 * np.exp(-round / 2)
    accuracy[-1] = final
    metrics = pd.DataFrame({"round": round, "client": 0, "accuracy": accuracy, "loss": 0.1})
    config = {
        "method": {"name": "weight_erosion"},
        "dataset": "digits",
        "partition": {"name": "C"},
        "seed": 1,
        "alice": 0,
    }
    return Result(config, metrics, weights, diverged, 1.0)


def wedge(clients: int = 6, rounds: int = ROUNDS) -> np.ndarray:
    """Client i > 0 weighs nothing from round 3 i on, Alice always counts."""
    weights = np.ones((rounds, clients))
    for client in range(1, clients):
        weights[3 * client - 1 :, client] = 0
    return weights


def weighing(**weights: np.ndarray) -> dict[str, Result]:
    """Runs with these weights."""
    return {
        method: result(0.9, rounds=len(of_method), weights=of_method)
        for method, of_method in weights.items()
    }


def shifted() -> tuple[Partition, SimpleNamespace]:
    """Two clients with three classes; client 1 calls class 0 label 2."""
    dataset = SimpleNamespace(name="toy", train_y=torch.tensor([0, 0, 1, 2, 0, 1]), classes=3)
    relabel = torch.tensor([[0, 1, 2], [2, 0, 1]])
    train = (torch.tensor([0, 1, 2, 3]), torch.tensor([4, 5]))
    return Partition("A*", train, (torch.tensor([0]), torch.tensor([1])), relabel=relabel), dataset


RUNS = {method: [result(final)] for method, final in FINAL.items()}
DRAWN = {
    "accuracy_evolution": lambda: figures.accuracy_evolution(RUNS, title="distribution C"),
    "accuracy_all_distributions": lambda: figures.accuracy_all_distributions(
        dict.fromkeys(waffle.DISTRIBUTIONS, RUNS)
    ),
    "weight_evolution": lambda: figures.weight_evolution(
        weighing(**{"Weight Erosion": wedge(), "WAFFLE": wedge()})
    ),
    "partition_card": lambda: figures.partition_card(*shifted()),
    "result_plot": lambda: figures.result_plot(result(0.9, weights=wedge())),
}


@pytest.fixture(scope="module")
def drawn():
    return {name: draw() for name, draw in DRAWN.items()}


@pytest.mark.parametrize("name", DRAWN)
def test_every_text_of_a_figure_is_at_least_9_points_and_inside_an_8_4_inch_page(drawn, name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    figure, _ = drawn[name]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    assert figure.get_figwidth() == 8.4
    # Matplotlib makes ticks beyond the axes' limits and does not draw them; only what is drawn has
    # to fit.
    texts = [text for text in _drawn_texts(figure) if isinstance(text, Text) and text.get_text()]
    assert len(texts) > 10
    for text in texts:
        assert text.get_fontsize() >= 9, text
        box = text.get_window_extent(canvas.get_renderer())
        assert (
            box.x0 >= -1
            and box.x1 <= figure.bbox.x1 + 1
            and box.y0 >= -1
            and box.y1 <= figure.bbox.y1 + 1
        ), text


def _drawn_texts(artist):
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    if not artist.get_visible():
        return
    children = artist.get_children()
    if isinstance(artist, Axes) and not artist.axison:
        children = [child for child in children if not isinstance(child, Axis)]
    if isinstance(artist, Axis):
        children = [artist.label, *artist._update_ticks()]
    yield artist
    for child in children:
        yield from _drawn_texts(child)


@pytest.mark.parametrize("name", ["accuracy_evolution", "weight_evolution"])
def test_drawing_twice_gives_the_same_bytes_and_no_program_version_in_them(name):
    image = figures.png(DRAWN[name]()[0])
    assert image == figures.png(DRAWN[name]()[0])
    assert image.startswith(b"\x89PNG") and b"Software" not in image


def test_figures_stay_unknown_to_pyplot(drawn):
    from matplotlib import pyplot

    assert len(drawn) == len(DRAWN)
    assert pyplot.get_fignums() == []


def test_the_theme_ends_with_the_figure(drawn):
    import matplotlib

    before = matplotlib.rcParams["axes.titlesize"], matplotlib.rcParams["axes.grid"]
    DRAWN["accuracy_evolution"]()
    assert (matplotlib.rcParams["axes.titlesize"], matplotlib.rcParams["axes.grid"]) == before


# alt texts


def test_the_accuracy_plots_alt_text_ranks_the_methods_with_their_final_values(drawn):
    alt = drawn["accuracy_evolution"][1]
    ranked = "WAFFLE 99.00, WE 98.00, SCAFFOLD 97.00, Local 95.00, APFL 94.00, FedAvg 91.00"
    assert (
        alt == "Line plot, distribution C: best accuracy so far in percent by round, one seed. "
        f"After round 20, from best to worst: {ranked}."
    )


def test_a_diverged_method_is_told_in_words_and_its_line_stops():
    runs = {"FedAvg": [result(0.9)], "WAFFLE": [result(0.9, rounds=6, diverged=7)]}
    figure, alt = figures.accuracy_evolution(runs, running_best=False)
    assert alt.endswith(
        "After round 20, from best to worst: FedAvg 90.00. WAFFLE diverged at round 7."
    )
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert len(lines["WAFFLE"].get_xdata()) == 6 and len(lines["FedAvg"].get_xdata()) == 20
    assert "WAFFLE diverged at round 7" in [text.get_text() for text in figure.axes[0].texts]


def test_a_plot_whose_only_method_diverged_says_so_too():
    """Nothing else has a round in which its line could be missing."""
    figure, alt = figures.accuracy_evolution({"WAFFLE": [result(0.9, rounds=6, diverged=7)]})
    assert [text.get_text() for text in figure.axes[0].texts] == ["WAFFLE diverged at round 7"]
    assert (
        alt == "Line plot: best accuracy so far in percent by round, one seed. WAFFLE diverged at"
        " round 7."
    )


def test_axis_and_alt_text_say_over_how_many_seeds_a_line_is_a_mean():
    figure, alt = figures.accuracy_evolution({"FedAvg": [result(0.9)] * 5, "WAFFLE": [result(0.9)]})
    assert figure.axes[0].get_ylabel() == "best accuracy so far (%),\nmean of 1 to 5 seeds"
    assert "by round, mean of 1 to 5 seeds. Band: one standard deviation over seeds." in alt
    (title,) = [legend.get_title().get_text() for legend in figure.legends]
    assert title == "band: one standard deviation over seeds"


def test_a_mean_of_several_seeds_has_a_band_of_one_standard_deviation_and_a_single_run_none():
    """Two runs that end at 90 % and 92 %: mean 91, one sample standard deviation 1.41."""
    results = {"FedAvg": [result(0.90), result(0.92)], "WAFFLE": [result(0.99)]}
    figure, _ = figures.accuracy_evolution(results)
    (band,) = figure.axes[0].collections
    edge = band.get_paths()[0].vertices
    last = sorted(edge[edge[:, 0] == ROUNDS, 1])
    assert last[0] == pytest.approx(91 - 2**0.5) and last[-1] == pytest.approx(91 + 2**0.5)
    alone, alt = figures.accuracy_evolution({"WAFFLE": [result(0.99)]})
    assert not alone.axes[0].collections and "and" not in alt.split(".")[0]
    assert "mean of 5 seeds." in figures.accuracy_evolution({"FedAvg": [result(0.9)] * 5})[1]


def test_rounds_that_were_not_evaluated_are_still_on_the_axis():
    sparse = result(0.9)
    sparse.metrics = sparse.metrics.iloc[4::5]
    assert figures.accuracy_evolution({"WAFFLE": [sparse]})[0].axes[0].get_xlim() == (0, 21)


def test_the_small_multiples_show_and_tell_every_distribution(drawn):
    figure, alt = drawn["accuracy_all_distributions"]
    titles = [axes.get_title() for axes in figure.axes[:5]]
    assert titles == [f"distribution {name}" for name in waffle.DISTRIBUTIONS]
    assert alt.count("Line plot") == 5 and "distribution B*" in alt
    assert [text.get_text() for text in figure.axes[5].get_legend().get_texts()] == list(FINAL)


def test_alice_is_drawn_in_the_centre_row():
    figure, _ = figures.weight_evolution(weighing(WAFFLE=wedge(clients=5)), alice=1)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "4",
        "0",
        "Alice",
        "2",
        "3",
    ]


def test_the_weights_alt_text_says_who_vanishes_first_and_when_alice_is_alone(drawn):
    """Clients 1 to 5 of the wedge vanish in rounds 3, 6, 9, 12, 15."""
    alt = drawn["weight_evolution"][1]
    told = (
        "client 1 first weighs nothing for good, from round 3; client 5 last; from round 15 of 20"
        " all"
        " weight is on Alice."
    )
    assert f"Weight Erosion: {told}" in alt and f"WAFFLE: {told}" in alt


def test_weights_of_a_run_that_diverged_are_drawn_as_far_as_they_go_and_without_any_told():
    runs = {
        "WE": result(0.9, rounds=6, diverged=7, weights=wedge(rounds=6)),
        "WAFFLE": result(0.9, diverged=1),
    }
    figure, alt = figures.weight_evolution(runs)
    titles = [axes.get_title() for axes in figure.axes[:2]]
    assert titles == ["WE, diverged at round 7", "WAFFLE, diverged at round 1"]
    assert "WE, diverged at round 7: after 6 rounds" in alt and alt.endswith(
        "WAFFLE, diverged at round 1, without any weights."
    )


def test_without_an_alice_nobody_is_called_alice():
    run = result(0.9, weights=np.full((ROUNDS, 4), 0.25))
    run.config["alice"] = None
    figure, alt = figures.result_plot(run)
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == ["0", "1", "2", "3"]
    assert "Alice" not in alt and "shares are between 25% and 25%" in alt


def test_weights_that_never_vanish_are_told_by_alices_share():
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [0.6, 0.4, 0.0, 0.0]])
    _, alt = figures.weight_evolution(weighing(WE=weights))
    assert "after 2 rounds Alice has 60% of the weight and 1 others still count" in alt


def test_a_weight_of_zero_is_left_white_and_a_small_one_is_not():
    figure, _ = figures.weight_evolution(weighing(WE=np.array([[0.99, 0.01], [1.0, 0.0]])))
    shown = figure.axes[0].collections[0].get_array()
    assert shown.mask.tolist() == [
        [False, True],
        [False, False],
    ]  # row 0 is client 1, row 1 Alice in the centre


def test_the_partition_card_tells_sizes_alices_labels_and_concept_shift(drawn):
    figure, alt = drawn["partition_card"]
    assert "2 clients of 2 to 4 images, 2 to 3 of 3 labels each" in alt
    assert "Client 0 holds 2 of label 0, 1 of label 1, 1 of label 2 and has 1 test images." in alt
    assert alt.endswith("1 clients give the classes labels of their own.")
    assert shifted()[0].checksum() in figure.get_supxlabel()
    own_labels = [text.get_text() for text in figure.axes[2].texts]
    assert own_labels == ["0", "1", "2", "2", "0", "1"]


def test_without_concept_shift_the_card_has_no_second_grid():
    partition, dataset = shifted()
    figure, alt = figures.partition_card(Partition("A", partition.train, partition.test), dataset)
    assert len(figure.axes) == 2 and "labels of their own" not in alt


def test_one_results_plot_names_it_and_tells_best_last_and_weights(drawn):
    figure, alt = drawn["result_plot"]
    assert figure.axes[0].get_title() == "weight erosion, digits, distribution C, seed 1"
    assert "20 rounds, best 90.00, last 90.00." in alt and "all weight is on Alice" in alt


def test_one_results_accuracy_and_weights_stand_round_above_round_the_initial_model_included():
    without = result(0.9, weights=wedge())
    start = without.metrics.iloc[:1].assign(round=0)
    measured = dataclasses.replace(
        without, metrics=pd.concat([start, without.metrics], ignore_index=True)
    )
    for run, first in ((without, 0.5), (measured, -0.5)):
        figure, _ = figures.result_plot(run)
        assert [axes.get_xlim() for axes in figure.axes[:2]] == [(first, ROUNDS + 0.5)] * 2


def test_a_diverged_result_without_any_round_can_be_drawn():
    empty = result(0.9, rounds=1, diverged=1)
    empty.metrics = empty.metrics.iloc[:0]
    figure, alt = figures.result_plot(empty)
    assert alt.endswith("accuracy in percent by round, 0 rounds, then the run diverged at round 1.")
    assert "diverged at round 1" in [text.get_text() for text in figure.axes[0].texts]


def test_the_accuracy_that_a_diverged_result_had_reached_is_not_told():
    _, alt = figures.result_plot(result(0.9, rounds=6, diverged=7))
    assert "6 rounds, then the run diverged at round 7." in alt and "best" not in alt


# looks and showing


def test_methods_differ_in_colour_marker_and_name_their_looks_by_paper_and_package():
    known = set(theme.LOOKS.values())  # a method's names share its look
    assert (
        len({colour for colour, _, _ in known})
        == len({marker for _, marker, _ in known})
        == len(known)
    )
    assert theme.look("WE") == theme.look("Weight Erosion") == theme.look("weight_erosion")
    assert theme.look("SCAFFOLD") == theme.look("scaffold")


def test_methods_of_ones_own_get_different_spare_looks():
    own = [f"own {place}" for place in range(30)]
    among = ["FedAvg", *own]
    looks = [tuple(theme.look(method, among).values()) for method in among]
    assert len(set(looks)) == 31
    six = looks[1:7]
    assert len({colour for colour, *_ in six}) == len({marker for _, marker, _ in six}) == 6
    methods = {(colour, marker) for colour, marker, _ in theme.LOOKS.values()}
    assert not methods & {(colour, marker) for colour, marker, _ in looks[1:]}


def test_outside_a_notebook_show_does_nothing(drawn, capsys):
    figures.show(*drawn["accuracy_evolution"])
    assert capsys.readouterr().out == ""


def test_in_a_notebook_the_picture_carries_its_alt_text(drawn, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw, metadata: shown.append((data, raw, metadata))
    )
    figure, alt = drawn["accuracy_evolution"]
    figures.show(figure, alt)
    data, raw, metadata = shown[0]
    assert raw and metadata == {"image/png": {"alt": alt, "width": 840}}
    assert data["text/plain"] == alt
    assert base64.b64decode(data["image/png"]) == figures.png(figure)
    json.dumps(data)  # what a notebook file can hold


@pytest.mark.parametrize("name", DRAWN)
def test_alt_texts_are_sentences_without_numbers_that_are_none(drawn, name):
    alt = drawn[name][1]
    assert alt.endswith(".") and not re.search(r"\b(nan|None|inf)\b", alt)
