"""When CFL splits its clusters in FedFomo's tables, on made-up results."""

from dataclasses import replace

import pandas as pd
import pytest

from pfl_lib.papers import fedfomo, groups
from pfl_lib.papers.fedfomo import D5, TABLE1, TABLE2
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result

SMALL = fedfomo.profiles(TABLE2)["small"]
D2 = "latent_D2_15_clients"


def result(rounds: int, leaving: dict[int, int], norm, longest: float = 2.0) -> Result:
    """15 clients of whom `leaving`[r] have left the first cluster by round r, each for its own;
    `norm` of a round is the first cluster's |mean u|, `longest` its longest update, and 9 are those
    of the others.
    """
    rows = []
    for r in range(1, rounds + 1):
        gone = max((n for start, n in leaving.items() if start <= r), default=0)
        before = max((n for start, n in leaving.items() if start < r), default=0)
        rows += [
            {
                "round": r,
                "client": i,
                "accuracy": 0.5,
                "cluster": float(i + 1 if i < gone else 0),
                "mean_update_norm": 9.0 if i < before else norm(r),
                "max_update_norm": 9.0 if i < before else longest,
            }
            for i in range(15)
        ]
    return Result({"alice": None}, pd.DataFrame(rows), None, None, 1.0)


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
