"""One look for every figure, and alt texts that hold the numbers drawn."""

import io
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from pfl_lib import data, partitions
from pfl_lib.display import beside, curves, heat_maps, partition, theme
from tests.common import refused

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
    colours, markers, _ = map(set, zip(*(known := set(theme.LOOKS.values())), strict=True))
    assert len(colours) == len(markers) == len(known)
    assert theme.look("WE") == theme.look("Weight Erosion") == theme.look("weight_erosion")


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
    figure, (bars, dots, heat, named, errors) = plt.subplots(1, 5)
    seaborn.barplot(FRAME, x="method", y="accuracy", hue="data", errorbar=None, ax=bars)
    bars.axhline(50, color="black")
    dots.scatter([1, 2], [7, 8.5], facecolors="none", edgecolors="red")
    dots.set(xlabel="x", ylabel="y")
    seaborn.heatmap(np.array([[0.25, np.nan], [1, 4]]), ax=heat)
    seaborn.scatterplot(x=[3.5, 40.25], y=["Local", "FedAvg"], ax=named)
    errors.errorbar([5, 6], [0, 1], xerr=1, fmt="o", color="black")
    errors.set(yticks=[0, 1], yticklabels=["a", "b"], xlabel="points")
    words = theme.describe(figure)
    plt.close(figure)
    assert "accuracy by method: MNIST bars 37.25 to 47.5, CIFAR10 bars 26 to 48.33;" in words
    assert "y by x: dots 7 to 8.5" in words
    assert words.endswith("values 0.25 to 4; dots 3.5 to 40.25; points: a 5, b 6.")


def test_dots_on_an_axis_without_ticks_have_their_places():
    figure, axes = plt.subplots()
    seaborn.stripplot(FRAME, x="method", y="accuracy", ax=axes)
    axes.set(xticks=[])
    words = theme.describe(figure)
    plt.close(figure)
    assert "dots 10.5 to 61.25" in words


def test_dots_beside_one_name_have_it():
    figure, axes = plt.subplots()
    look = {"hue": "data", "dodge": True, "jitter": False}
    seaborn.stripplot(FRAME, x="accuracy", y="method", ax=axes, **look)
    words = theme.describe(figure)
    plt.close(figure)
    assert "FedAvg MNIST dots 10.5 to 61.25, FedAvg CIFAR10 dots 11 to 41, WAFFLE MNIST" in words
    assert theme.describe(Figure()) == "" and words.endswith("WAFFLE CIFAR10 dots 21 to 73.")


def test_a_colour_of_few_pixels_stays_itself():
    figure = Figure((8.4, 3.6))
    axes = figure.add_subplot()
    axes.imshow(np.linspace(0, 1, 400).reshape(20, 20), cmap="YlOrRd", aspect="auto")
    axes.plot([0, 19], [19, 0], color="#d55e00", linewidth=1.2)
    picture = np.asarray(Image.open(io.BytesIO(theme.png(figure))).convert("RGB"), int)
    apart = np.abs(picture - (0xD5, 0x5E, 0x00)).sum(axis=-1)
    assert (apart < 12).sum() > 200


def test_a_faint_band_keeps_its_colour_beside_others():
    figure = Figure((8.4, 5.2))
    axes, x = figure.add_subplot(), np.arange(50)
    bands = {"#0173b2": 0, "#de8f05": 2, "#949494": 4, "#ca9161": 6}
    for k, (colour, low) in enumerate(bands.items()):
        axes.fill_between(x, low, low + 1.5, color=colour, alpha=0.12, linewidth=0)
        axes.plot(x, low + np.sin(x / (k + 1)), color=colour, marker="osD^"[k], markevery=7)
    picture = Image.open(io.BytesIO(theme.png(figure))).convert("RGB")
    found = {colour for count, colour in picture.getcolors(1 << 20) if count > 20_000}
    rgb = [np.array(to_rgb(colour)) for colour in bands]
    expected = {tuple(np.round(255 * (1 - 0.12 * (1 - one))).astype(int).tolist()) for one in rgb}
    near = [any(np.abs(np.subtract(a, b)).max() <= 1 for b in found) for a in expected]
    assert len(expected) == 4 and all(near)


