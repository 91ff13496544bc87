"""What clients send and receive beside their accuracy, on made-up results."""

from dataclasses import replace

import pandas as pd
import pytest

from pfl_lib.papers import fedfomo, traffic
from pfl_lib.papers.fedfomo import TABLE1
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result

SMALL = fedfomo.profiles(TABLE1)["small"]


def result(percent: float, rounds: int = 2, **given) -> Result:
    rows = [
        {"round": r, "client": c, "accuracy": percent / 100, "models_up": 15, "models_down": 60}
        for r in range(1, rounds + 1)
        for c in range(15)
    ]
    return Result({"alice": None}, pd.DataFrame(rows), None, None, 1.0, **given)


def test_traffic_is_what_one_client_receives_and_sends_in_one_round():
    """15 clients, 2 rounds, 60 models down a round: 4 each.  Bytes of all: 30 client-rounds of
    1 MB up and 4 MB down.
    """
    part = TABLE1.only(["pathological_15_clients"], ["FedFomo (n=5)"], ["MNIST"])
    run = part.spec("pathological_15_clients", "FedFomo (n=5)", SMALL, 1)
    found = {run: result(98.0, bytes=(30 * 2**20, 4 * 30 * 2**20))}
    [line] = traffic.per_round(Runs((part.scaled(SMALL),), found.get)).to_dict("records")
    assert (line["models down"], line["models up"]) == (4.0, 1.0)
    assert (line["MB down"], line["MB up"], line["accuracy"]) == (4.0, 1.0, pytest.approx(98))


def test_traffic_of_what_was_not_run_has_no_line():
    part = TABLE1.only(["pathological_100_clients"], ["FedAvg"], ["CIFAR10"]).scaled(SMALL)
    assert traffic.per_round(Runs((part,), lambda run: None)).empty


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_run_that_diverged_has_no_accuracy_and_sends_nothing_that_is_counted(rounds):
    """In its first round, before any was evaluated, or later."""
    part = TABLE1.only(["pathological_15_clients"], ["pFedMe", "FedFomo (n=5)"], ["CIFAR10"])
    lost, ended = part.runs(SMALL)
    diverged = replace(result(98.0, max(rounds, 1)), diverged=rounds + 1)
    if not rounds:  # what methods send is then not among the columns
        diverged.metrics = diverged.metrics[["round", "client", "accuracy"]][:0]
    find = {lost: diverged, ended: result(97.0)}.get
    sent = traffic.per_round(Runs((part.scaled(SMALL),), find))
    assert list(sent["method"]) == ["FedFomo (n=5)"]
