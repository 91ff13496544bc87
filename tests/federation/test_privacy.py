"""Epsilon: Opacus' accountant, and what it is given."""

import math
import sys
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from torch import nn

from pfl_lib import DPSGD, Federation, Schedule
from pfl_lib.experiments.training import Run
from pfl_lib.federation.privacy import epsilon, epsilons
from pfl_lib.methods import FedAvg
from pfl_lib.rows import average, copies, uniform
from tests.common import refused

SETTING = {"rate": 50 / 2667, "steps": 5400, "delta": 1e-5}


def test_the_full_batch_is_the_gaussian_mechanism():
    """One step on everybody's data with sigma: Renyi epsilon of order a is a / (2 sigma^2), and
    epsilon(delta) = min over a of a / (2 sigma^2) + ln((a - 1) / a) - (ln delta + ln a) / (a - 1)
    (Balle et al. 2020), over Opacus' orders.
    """
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
    for sigma, steps in ((4.0, 1), (20.0, 30)):
        by_hand = min(
            steps * a / (2 * sigma**2)
            + math.log((a - 1) / a)
            - (math.log(1e-5) + math.log(a)) / (a - 1)
            for a in orders
        )
        assert epsilon(sigma, 1.0, steps, 1e-5) == pytest.approx(by_hand, rel=1e-9)


def test_without_noise_it_is_infinite_and_without_steps_0():
    assert epsilon(0, **SETTING) == math.inf
    assert epsilon(1.0, 0.1, 0, 1e-5) == epsilon(0, 0.1, 0, 1e-5) == 0


def test_bad_input_is_refused_in_one_line():
    for wrong, told in (
        ({"delta": 0}, "delta 0: give a number above 0 and below 1"),
        ({"delta": 1}, "delta 1: give a number above 0 and below 1"),
        ({"delta": -1e-5}, "delta -1e-05: give"),
        ({"rate": 1.2}, "sampling rate 1.2: give a chance above 0 and at most 1"),
        ({"rate": 0}, "sampling rate 0: give"),
        ({"steps": 2.5}, "steps 2.5: give a whole number"),
        ({"noise": -1}, "noise -1: give a number 0 or more"),
    ):
        refused(told, epsilon, **{"noise": 1.0, **SETTING, **wrong})


def test_without_opacus_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    refused("pip install opacus$", epsilon, 1.25, **SETTING)  # computed by no other test
    assert epsilon(0, **SETTING) == math.inf  # known without it


class Warm(FedAvg):
    """FedAvg whose clients train before the first round too, as round `before`."""

    before = 0

    def start(self, fed: Federation) -> dict:
        trained, _ = fed.train(copies(fed.initial(), len(fed)), self.before, range(len(fed)))
        return average(uniform(len(fed)), trained)


class Again(Warm):
    before = 1


def test_steps_before_the_first_round_count_with_it_and_need_noise_of_their_own():
    """Two clients of 5 and 7 examples, batches of 2: 3 and 4 steps an epoch."""
    draw = torch.Generator().manual_seed(0)
    data = [(torch.randn(n, 3, generator=draw), torch.arange(n) % 2) for n in (5, 7)]
    schedule = Schedule(2, batch_size=2, private=DPSGD(noise=1.0, max_norm=1.0))
    fed = Federation.from_arrays(data, data, lambda: nn.Linear(3, 2), schedule, device="cpu")
    one = Run(Warm(), fed)
    list(one.rounds())
    assert [row["private_steps"] for row in one.metrics] == [6, 8, 3, 4]
    refused("twice in a round by the same noise", list, Run(Again(), fed).rounds())


def test_a_runs_epsilons_are_each_clients_own():
    """Clients of 5 and of 20 examples; two rounds of two epochs, batches of 4."""
    rows = [
        {"round": r, "client": c, "private_steps": steps, "sampling_rate": rate}
        for r in (1, 2)
        for c, steps, rate in ((0, 4, 0.8), (1, 10, 0.2))
    ]

    def of(rows: list, rounds: int = 2, diverged: int | None = None) -> SimpleNamespace:
        schedule = {"rounds": rounds, "private": {"noise": 1.5}}
        frame, named = pd.DataFrame(rows), {"client_names": {0: "Bern", 1: "Chur"}}
        config = {"schedule": schedule}
        return SimpleNamespace(metrics=frame, config=config, diverged=diverged, **named)

    found = epsilons(of(rows), 1e-5)
    spent = epsilon(1.5, 0.8, 8, 1e-5), epsilon(1.5, 0.2, 20, 1e-5)
    assert found.to_dict() == dict(zip(("Bern", "Chur"), spent, strict=True))
    refused("metrics of some rounds are missing", epsilons, of(rows[1:]), 1e-5)
    refused("metrics of some rounds are missing", epsilons, of(rows, rounds=3), 1e-5)
    refused("the run diverged in round 3: give one that did not", epsilons, of(rows, 4, 3), 1e-5)
    refused("DataFrame: give the Result of one run, such as", epsilons, of(rows).metrics, 1e-5)
    # The initial model, as round 0, is no trained round.
    first = [{"round": 0, "client": c} for c in (0, 1)]
    assert epsilons(of(first + rows), 1e-5).equals(found)
    refused("some rounds are missing", epsilons, of(first + rows[2:]), 1e-5)
    refused("without private_steps and sampling_rate", epsilons, of(first), 1e-5)
