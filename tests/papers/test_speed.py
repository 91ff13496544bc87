"""Who learns faster, from accuracies that jump to 99 % in a given round."""

import pandas as pd
import pytest

from pfl_lib.papers import speed, waffle
from pfl_lib.papers.runs import Runs
from pfl_lib.results.result import Result

ON_C = waffle.TABLE1.only(["C"], ["WE", "WAFFLE"])


def runs(jumps: dict[tuple[int, str], int], diverged: dict[str, int] | None = None) -> Runs:
    """Runs of 25 rounds, 50 % until the round given by (seed, method), 99 % from it on."""

    def find(spec):
        name = {"weight_erosion": "WE", "waffle": "WAFFLE"}[spec.method.name]
        if (spec.seed, name) not in jumps:
            return None
        lost = (diverged or {}).get(name) if spec.seed == 1 else None
        accuracy = [0.99 if r >= jumps[spec.seed, name] else 0.5 for r in range(1, lost or 26)]
        metrics = {"round": range(1, len(accuracy) + 1), "client": 0, "accuracy": accuracy}
        return Result({"alice": 0}, pd.DataFrame(metrics | {"loss": 0.1}), None, lost, 1.0)

    seeds = sorted({seed for seed, _ in jumps})
    return Runs((ON_C.scaled(waffle.SMALL).with_seeds(*seeds),), find)


def on_seeds(count: int, waffle_at: int, we_at: int) -> dict[tuple[int, str], int]:
    names = {"WAFFLE": waffle_at, "WE": we_at}
    return {(seed, name): at for seed in range(1, count + 1) for name, at in names.items()}


def lead(of: Runs) -> list:
    row = speed.lead(of, "WAFFLE", "WE").iloc[0]
    return [row["WAFFLE"], row["WE"], row["seeds"], row["earlier"]]


def test_a_method_is_faster_when_it_is_there_two_rounds_earlier_on_three_seeds():
    assert lead(runs(on_seeds(3, 5, 9))) == [5, 9, 3, "yes"]
    assert lead(runs(on_seeds(3, 9, 5))) == [9, 5, 3, "no"]
    assert lead(runs(on_seeds(3, 5, 6))) == [5, 6, 3, "open"]
    assert lead(runs(on_seeds(2, 5, 9))) == [5, 9, 2, "open"]


def test_a_lead_that_seeds_spread_wider_than_is_open():
    """Leads of 0, 0 and 15 rounds: 5 on average, two standard errors are 10."""
    jumps = on_seeds(3, 5, 5) | {(3, "WE"): 20}
    assert lead(runs(jumps))[2:] == [3, "open"]
    row = speed.lead(runs(jumps), "WAFFLE", "WE").iloc[0]
    assert row[["rounds apart", "two standard errors"]].tolist() == pytest.approx([5, 10])
    assert lead(runs(jumps | {(1, "WE"): 18, (2, "WE"): 19}))[2:] == [3, "yes"]


def test_speed_is_judged_on_the_seeds_that_both_methods_ran():
    """Alone, on a seed of its own, each is there in another round."""
    jumps = {(1, "WE"): 2, (5, "WAFFLE"): 20}
    for seed in (2, 3, 4):
        jumps |= {(seed, "WE"): 9, (seed, "WAFFLE"): 5}
    assert lead(runs(jumps)) == [5, 9, 3, "yes"]


def test_of_two_methods_that_share_no_seed_or_one_of_which_diverged_none_is_faster():
    for found in (
        runs({(1, "WE"): 2, (5, "WAFFLE"): 20}),
        runs(on_seeds(3, 5, 9), diverged={"WAFFLE": 7}),
    ):
        row = speed.lead(found, "WAFFLE", "WE").iloc[0]
        assert row["earlier"] == "open" and pd.isna(row["target, %"]) and pd.isna(row["WAFFLE"])


def test_a_best_so_far_never_falls_and_ends_where_the_first_seed_diverged():
    found = runs(on_seeds(3, 5, 9), diverged={"WAFFLE": 7})
    best = speed.best_so_far(found.frame)
    assert best.groupby("run")["best"].is_monotonic_increasing.all()
    last = best.groupby("method")["round"].max()
    assert last.to_dict() == {"WAFFLE": 6, "WE": 25}
    means = speed.curves(best)["C"]
    assert means["WE"].iloc[[7, 8]].tolist() == [50, 99] and means["WAFFLE"].count() == 6
