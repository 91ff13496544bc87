"""One look for every figure, and alt texts that hold the numbers drawn."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn

from pfl_lib.display import partition, theme

FRAME = pd.DataFrame(
    {
        "round": [1, 2, 3] * 4,
        "accuracy": [10.5, 40, 61.25, 20, 50, 72.5, 11, 41, math.nan, 21, 51, 73],
        "method": (["FedAvg"] * 3 + ["WAFFLE"] * 3) * 2,
        "data": ["MNIST"] * 6 + ["CIFAR10"] * 6,
    }
)
METHODS = ["FedAvg", "WAFFLE", "mine", "another of mine"]


def test_a_method_keeps_its_look_whatever_else_is_drawn():
    every, one = theme.looks(METHODS), theme.looks(["WAFFLE"])
    for kind in ("palette", "markers", "dashes"):
        assert every[kind]["WAFFLE"] == one[kind]["WAFFLE"]
    assert every["hue_order"] == every["style_order"] == METHODS
    looks = {(every["palette"][m], every["markers"][m], every["dashes"][m]) for m in METHODS}
    assert len(looks) == len(METHODS)


def test_the_theme_of_a_process_is_that_of_the_context_manager():
    with plt.rc_context():
        theme.use()
        used = dict(plt.rcParams)
        colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
        assert colours == list(seaborn.color_palette("colorblind"))
    with theme.theme():
        assert all(used[name] == plt.rcParams[name] for name in ("font.size", "grid.color"))


def test_a_grid_of_lines_is_described_panel_by_panel_with_the_names_of_its_legend():
    drawn = {"x": "round", "y": "accuracy", "hue": "method", "style": "method", "col": "data"}
    grid = seaborn.relplot(FRAME, kind="line", **drawn, **theme.looks(FRAME["method"].unique()))
    grid.set_titles("{col_name}")
    words = theme.describe(grid.figure)
    plt.close(grid.figure)
    assert words == (
        "MNIST: accuracy by round: FedAvg 10.5 at 1 to 61.25 at 3, WAFFLE 20 at 1 to 72.5 at 3;"
        " CIFAR10: accuracy by round: FedAvg 11 at 1 to 41 at 2, WAFFLE 21 at 1 to 73 at 3."
    )


def test_bars_dots_and_heat_maps_are_described_by_their_range_and_guides_are_not():
    figure, (bars, dots, heat, errors) = plt.subplots(1, 4)
    seaborn.barplot(FRAME, x="method", y="accuracy", hue="data", errorbar=None, ax=bars)
    bars.axhline(50, color="black")
    dots.scatter([1, 2], [7, 8.5])
    dots.set(xlabel="x", ylabel="y")
    seaborn.heatmap(np.array([[0.25, np.nan], [1, 4]]), ax=heat)
    errors.errorbar([5, 6], [0, 1], xerr=1, fmt="o", color="black")
    errors.set(yticks=[0, 1], yticklabels=["a", "b"], xlabel="points")
    words = theme.describe(figure)
    plt.close(figure)
    assert "accuracy by method: MNIST bars 37.25 to 47.5, CIFAR10 bars 26 to 48.33;" in words
    assert "y by x: dots 7 to 8.5" in words and "values 0.25 to 4" in words
    assert words.endswith("points: 5 to 6.")


def test_a_figure_is_shown_once_with_its_sentence_and_its_numbers(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda *of, **more: shown.append((of, more)))
    figure, axes = plt.subplots()
    axes.plot([1, 2], [3, 4])
    theme.show(figure, "Loss by round.")
    theme.show(figure, "Loss by round.", alt="Mine alone.")
    assert not plt.fignum_exists(figure.number)
    alts = [more["metadata"]["image/png"]["alt"] for _, more in shown]
    assert alts == ["Loss by round. 3 at 1 to 4 at 2.", "Mine alone."]
    assert set(shown[0][0][0]) == {"image/png", "text/plain"}


def test_who_holds_what_is_drawn_with_clients_sizes_and_labels_of_their_own():
    from pfl_lib import data, partitions

    dataset = data.load("digits")
    made = partitions.make("C", dataset, 10, 1)
    figure = partition.figure(dataset, made, "digits, C")
    assert len(figure.axes) == (1 if made.relabel is None else 2)
    counts = made.label_matrix(dataset).numpy()
    assert f"to {counts.max()}" in theme.describe(figure)
    ticks = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert ticks[3] == f"3 ({counts[3].sum()})"
