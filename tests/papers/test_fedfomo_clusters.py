"""When CFL splits its clusters in FedFomo's tables, on made-up results."""

from dataclasses import replace

import pandas as pd
import pytest

from pfl_lib.papers import fedfomo
from pfl_lib.papers.fedfomo import D5, TABLE1, TABLE2, numbers, sentences
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
    """`numbers.splits` where the CFL runs of these settings gave these results."""
    there = {table.spec(setting, "CFL", profile, 1): one for setting, one in results.items()}
    return numbers.splits(table.only(list(results)), profile, there.get)


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


def test_a_table_without_splits_is_said_to_be_fedavg():
    never, once = result(10, {}, lambda r: 0.5 + r / 100), result(10, {6: 1}, lambda r: 0.2)
    said = sentences.cluster_splits(found(TABLE2, SMALL, {D2: never, D5: once}))
    assert said == (
        "CFL never splits on latent D2, 15 clients: there it is FedAvg with uniform weights under"
        " another name. Its mean update would have to fall below 0.42, and is 0.55 at its lowest."
        " On latent D5, 15 clients it is FedAvg until round 5 and ends with 2 clusters."
    )


def test_a_table_without_splits_says_which_limit_forbids_them():
    """A mean update that is small enough, of updates that are all too small."""
    still = found(TABLE2, SMALL, {D2: result(10, {}, lambda r: 0.2, longest=1.02)})
    assert still[["longest update", "epsilon_2"]].iloc[0].tolist() == [1.02, 1.6]
    assert sentences.cluster_splits(still).endswith(
        "another name. An update would have to be longer than 1.6, and the longest has 1.02."
    )


def test_a_run_that_ends_before_a_split_is_allowed_is_said_to():
    quick = fedfomo.profiles(TABLE2)["quick"]
    splits = found(TABLE2, quick, {D5: result(3, {}, lambda r: 0.1)})
    assert splits["may split from"].isna().all() and splits["lowest |mean u|"].isna().all()
    assert "These runs ended before a split" in sentences.cluster_splits(splits)
    part = TABLE1.only(["pathological_15_clients"], datasets=["CIFAR10"])
    late = part.only(columns=["CFL"]).runs(fedfomo.profiles(TABLE1)["small"])
    both = numbers.splits(part, SMALL, dict.fromkeys(late, result(10, {}, lambda r: 0.5)).get)
    splits = pd.concat([splits, both], ignore_index=True)
    assert "Of these, latent D5, 15 clients ended" in sentences.cluster_splits(splits)


def test_a_tenth_of_100_clients_waits_for_the_last_of_them():
    """As many rounds as until the last is drawn, whatever was run."""
    small = fedfomo.profiles(TABLE1)["small"]
    part = TABLE1.only(["pathological_100_clients"], datasets=["CIFAR10"])
    [line] = numbers.splits(part, small, lambda run: None).to_dict("records")
    assert 10 < line["may split from"] <= 50 and line["splits"] == "not run"
    assert pd.isna(line["clusters"])


def test_what_diverged_or_was_not_run_has_no_clusters_and_no_sentence():
    lost = replace(result(1, {}, lambda r: 0.5), diverged=1)
    lost.metrics = lost.metrics[["round", "client", "accuracy"]][:0]
    splits = found(TABLE2, SMALL, {D2: lost, D5: None})
    assert list(splits["splits"]) == ["diverged at round 1", "not run"]
    assert sentences.cluster_splits(splits) == "None of CFL's runs is stored."
