"""Figures as PNGs."""

import io

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from pfl_lib.display import theme


def test_a_figure_a_hair_narrower_than_a_whole_number_of_pixels_is_not_sheared():
    """2,012.9999999999998 pixels are drawn as 2,013; rows of 2,012 would lean to the left."""
    width = 2013 / theme.DPI
    assert int(width * theme.DPI) == 2012
    figure = Figure(figsize=(width, 0.5))
    figure.add_axes((0.5, 0, 0.5, 1), facecolor="black").set(xticks=[], yticks=[])
    with Image.open(io.BytesIO(theme.png(figure))) as picture:
        drawn = np.asarray(picture.convert("L"))
    assert drawn.shape[1] == 2013 and (drawn[5] == drawn[-5]).all()
