"""A printed table beside ours as dots: what the paper prints, what was measured, both spreads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # annotations only: matplotlib is imported where it draws
    pass

COLUMNS = 3  # panels in a row; of four, two
TITLE = {1: 60, 2: 34, 3: 20}  # letters that fit above a panel, by panels in a row
BY_METHOD, BY_ROW = 0.27, 0.75  # inches
OURS = "ours (bars: one standard deviation over seeds)"
DOT = {"marker": "o", "markersize": 6, "color": "#0173b2", "linestyle": "none"}
PAPER = {"marker": "o", "markerfacecolor": "white", "color": "#333333", "linestyle": "none"}
