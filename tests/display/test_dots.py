"""The dot plot of a printed table beside ours."""

import math

import pandas as pd
import pytest

from pfl_lib.display import dots, theme

NAN = math.nan
ROWS = [
    ("MNIST", "A", "Local", 96.88, 0.47, 97.0, 0.2, "mnist"),
    ("MNIST", "A", "FedAvg", 98.99, 0.08, 98.9, NAN, "mnist"),
    ("MNIST", "B_star", "Local", 99.0, NAN, NAN, NAN, "mnist"),
    ("MNIST", "B_star", "FedAvg", 45.0, 4.0, 60.0, 1.0, "mnist"),
    ("MNIST", "C", "Local", 98.0, 0.1, NAN, NAN, "mnist"),
]
COLUMNS = [
    "dataset",
    "setting",
    "method",
    "paper",
    "paper std",
    "ours",
    "ours std",
    "run on",
]


@pytest.fixture
def compared() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=COLUMNS)


def panels(figure):
    return [axes for axes in figure.axes if axes.axison]


def marks(axes) -> list[tuple[float, float]]:
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.get_lines()]


def test_each_setting_with_a_run_has_a_panel_with_the_printed_values_and_ours(compared):
    figure, _ = dots.printed_beside_ours(compared)
    drawn = panels(figure)
    assert [axes.get_title() for axes in drawn] == ["A", "B_star"], "C was not run"
    values = sorted(x for x, _ in marks(drawn[0]))
    assert values == [96.88, 97.0, 98.9, 98.99]
    assert sorted(x for x, _ in marks(drawn[1])) == [45.0, 60.0, 99.0], "no dot without a run"


def test_ours_stands_below_the_printed_value_in_the_line_of_its_method(compared):
    figure, _ = dots.printed_beside_ours(compared)
    at = dict(marks(panels(figure)[0]))
    assert round(at[96.88]) == round(at[97.0]) == 0 and round(at[98.99]) == round(at[98.9]) == 1
    assert at[97.0] > at[96.88], "the axis of methods points down"
    assert [text.get_text() for text in panels(figure)[0].get_yticklabels()] == ["Local", "FedAvg"]


def test_bars_are_as_wide_as_the_spreads_that_there_are(compared):
    figure, _ = dots.printed_beside_ours(compared)
    bars = [
        segment[1][0] - segment[0][0]
        for container in panels(figure)[0].containers
        for lines in container[2]
        for segment in lines.get_segments()
    ]
    assert sorted(round(wide, 9) for wide in bars) == [0.16, 0.4, 0.94]


def test_the_alt_text_has_the_largest_difference(compared):
    _, alt = dots.printed_beside_ours(compared)
    assert alt == (
        "Dot plot in 2 panels: the printed value (ring) and ours (dot) of 2 methods. Half of the 3"
        " differences are below 0.12; the largest is 15.00, of FedAvg on MNIST, B_star (printed"
        " 45.00, ours 60.00)."
    )


def test_a_panel_says_where_other_data_stand_in(compared):
    compared.loc[compared["setting"] == "A", "run on"] = "digits"
    figure, _ = dots.printed_beside_ours(compared)
    assert [axes.get_title() for axes in panels(figure)] == ["A (run on digits)", "B_star"]


def test_a_method_that_the_paper_does_not_print_has_a_dot_alone(compared):
    compared.loc[0, ["method", "paper", "paper std"]] = ["mine", NAN, NAN]
    figure, alt = dots.printed_beside_ours(compared)
    assert sorted(x for x, _ in marks(panels(figure)[0])) == [97.0, 98.9, 98.99]
    assert "nan" not in alt


def test_where_nothing_was_run_there_is_nothing_to_draw(compared):
    assert dots.printed_beside_ours(compared.assign(ours=NAN)) is None


def test_its_picture_has_few_colours_and_is_drawn_alike_twice(compared):
    first, second = (theme.png(dots.printed_beside_ours(compared)[0]) for _ in range(2))
    assert first == second and len(first) < 60_000


def test_the_papers_data_are_told_from_others_whatever_the_spelling():
    titles = [
        dots._title(
            pd.Series({"dataset": name, "setting": "non_iid_1_10_clients", "run on": run}),
            several=True,
        )
        for name, run in (
            ("FashionMNIST", "fashion_mnist"),
            ("CIFAR10", "cifar10"),
            ("EMNIST", "mnist"),
        )
    ]
    setting = "non-IID.1, 10 clients"
    assert titles == [
        f"FashionMNIST, {setting}",
        f"CIFAR10, {setting}",
        f"EMNIST, {setting} (run on mnist)",
    ]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_titles_of_neighbouring_panels_do_not_touch(count):
    places = [("FashionMNIST", f"pathological_{10 * k}_clients") for k in range(count)]
    rows = [(*place, "FedAvg + Data", 90.0, 1.0, 91.0, NAN, "mnist") for place in places]
    rows.append(("CIFAR10", "latent_D10_15_clients", "pFedMe", 50.0, 1.0, 51.0, NAN, "cifar10"))
    figure_rows = pd.DataFrame(rows[1:], columns=COLUMNS)
    figure, _ = dots.printed_beside_ours(figure_rows)
    figure.draw_without_rendering()
    words = [axes.get_title().replace("\n", " ") for axes in panels(figure)]
    assert words == [dots._title(row, True) for _, row in figure_rows.iterrows()]
    titles = [axes.title.get_window_extent() for axes in panels(figure)]
    assert len(titles) == count
    for k, one in enumerate(titles):
        assert not any(one.overlaps(other) for other in titles[k + 1 :])
        assert 0 <= one.x0 and one.x1 < figure.bbox.x1