def test_a_panel_is_described_by_its_own_legend_and_its_ticks_words():
    figure, (upper, lower) = plt.subplots(2, sharex=True)
    for axes, name in ((upper, "served"), (lower, "conv1")):
        axes.plot([0.1, 0.4, 0.5, 3], [1, 1.5, 2, 4], label=name)
        axes.legend()
    lower.set_xscale("log")
    lower.set_xticks([0.1, 0.5, 3], ["× 0.1", "× 0.5\nhalf", "× 3"])
    words = theme.describe(figure)
    plt.close(figure)
    told = "× 0.1 1, 0.4 1.5, × 0.5 half 2, × 3 4"  # 0.4 stands at no tick
    assert words == f"served {told}; conv1 {told}."


def test_rows_of_a_table_are_panels_as_wide_as_a_telephone_which_mark_what_diverged():
    row = {"dataset": "MNIST", "metric": "accuracy, %", "printed std": 1.0, "ours std": 0.5}
    rows = [
        {**row, "setting": setting, "method": method, "printed": 90 + k, "ours": 91 + k}
        for setting in "AB"
        for k, method in enumerate(["FedAvg", "WAFFLE", "WE"])
    ]
    frame = pd.DataFrame(rows).assign(status="ran")
    frame.loc[5, ["ours", "ours std", "status"]] = [float("nan"), float("nan"), "diverged"]
    figures = beside.dots(frame)
    assert [figure.get_figwidth() * 100 < 360 for figure in figures.values()] == [True, True]
    words = [[text.get_text() for text in of.axes[0].texts] for of in figures.values()]
    assert words == [[], ["diverged"]]
    both = frame.copy()  # of setting B the method with the lowest printed value and the highest
    both.loc[3, ["ours", "ours std", "status"]] = frame.loc[5, ["ours", "ours std", "status"]]
    words = beside.dots(both)["B"].axes[0].texts
    assert [word.get_position()[0] for word in words] == [0.98, 0.02], "beside what is printed"
    shown = beside.bundle(figures)
    told = "B. accuracy, %: printed FedAvg 90, WAFFLE 91, WE 92, ours FedAvg 91, WAFFLE 92"
    assert told in shown["text/plain"]
    assert shown["text/html"].count("<img alt=") == 2
    exact = {"exact ours": [93.0, *[float("nan")] * 5], "exact ours std": float("nan")}
    exact |= {"exact status": ["ran", "diverged", *[float("nan")] * 4]}
    first, second = beside.dots(frame.assign(**exact)).values()
    assert "ours, exact FedAvg 93, ours, smaller FedAvg 91" in theme.describe(first)
    assert [len(of.axes[0].texts) for of in (first, second)] == [1, 1]
    (nothing,) = beside.dots(frame[:3].assign(ours=float("nan"), status="not run")).values()
    marks = [[one.get_text() for one in of.legends[0].get_texts()] for of in (second, nothing)]
    assert marks == [["printed", "ours, smaller"], ["printed"]]


def test_a_figure_is_shown_once_with_its_sentence_and_its_numbers(monkeypatch, capsys):
    """Outside a notebook nothing is shown.  Its picture is the same bytes every time."""
    shown = []
    plt.close(plt.figure())  # pyplot asks IPython once for events, which the stand-in has not
    figure, axes = plt.subplots()
    axes.plot([0.01, 0.1], [3, 4])
    axes.set_xscale("log")
    theme.show(figure, "Loss by rate.")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda *of, **more: shown.append((of, more)))
    theme.show(figure, "Loss by rate.")
    assert not plt.fignum_exists(figure.number)
    alts = [more["metadata"]["image/png"]["alt"] for _, more in shown]
    assert alts == ["Loss by rate. 3 at 0.01 to 4 at 0.1."]
    image = theme.png(figure)
    assert image == theme.png(figure)
    assert image.startswith(b"\x89PNG") and b"Software" not in image


