"""Profiles by name, and what a paper prints; `papers.judge` says what our number makes of it."""

from typing import NamedTuple

PROFILES = ("quick", "small", "paper")


class Printed(NamedTuple):
    """A printed value and its printed standard deviation, in the paper's unit; NaN where the paper
    prints no spread.
    """

    value: float
    std: float
