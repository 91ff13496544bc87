"""Matrices over rounds: what their words and tables say, and that a page of them stands alone."""

import base64
import io
import json
import re

import matplotlib.image
import numpy as np
import pytest

from pfl_lib.display import matrices as module
from pfl_lib.display.matrices import in_brief, matrices, to_html
from pfl_lib.errors import BadInput
from pfl_lib.pages.html import faults

TWO = np.array([[[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]])


def random_weights(rounds: int, clients: int, layers: int | None = None) -> np.ndarray:
    size = (rounds, clients, clients) if layers is None else (rounds, layers, clients, clients)
    weights = np.random.default_rng(1).random(size) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


def test_a_frames_words_name_its_own_weight_and_the_largest_between_two_clients():
    """Round 9: own weights 1 and 0.75, mean 0.875; client 1 gives client 0's model 0.25."""
    shown = matrices(TWO, [1, 9])
    said = "Round 9: own weight 0.88 on average, largest between two clients 0.25 (client 1 for the"
    assert shown.words(1) == f"{said} model of 0)."


def test_values_below_zero_have_a_minus_sign_as_in_tables():
    shown = matrices(np.array([[[2.0, -0.5], [-1.25, 2.0]]]), [4], quantity="affinity")
    assert "two clients −0.50 (client 0 for the model of 1)" in shown.words(0)
    assert "affinity −2 <img" in to_html(shown) and "-0.5" not in shown.words(0)


def test_groups_have_lines_between_them_and_their_means_are_told():
    """Clients 0 and 1 are one group: (0.4 + 0.2) / 2 within; across (0.1 + 0 + 0 + 0.3) / 4."""
    frame = np.array([[0.5, 0.4, 0.1], [0.2, 0.8, 0.0], [0.0, 0.3, 0.7]])
    shown = matrices(frame[None], [3], groups=[0, 0, 1])
    told = "; mean over other clients of the same group 0.30, of other groups 0.10."
    assert shown.words(0).endswith(told)
    side = module.SIDE * 2 / 3
    assert f'd="M{module.MARGIN} {side:.1f}h{module.SIDE}M' in to_html(shown)
    assert to_html(shown).count("<path") == 1 and "<path" not in to_html(matrices(TWO, [1, 9]))
    alone = matrices(frame[None], [3], groups=[0, 1, 2])
    assert alone.words(0).endswith("; mean over other clients of other groups 0.17.")
    with pytest.raises(BadInput, match="2 groups for 3 clients: give the group of each client"):
        matrices(frame[None], [3], groups=[0, 1])


def test_the_table_behind_it_says_for_each_client_whom_it_hears_most():
    table = in_brief(np.array([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0], [np.nan] * 3]))
    assert table["most from"].tolist() == ["client 1", "client 0", "–"]
    assert table["own weight"].tolist()[:2] == [0.2, 1.0]
    assert table["others above 0"].tolist() == [2, 0, 0]


def test_the_slider_has_a_frame_for_every_round_and_starts_at_the_last():
    text = to_html(matrices(TWO, [1, 9], title="Who hears whom"))
    frames = json.loads(re.search(r"const frames=(\{.*?\});", text)[1])
    assert frames["rounds"] == [1, 9] and len(frames["pictures"]) == 2
    assert frames["pictures"][0] != frames["pictures"][1]
    assert 'type="range" min="0" max="1" value="1"' in text
    assert f"base64,{frames['pictures'][1][0]}" in text.partition("<script>")[0]
    assert text.count(frames["words"][1].replace(">", "&gt;")) == 3  # alt, words, script


def test_a_page_of_matrices_asks_for_nothing_and_has_words_for_every_picture():
    assert faults(to_html(matrices(random_weights(3, 5, 2), [1, 2, 3], ["conv", "fc"]))) == []


@pytest.mark.parametrize(
    ("frames", "bytes"),
    [((20, 15, None), 100_000), ((20, 15, 7), 300_000), ((20, 100, None), 300_000)],
)
def test_a_slider_is_small(frames, bytes):
    rounds, clients, layers = frames
    names = [f"layer {place}" for place in range(layers or 0)]
    text = to_html(matrices(random_weights(rounds, clients, layers), range(rounds), names))
    assert len(text) < bytes


def test_a_picture_has_a_pixel_for_each_cell_white_for_0_and_grey_for_nan():
    picture = module.pixels(np.array([[0.0, np.nan], [1.0, 0.25]]), (0.0, 1.0))
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(picture)))[..., :3]
    assert pixels.shape == (2, 2, 3)
    assert (pixels[0, 0] == 1).all() and np.ptp(pixels[0, 1]) == 0 and 0 < pixels[0, 1, 0] < 1
    assert pixels[1, 0].sum() < pixels[1, 1].sum() < 3, "more is darker"


def test_the_same_matrices_give_the_same_bytes():
    assert to_html(matrices(TWO, [1, 9])) == to_html(matrices(TWO.copy(), [1, 9]))


def test_colours_go_from_0_to_1_for_shares_and_lie_evenly_about_0_for_signed_values():
    assert matrices(TWO, [1, 9]).limits == (0.0, 1.0)
    assert matrices(TWO / 5, [1, 9]).limits == (0.0, 0.2)
    assert matrices(TWO - 0.25, [1, 9]).limits == (-0.75, 0.75)
    assert matrices(np.zeros((1, 2, 2)), [1]).limits == (0.0, 1.0)


@pytest.mark.parametrize(
    ("frames", "rounds", "panels", "words"),
    [
        (TWO[0], [1], (), "[rounds, N, N]"),
        (TWO[:, :1], [1, 9], (), "(2, 1, 2)"),
        (TWO, [1], (), "1 rounds"),
        (TWO, [1, 9], ("a", "b"), "2 panels"),
        (np.full_like(TWO, np.inf), [1, 9], (), "infinite"),
        (np.full_like(TWO, np.nan), [1, 9], (), "infinite values, or with none"),
    ],
)
def test_matrices_of_another_shape_or_without_values_are_refused(frames, rounds, panels, words):
    with pytest.raises(BadInput) as refused:
        matrices(frames, rounds, panels)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_in_jupyterlab_the_slider_is_a_widget_that_draws_the_round_it_is_set_to():
    moves, view = module.widget(matrices(TWO, [1, 9])).children
    _, slider = moves.children
    assert "Round 9:" in view.value
    slider.value = 0
    assert "Round 1:" in view.value
