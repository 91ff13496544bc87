"""Groups of clients, on made-up results: affinities, when CFL splits, what methods come to."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pfl_lib.papers import compare, fedfomo, groups
from pfl_lib.papers.fedfomo import D5, TABLE1, TABLE2
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result

TRUTH = np.array([0, 0, 1, 1])
SMALL = fedfomo.profiles(TABLE2)["small"]
D2 = "latent_D2_15_clients"


def test_affinities_in_blocks_give_the_groups_and_the_means_are_those_within_and_across():
    """Two groups of two: P is 3 and 1 within, -1 across but for one -5, the diagonal does not
    count: within (3 + 3 + 1 + 1) / 4 = 2; across (7 x -1 - 5) / 8 = -1.5.
    """
    p = np.array([[9, 3, -1, -1], [3, 9, -1, -5], [-1, -1, 9, 1], [-1, -1, 1, 9]], dtype=np.float32)
    [line] = groups.recovery(p[None], [7], TRUTH).to_dict("records")
    assert (line["round"], line["within"], line["across"]) == (7, 2.0, -1.5)
    assert (line["clients"], line["of"], line["Rand index"]) == (4, 4, 1.0)


def test_affinities_that_pair_clients_of_two_groups_find_none():
    """Client 0 is nearest to 2, and 1 to 3: of pairs that belong together none is found, and by
    chance a third would be: (0 - 2/3) / (2 - 2/3) = -0.5.
    """
    p = np.zeros((4, 4))
    p[0, 2] = p[2, 0] = p[1, 3] = p[3, 1] = 1.0
    [line] = groups.recovery(p[None], [1], TRUTH).to_dict("records")
    assert (line["clients"], line["Rand index"]) == (0, pytest.approx(-0.5))
    [alone] = groups.recovery(np.eye(3)[None], [1], np.array([0, 0, 1])).to_dict("records")
    assert alone["of"] == 2, "who is alone in its group shares none"


def test_the_truth_is_the_group_of_each_client_and_none_without_groups():
    assert groups.truth_of(fedfomo.FIVE_GROUPS).tolist() == [i // 3 for i in range(15)]
    assert groups.truth_of(TABLE1.settings[0]) is None


def test_every_stored_run_with_affinities_is_read_round_by_round():
    """Two rounds of two settings of which one was run; P gives the groups in the second round."""
    table = TABLE2.only(columns=["FedFomo (n=5)"]).scaled(SMALL)
    truth = groups.truth_of(fedfomo.FIVE_GROUPS)
    p = np.stack([np.zeros((15, 15)), truth[:, None] == truth[None]])
    ran = Result({"alice": None}, pd.DataFrame(), None, None, 1.0)
    ran = replace(ran, matrices={"affinity": p}, matrices_rounds=np.array([5, 10]))
    row = next(row for row in table.rows if row.setting == D5)
    spec = table.columns[0].spec(row.at, 1)
    found = groups.recoveries(Runs((table,), {spec: ran}.get))
    assert found[["setting", "seed", "round"]].to_numpy().tolist() == [[D5, 1, 5], [D5, 1, 10]]
    assert found["clients"].tolist() == [0, 15] and found["Rand index"].iloc[1] == 1.0
    assert groups.recoveries(Runs((table,), lambda spec: None)).empty
    again = replace(table, rows=(*table.rows, replace(row, setting="the same", own=True)))
    assert len(groups.recoveries(Runs((again,), {spec: ran}.get))) == 2


def result(rounds: int, leaving: dict[int, int], norm, longest: float = 2.0) -> Result:
    """15 clients of whom `leaving`[r] have left the first cluster by round r, each for its own;
    `norm` of a round is the first cluster's |mean u|, `longest` its longest update, and 9 are those
    of the others.
    """
    rows = []
    for r in range(1, rounds + 1):
        gone = max((n for start, n in leaving.items() if start <= r), default=0)
        before = max((n for start, n in leaving.items() if start < r), default=0)
        for i in range(15):
            norms = (9.0, 9.0) if i < before else (norm(r), longest)
            rows.append((r, i, 0.5, float(i + 1 if i < gone else 0), *norms))
    columns = "round client accuracy cluster mean_update_norm max_update_norm".split()
    return Result({"alice": None}, pd.DataFrame(rows, columns=columns), None, None, 1.0)


def found(table, profile, results: dict) -> pd.DataFrame:
    """`groups.splits` where the CFL runs of these settings gave these results."""
    there = {table.spec(setting, "CFL", profile, 1): one for setting, one in results.items()}
    return groups.splits(
        Runs((table.only(list(results)).scaled(profile).with_seeds(1),), there.get)
    )


def test_splits_are_the_rounds_in_which_the_number_of_clusters_grows():
    """One client leaves in round 5, two more in round 7: 2 and then 4 clusters.  |mean u| counts
    from round 5 on, and not that of clients alone.
    """
    ran = result(10, {5: 1, 7: 3}, lambda r: 1 / r)
    [line] = found(TABLE2, SMALL, {D5: ran}).to_dict("records")
    assert (line["clusters"], line["splits"]) == (4, "round 5 into 2, 7 into 4")
    assert (line["FedAvg until"], line["may split from"], line["epsilon_1"]) == (4, 5, 0.42)
    assert line["lowest |mean u|"] == pytest.approx(1 / 10)
    assert line["highest |mean u|"] == pytest.approx(1 / 5)
    assert line["longest update"] == 2.0, "not the 9 of those alone"


def test_a_tenth_of_100_clients_waits_for_the_last_of_them():
    """As many rounds as until the last is drawn, whatever was run."""
    small = fedfomo.profiles(TABLE1)["small"]
    part = TABLE1.only(["pathological_100_clients"], datasets=["CIFAR10"])
    [line] = groups.splits(Runs((part.scaled(small),), lambda run: None)).to_dict("records")
    assert 10 < line["may split from"] <= 50 and line["splits"] == "not run"
    assert pd.isna(line["clusters"])


def test_what_diverged_or_was_not_run_has_no_clusters():
    lost = replace(result(1, {}, lambda r: 0.5), diverged=1)
    lost.metrics = lost.metrics[["round", "client", "accuracy"]][:0]
    splits = found(TABLE2, SMALL, {D2: lost, D5: None})
    assert list(splits["splits"]) == ["diverged at round 1", "not run"]


def runs_of(accuracies: dict[str, float], **metrics) -> Runs:
    """One round of five groups of clients in which these methods have these accuracies."""
    table = TABLE2.only([D5], list(accuracies)).scaled(SMALL).with_seeds(1)
    found = {}
    for column in table.columns:
        of = pd.DataFrame({"round": 1, "client": range(15), "accuracy": accuracies[column.name]})
        spec = column.spec(table.rows[0].at, 1)
        found[spec] = Result({"alice": None}, of.assign(**metrics), None, None, 1.0)
    return Runs((table,), found.get)


def test_mocha_with_its_default_penalty_is_marked_as_local_training():
    [line] = groups.degenerate(runs_of({"Local Training": 0.8, "MOCHA": 0.79})).to_dict("records")
    assert (line["method"], line["mark"]) == ("MOCHA", " †")
    assert line["comes to"] == "Local Training and a tiny penalty: 1.00 points a client apart"


def test_of_two_twins_the_first_is_named():
    """A reader's second column of local training does not double MOCHA's place."""
    runs = runs_of({"Local Training": 0.8, "MOCHA": 0.79})
    twice = [replace(table.with_columns({"again": "local"})) for table in runs.tables]
    [line] = groups.degenerate(Runs(tuple(twice), runs.find)).to_dict("records")
    assert line["comes to"].startswith("Local Training")


@pytest.mark.parametrize(("accuracy", "lines"), [(0.5, 1), (0.501, 0)])
def test_lg_fedavg_is_marked_as_fedavg_only_where_every_accuracy_is_the_same(accuracy, lines):
    assert len(groups.degenerate(runs_of({"FedAvg": 0.5, "LG-FedAvg": accuracy}))) == lines


@pytest.mark.parametrize(("leaving", "lines"), [({}, 1), ({6: 1}, 0)])
def test_cfl_is_marked_where_no_cluster_splits(leaving, lines):
    table = TABLE2.only([D5], ["CFL"]).scaled(SMALL).with_seeds(1)
    ran = result(10, leaving, lambda r: 0.5)
    runs = Runs((table,), lambda spec: ran)
    marks = groups.degenerate(runs)
    assert len(marks) == lines and set(marks["mark"]) <= {" *"}
    beside = compare.beside(runs).merge(marks, how="left").fillna({"mark": ""})
    ours = compare.as_printed(beside).xs("ours", level="value")["CFL"].item()
    assert ours == "50.00" + " *" * lines
    none = groups.degenerate(Runs((TABLE2.scaled(SMALL),), lambda spec: None))
    assert none.empty and list(none) == [*groups.IN_TABLE, "mark", "comes to"]