def test_who_holds_what_is_drawn_with_clients_sizes_and_labels_of_their_own():
    dataset = data.load("digits")
    made = partitions.make("C", dataset, 10, 1)
    figure = Figure()
    partition.draw(figure, dataset, made)
    assert len(figure.axes) == (1 if made.relabel is None else 2)
    counts = made.label_matrix(dataset).numpy()
    assert f"to {counts.max()}" in theme.describe(figure)
    ticks = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert ticks[3] == f"3 ({counts[3].sum()})"


def test_labels_of_many_clients_are_drawn_in_colours():
    dataset, figure = data.load("digits"), Figure()
    partition.draw(figure, dataset, partitions.make("A*", dataset, 25, 1))
    given = [axes for axes in figure.axes if axes.get_title() == "label given to each class"]
    colours = given[0].collections[0].get_cmap()
    assert colours(0.0) != colours(0.5) != colours(1.0)


def test_a_matrix_of_clients_has_lines_and_names_for_its_groups():
    figure, (one, other) = plt.subplots(1, 2)
    heat_maps.matrix(one, np.diag([1.0, 2, 3, 4]), groups=["a", "b", "a", "a"])
    assert np.diag(one.collections[0].get_array()).tolist() == [1, 3, 4, 2]  # sorted by group
    assert [t.get_text() for t in one.get_yticklabels()] == ["a", "b"]
    assert one.get_yticks().tolist() == [1.5, 3.5]
    heat_maps.matrix(other, np.eye(3), groups=[(4, 5), None, (4, 5)])
    assert [t.get_text() for t in other.get_yticklabels()] == ["(4, 5)", "None"]
    heat_maps.matrix(other, -np.eye(2))
    assert other.collections[-1].norm.vmin == -1 and other.collections[-1].norm.vmax == 1
    tiny, nothing = 1e-10 * np.array([[1.0, 0.5], [0, np.inf]]), np.full((2, 2), np.nan)
    heat_maps.matrix(other, tiny)
    norm = other.collections[-1].norm
    assert 0 < norm.vmin < 1e-15 and norm.vmax == 1e-10 and heat_maps.limits_of(nothing) == (0, 1)
    plt.close(figure)
    for groups in (["a", "b"], [[0], [1], [1]]):
        refused("groups for 3 clients", heat_maps.matrix, one, np.eye(3), groups=groups)


def test_weights_of_some_rounds_are_drawn_at_these_and_where_one_is_negative_are_no_shares():
    axes = theme.blank(3)[1]
    heat_maps.weights(axes, np.eye(3), rounds=[2, 4, 6])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "4", "6"]
    axes = theme.blank(3)[1]
    heat_maps.weights(axes, np.array([[0.5, -0.25], [1, 2]]))
    assert axes.collections[0].get_array().tolist() == [[0.5, 1], [-0.25, 2]]
    assert axes.collections[0].norm.vmin == -2


def test_names_in_pictures_are_no_formulas_and_tell_clients_apart():
    rows = pd.DataFrame({"method": ["$a_$", "_b"] * 2, "clients": ["mean"] * 2 + ["worst"] * 2})
    ticks = curves.mean_and_worst(rows.assign(seed=1, accuracy=1.0)).get_yticklabels()
    assert [tick.get_text() for tick in ticks] == [r"\$a_\$", " _b"]
    names = {0: "University of Bern", 1: "University of Basel", 2: "Chur $"}
    assert [heat_maps.short(names, k, 3) for k in range(4)] == ["0", "1", r"Chur \$", "Alice"]


def test_curves_of_runs_that_all_diverged_at_once_are_drawn_empty():
    frame = pd.DataFrame(columns=["method", "seed", "round", "accuracy"], dtype=float)
    ax = curves.accuracy(frame)
    assert [text.get_text() for text in ax.texts] == ["diverged"]
