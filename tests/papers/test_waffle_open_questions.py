"""The open questions as runs, and what is said of them."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from pfl_lib.methods import Scaffold, Waffle
from pfl_lib.methods.poisoned import Poisoned
from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import figures, open_questions
from pfl_lib.results.result import Result


@dataclasses.dataclass
class Shelf:
    """By run: (best accuracy, round of divergence, weights)."""

    found: dict

    def find(self, spec):
        if spec not in self.found:
            return None
        best, diverged, weights = self.found[spec]
        rounds = {"round": [1, 2], "client": spec.alice, "accuracy": [best, 0.1], "loss": 1.0}
        config = {"alice": spec.alice}
        return Result(config, pd.DataFrame(rounds), weights, diverged, 1.0)


def test_the_grid_has_either_unit_two_rates_and_every_method_clipped_and_not():
    runs = open_questions.DIVERGENCE.runs(waffle.FULL.with_seeds(1))
    assert len(runs) == 6 * 6 and {run.partition for run in runs} == {"C"}
    assert {(run.model, run.schedule.lr) for run in runs} == {
        (model, lr)
        for model in ("lenet5", "lenet5-relu", "lenet5-relu-groupnorm")
        for lr in (0.1, 0.03)
    }
    assert {run.method for run in runs} == {
        dataclasses.replace(method, clip=clip)
        for method in (Scaffold(), Scaffold("I"), Waffle())
        for clip in (None, 1.0)
    }


def test_schedules_share_the_papers_own_with_table_1_and_an_earlier_middle_has_a_shift_above_0():
    runs = open_questions.SCHEDULES.runs(waffle.FULL.with_seeds(1))
    assert set(runs) & set(waffle.TABLE1.runs(waffle.FULL)) == {
        waffle.spec("WAFFLE", name, waffle.FULL, 1) for name in ("C", "A*")
    }
    methods = {column.name: column.method for column in open_questions.SCHEDULES.columns}
    assert methods["a fifth of the rounds earlier"].shift == 0.2
    assert methods["straight line"].transition == "linear"
    assert methods["step after half"].transition == "step"
    assert methods["Ψ a straight line"] == Waffle(transition="sigmoid", psi="linear")
    assert methods["Ω a straight line"] == Waffle(transition="linear", psi="sigmoid")
    assert len(set(methods.values())) == len(methods)


def test_every_client_is_alice_once_and_client_0_is_table_1s():
    runs = open_questions.ALICES.runs(waffle.FULL.with_seeds(1))
    assert sorted(run.alice for run in runs) == sorted([*range(10)] * 2)
    assert waffle.spec("WAFFLE", "C", waffle.FULL, 1) in runs


def test_the_same_three_clients_cheat_in_every_attack_and_weight_erosion_keeps_its_penalty():
    runs = open_questions.POISONED.runs(waffle.FULL.with_seeds(1))
    cheated = [run.method for run in runs if isinstance(run.method, Poisoned)]
    assert len(runs) == 13 and len(cheated) == 9
    assert {method.clients for method in cheated} == {(1, 2, 3)}
    assert {(method.attack, method.scale) for method in cheated} == {
        ("labels", -1.0),
        ("update", -1.0),
        ("update", -10.0),
    }
    honest = {waffle.spec(name, "C", waffle.FULL, 1) for name in ("WE", "WAFFLE", "FedAvg")}
    assert honest <= set(runs)
    assert {method.method.p_d for method in cheated if method.method.name == "weight_erosion"} == {
        0.006
    }


def test_a_cell_is_a_number_or_says_what_became_of_the_run():
    first = waffle.FULL.with_seeds(1)
    name = open_questions.DIVERGENCE.rows[0].setting
    ran = open_questions.DIVERGENCE.spec(name, "WAFFLE", first, 1)
    lost = open_questions.DIVERGENCE.spec(name, "SCAFFOLD, option II", first, 1)
    shelf = Shelf({ran: (0.99, None, None), lost: (0.5, 7, None)})
    table = open_questions.answered(open_questions.DIVERGENCE, waffle.FULL, shelf)
    row = table.set_index("setting").loc[name]
    assert len(table) == 6 and row["WAFFLE"] == pytest.approx(99)
    assert row["SCAFFOLD, option II"] == "diverged at round 7"
    assert row["WAFFLE, clipped"] == "not run"


def test_the_share_of_those_who_cheat_is_the_mean_over_rounds_of_their_part_of_all_weights():
    """Round 1: 3 of 10; round 2: 0 of 1.  Mean 15 %."""
    spec = open_questions.POISONED.spec("C", "WE, random labels", waffle.FULL, 1)
    weights = np.vstack([np.ones(10), np.eye(10)[0]])
    shelf = Shelf({spec: (0.9, None, weights)})
    cheats = open_questions.share_of_cheats(waffle.FULL, shelf).set_index("attack")
    assert cheats.loc["random labels", "WE"] == pytest.approx(15)
    assert math.isnan(cheats.loc["random labels", "WAFFLE"]) and len(cheats) == 4
    poisoned = open_questions.poisoned(waffle.FULL, shelf).set_index("attack")
    assert poisoned.loc["random labels", "WE"] == pytest.approx(90)
    assert poisoned.columns.tolist() == ["FedAvg", "WE", "WAFFLE", "Local"]
    assert set(poisoned["Local"]) == {"not run"}


def answer(profile=waffle.SMALL, **changed) -> str:
    grid = pd.DataFrame(
        {"setting": ["tanh, lr 0.1", "ReLU, lr 0.1"], "WAFFLE": [99.0, "diverged at round 3"]}
        | {"WAFFLE, clipped": [98.0, "not run"]}
    )
    tables = {
        "grid": grid,
        "ended": grid.assign(**{"WAFFLE, clipped": [48.0, "not run"]}),
        "schedules": pd.DataFrame(
            {"setting": ["C", "A*"], "slope 5": [98.0, 90.0]}
            | {"step": [97.0, "not run"], "line": [99.0, 92.0]}
        ),
        "alices": pd.DataFrame(
            {"setting": ["client 0", "client 1", "client 2"]}
            | {"Local": [90.0, 91.0, "not run"], "WAFFLE": [91.0, 90.0, 99.0]}
        ),
        "cheats": pd.DataFrame(
            {"attack": ["honest", "random labels"], "WE": [30.0, 12.0], "WAFFLE": [20.0, 4.0]}
        ),
        "attacked": pd.DataFrame(
            {"attack": ["honest", "updates reversed"], "FedAvg": [90.0, 40.0]}
            | {"WE": [97.0, 92.0], "WAFFLE": [98.0, 96.0], "Local": [96.5, 96.5]}
        ),
    }
    return open_questions.sentence(profile, **(tables | changed))


def test_the_answer_says_what_broke_down_how_schedules_spread_who_gained_and_what_cheats_keep():
    assert answer() == (
        "On distribution C (MNIST) 2 of 3 runs with control variates break down, 1 by divergence"
        " and 1 with a last round below half of the best (tanh 1 of 2, ReLU 1 of 1; clipped 1)."
        " With one seed WAFFLE lies between 97.0 % (*step*) and 99.0 % (*line*) on C (3 schedules)"
        " and 90.0 % (*slope 5*) and 92.0 % (*line*) on A* (2 schedules)."
        " WAFFLE is above Local for 1 of 2 clients as Alice."
        " Of the weights in WAFFLE and Weight Erosion three clients have 20 and 30 % (honest) and 4"
        " and 12 % (random labels)."
        " Alice then has 98.0 and 97.0 % (honest) and 96.0 and 92.0 % (updates reversed); Local has"
        " 96.5 %."
    )


def test_the_answer_names_the_data_that_were_run_and_leaves_out_what_was_not():
    assert answer(waffle.QUICK).startswith("On distribution C (Optical digits of scikit-learn) 2")
    nothing = pd.DataFrame({"setting": ["C"], "slope 5": ["not run"], "step": ["not run"]})
    alices = pd.DataFrame({"setting": ["client 0"], "Local": ["not run"], "WAFFLE": [99.0]})
    cheats = pd.DataFrame({"attack": ["honest"], "WE": [30.0], "WAFFLE": [math.nan]})
    reversed_ = pd.DataFrame(
        {"attack": ["updates reversed"], "WE": ["not run"], "WAFFLE": [90.0], "Local": [90.0]}
    )
    left = {"schedules": nothing, "alices": alices, "cheats": cheats, "attacked": reversed_}
    steady = pd.DataFrame({"setting": ["tanh, lr 0.1"], "WAFFLE": [99.0]})
    assert answer(grid=steady, ended=steady, **left) == (
        "On distribution C (MNIST) 0 of 1 runs with control variates break down."
    )


def of_two_settings() -> tuple[pd.DataFrame, ...]:
    grid = pd.DataFrame(
        {
            "setting": ["tanh, lr 0.1", "ReLU, lr 0.1"],
            "SCAFFOLD, option II": [96.0, "diverged at round 17"],
            "WAFFLE": [98.0, 97.0],
            "WAFFLE, clipped": [97.0, "not run"],
        }
    )
    ended = grid.assign(WAFFLE=[97.5, 11.0])
    cheats = pd.DataFrame({"attack": ["honest", "lies"], "WE": [30.0, 20.0], "WAFFLE": [35.0, 2.0]})
    return grid, ended, cheats


def test_the_picture_has_each_last_round_a_cross_for_what_diverged_and_the_cheats_shares():
    figure, alt = figures.broken_and_shut_out(*of_two_settings())
    left, right = figure.axes
    drawn = {line.get_label(): line for line in left.get_lines()}
    assert drawn["WAFFLE"].get_ydata().tolist() == [97.5, 11.0]
    (cross,) = (
        line for line in left.get_lines() if line.get_marker() == "x" and len(line.get_xdata())
    )
    assert cross.get_color() == drawn["SCAFFOLD, option II"].get_color()
    shares = [list(line.get_xdata()) for line in right.get_lines()]
    assert [35.0, 2.0] in shares and [30.0, 20.0] in shares
    assert alt.startswith(
        "Last and best round of 5 runs with control variates: SCAFFOLD, option II"
    )
    assert "diverged at round 17; WAFFLE with ReLU, lr 0.1 ends at 11.0 after 97.0." in alt
    assert "lies 20 % in WE and 2 % in WAFFLE" in alt


def test_where_nothing_was_run_nothing_is_drawn():
    grid, _, cheats = of_two_settings()
    grid = grid.assign(**dict.fromkeys(grid.columns[1:], "not run"))
    assert figures.broken_and_shut_out(grid, grid, cheats.assign(WE=np.nan, WAFFLE=np.nan)) is None
