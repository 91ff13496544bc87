"""What WAFFLE says about its Table 1 on CIFAR10, answered from made-up results."""

import numpy as np
import pandas as pd

from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import cifar10, claims
from pfl_lib.results.result import Result


class Shelf:
    """A store whose runs reach `percent(method, distribution)` in a round `rises` by method (the
    first if it is not named), with the weights `weights(method)`.
    """

    def __init__(self, percent, weights=lambda method: None, rises=()):
        self.percent, self.weights, self.rises = percent, weights, dict(rises)
        self.places = {
            cifar10.TABLE.spec(row.setting, method, profile, 1).key: (method, row.setting)
            for profile in (cifar10.SMALL, cifar10.QUICK)
            for row in cifar10.TABLE.run_in(profile).rows
            for method in waffle.METHODS
        }

    def find(self, spec):
        if spec.key not in self.places:
            return None
        method, distribution = self.places[spec.key]
        accuracy = np.full(spec.schedule.rounds, self.percent(method, distribution) / 100)
        accuracy[: self.rises.get(method, 1) - 1] = 0.1
        rounds = np.arange(1, len(accuracy) + 1)
        metrics = pd.DataFrame({"round": rounds, "client": 0, "accuracy": accuracy})
        return Result({"alice": 0}, metrics, self.weights(method), None, 1.0)


def level(method: str, distribution: str) -> float:
    return 50.0


def test_speed_is_that_of_cifar10s_own_runs_and_one_seed_leaves_it_open():
    """WAFFLE is there in round 5, Weight Erosion in round 9."""
    shelf = Shelf(level, rises={"WAFFLE": 5, "WE": 9})
    frame = claims.speed(cifar10.SMALL, shelf, ("A*", "B"), cifar10.TABLE)
    assert frame["distribution"].tolist() == ["A*", "B"]
    assert set(frame["WAFFLE"]) == {"5"} and set(frame["WE"]) == {"9"}
    assert set(frame["faster"]) == {"undecided"}
    quick = claims.speed(cifar10.QUICK, shelf, ("A*", "B"), cifar10.TABLE)
    assert quick["distribution"].tolist() == ["A*"]


def test_when_alice_is_alone_is_read_from_cifar10s_own_runs():
    """WAFFLE leaves her alone from round 20 of 25, Weight Erosion from round 22, 23 or
    never."""
    of = {"WAFFLE": 20, "WE": 22}

    def weights(method: str):
        matrix = np.ones((cifar10.SMALL.rounds, 10))
        matrix[of.get(method, len(matrix) + 1) - 1 :, 1:] = 0
        return matrix

    def rows(**changed) -> pd.DataFrame:
        of.update(changed)
        frame = claims.alone(cifar10.SMALL, Shelf(level, weights), cifar10.TABLE)
        return frame.set_index("distribution")

    first = rows()
    assert first.index.tolist() == list(waffle.DISTRIBUTIONS)
    assert first.loc["A*", ["WE", "WAFFLE", "same time"]].tolist() == ["22", "20", "yes"]
    assert first.loc["A*", ["p_d in the paper", "slope"]].tolist() == [0.6, 3.2]
    assert first["p_d here"]["A*"] == cifar10.p_d("A*", 25)
    assert set(rows(WE=23)["same time"]) == {"no"} and set(rows(WE=26)["WE"]) == {"never"}
    quick = claims.alone(cifar10.QUICK, Shelf(level, weights), cifar10.TABLE)
    assert set(quick["same time"]) == {"no answer (quick profile)"} and len(quick) == 2
