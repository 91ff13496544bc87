"""What an average can be worth under a concept shift: votes counted by hand, and the draws behind
the benchmark's specs.
"""

import dataclasses
import math

import pandas as pd
import pytest
import torch

from pfl_lib import data, partitions
from pfl_lib.experiments.runner import run_one
from pfl_lib.papers import waffle
from pfl_lib.papers.waffle import shift
from pfl_lib.results.store import Store

EQUAL, LABELS = torch.ones(10, 10), torch.arange(10)


def test_a_class_has_the_label_of_most_examples_and_what_is_level_is_shared():
    """Class 0: hers has 10, another 30; class 1: all agree; class 2: three labels, 10 each (level);
    tests 2, 3 and 5 images.

    (2 * 0 + 3 * 1 + 5 / 3) / 10 = 0.4667.
    """
    held = torch.tensor([[10, 10, 10], [20, 10, 10], [10, 10, 10]])
    labels = torch.tensor([[0, 1, 2], [2, 1, 0], [2, 1, 1]])
    assert shift.vote(held, labels, torch.tensor([2, 3, 5])) == pytest.approx((3 + 5 / 3) / 10)


def test_labels_with_nearly_as_many_examples_are_level():
    for others, share in ((100, 0.5), (105, 0.5), (106, 0.0), (95, 0.5), (94, 1.0)):
        held, labels = torch.tensor([[100.0, 1.0], [others, 1.0]]), torch.tensor([[0, 1], [1, 0]])
        assert shift.vote(held, labels, torch.tensor([1, 0])) == share


def test_where_all_use_her_labels_she_always_wins_and_where_all_others_agree_on_others_never():
    same = LABELS.expand(10, -1)
    assert shift.vote(EQUAL, same, torch.ones(10)) == 1
    other = torch.stack([LABELS] + [LABELS.roll(1)] * 9)
    assert shift.vote(EQUAL, other, torch.ones(10)) == 0
    each_its_own = torch.stack([LABELS.roll(i) for i in range(10)])
    assert shift.vote(EQUAL, each_its_own, torch.ones(10)) == pytest.approx(0.1)


def test_the_votes_are_those_of_the_cells_seeds():
    digits = data.load("digits")
    split = partitions.make("B*", digits, 10, seed=3)
    held = torch.stack([torch.bincount(digits.train_y[own], minlength=10) for own in split.train])
    tested = torch.bincount(digits.test_y[split.test[0]], minlength=10)
    votes = shift.votes(digits, waffle.QUICK, "B*", range(3, 5))
    assert len(votes) == 2 and votes[0] == 100 * shift.vote(held, split.relabel, tested)


def test_a_run_stands_beside_the_vote_of_its_own_seed(tmp_path):
    digits, store = data.load("digits"), Store(tmp_path, published=None)
    result = run_one(waffle.spec("FedAvg", "A*", waffle.QUICK, 2), store)
    rows = shift.by_draw(digits, waffle.QUICK, store).set_index(["run", "seed"])
    assert len(rows) == 20 and rows["status"].value_counts().to_dict() == {"not run": 19, "ran": 1}
    row, accuracy = rows.loc[("A*, FedAvg", 2)], 100 * result.accuracy_by_round()
    assert row["vote"] == shift.votes(digits, waffle.QUICK, "A*", range(2, 3))[0]
    assert row["later rounds"] == pytest.approx(accuracy.loc[11:20].mean())
    assert row["best round"] == pytest.approx(100 * result.best_accuracy)
    assert rows["later rounds"].notna().sum() == 1
    without = shift.by_draw(None, waffle.QUICK, store).set_index(["run", "seed"])
    assert (
        without["vote"].isna().all()
        and without.loc[("A*, FedAvg", 2), "best round"] == row["best round"]
    )

    class Shelf:
        """Every run diverged in its third round."""

        def find(self, spec):
            return dataclasses.replace(result, diverged=3)

    diverged = shift.by_draw(digits, waffle.QUICK, Shelf())
    assert (
        set(diverged["status"]) == {"diverged at round 3"} and diverged["best round"].isna().all()
    )


def test_draws_are_summed_up_beside_the_paper():
    """Votes 10, 20, 30 and later rounds 2, 4, 6 lie on a line; best rounds 10, 20, 30 have mean 20
    and standard deviation 10.
    """
    line = pd.DataFrame(
        {"seed": [1, 2, 3], "vote": [10.0, 20.0, 30.0], "later rounds": [2.0, 4.0, 6.0]}
    )
    ran = line.assign(run="A*, FedAvg", **{"best round": [10.0, 20.0, 30.0]})
    two = line.assign(run="B*, SCAFFOLD", **{"best round": [10.0, 20.0, math.nan]})
    by_draw = pd.concat([ran, two])
    by_draw.attrs["banner"] = "Made up"
    rows = shift.against_paper(by_draw, None, waffle.QUICK).set_index("run")
    assert (
        rows.index.tolist() == ["A*, FedAvg", "B*, SCAFFOLD"] and rows["votes' mean"].isna().all()
    )
    assert rows["correlation"].iloc[0] == pytest.approx(1) and math.isnan(
        rows["correlation"].iloc[1]
    )
    assert rows["best round"].tolist() == [20, 15] and rows["best round's std"].iloc[
        0
    ] == pytest.approx(10)
    assert rows["paper"].tolist() == [13.37, 57.51] and rows["paper's std"].tolist() == [3.21, 4.02]


def test_the_vote_over_many_draws_varies_by_more_than_ten_points():
    digits = data.load("digits")
    by_draw = shift.by_draw(digits, waffle.QUICK, Store(None, published=None))
    rows = shift.against_paper(by_draw, digits, waffle.QUICK).set_index("run")
    assert (rows["votes' std"] > 10).all() and rows["votes' mean"].between(20, 45).all()
