"""The sentences that answer the pages: their numbers are those of the frames they are made from."""

import numpy as np
import pandas as pd

from pfl_lib.papers.claims import QUICK
from pfl_lib.papers.waffle import sentences as waffle
from pfl_lib.papers.weight_erosion import sentences as erosion


def compared(profile: str) -> pd.DataFrame:
    rows = [
        ("C", "WE", 98.1, 98.0, "reproduced (2 of 5 seeds): 0.1 points apart", 2, 1),
        ("C", "WAFFLE", 98.8, 99.0, "reproduced: 0.2 points apart", 2, 1),
        ("A", "WE", 99.0, 97.0, "not reproduced: reason unknown", 3, 3),
        ("A", "WAFFLE", 98.0, np.nan, "not run", 3, 3),
        ("A", "APFL", 99.5, 96.0, "not reproduced: reason unknown", 3, 3),
    ]
    names = ["setting", "method", "paper", "ours", "verdict", "clear pairs", "pairs in order"]
    frame = pd.DataFrame(rows, columns=names)
    other = frame.tail(1).assign(dataset="CIFAR10")
    return pd.concat([frame.assign(dataset="MNIST"), other]).assign(profile=profile)


def test_table_1_counts_verdicts_of_mnist_and_pairs_of_each_row_once():
    """Two rows of the table: 2 + 3 clear pairs, 1 + 3 in order."""
    said = waffle.table_1(compared("paper"))
    assert said == (
        "No method is above the better of WE and WAFFLE on 2 of the 2 distributions that were run,"
        " in the paper on 1 of them. Its lead over the best other method is +1.00 (A) points,"
        " more than 0.4 on 1 of 1. The verdicts on the 5 values printed for MNIST: 2 reproduced, 2"
        " not reproduced and 1 not run; of 5 pairs of methods that the paper tells clearly apart 4"
        " stand in its order."
        " 1 of the verdicts rest on fewer seeds than the paper's."
    )


def test_table_1_of_the_quick_profile_gives_no_verdict():
    said = waffle.table_1(compared("quick"))
    assert "96.0 to 99.0 %" in said and "WAFFLE on C; WE on A" in said and "no verdict" in said
    nothing = compared("quick").assign(ours=np.nan)
    assert waffle.table_1(nothing) == "None of the 5 values printed for MNIST was run."


def test_figure_3_says_when_alice_is_alone_or_what_share_she_ends_with():
    said = waffle.figure_3(
        {
            "WE": np.array([[1, 1, 1], [1, 0.25, 0]]),
            "WAFFLE": np.array([[0.5, 0.3, 0.2], [1, 0, 0]]),
        }
    )
    assert said == (
        "Alice's share of the average goes, under WE, from 33% in round 1 to 80% in round 2; under"
        " WAFFLE, from 50% in round 1 to all of it from round 2. Of the others she listens longest"
        " to client 1 under WE and clients 1 and 2 under WAFFLE."
    )
    assert waffle.figure_3({}).startswith("No run is stored")


def test_the_way_to_local_training_is_told_by_speed_time_and_share():
    def frame(column: str, *words: str) -> pd.DataFrame:
        return pd.DataFrame({"distribution": list("ABC")[: len(words)], column: words})

    rounds = frame("faster", "yes (3 of 5 seeds)", "undecided", "no")
    together, local = frame("same time", "yes", "no"), frame("answer", "no", "no", "not run")
    assert waffle.on_the_way(rounds, together, local) == (
        "On the way there WAFFLE is clearly faster than WE (the paper: on B and C alone) on A,"
        " undecided on B; both leave Alice alone at about the same time (one seed) on A; WAFFLE is"
        " mostly local after 70 to 90 % of the rounds on none."
    )
    quick = [frame(of, QUICK) for of in ("faster", "same time", "answer")]
    assert waffle.on_the_way(*quick) == ""


def test_speed_names_both_rounds_and_what_is_missing():
    rows = [
        {"distribution": "B", "target": 97.5, "WE": "30", "WAFFLE": "12", "faster": "yes"},
        {"distribution": "C", "target": np.nan, "WE": "not run", "WAFFLE": "ran", "faster": "?"},
    ]
    assert waffle.speed(pd.DataFrame(rows)) == (
        "On B WAFFLE reaches 97.5 % in round 12, WE in round 30; on C it is not known (a run is"
        " missing or diverged). WAFFLE is clearly faster on 1 of 2."
    )


def test_speed_counts_nothing_where_the_quick_profile_gives_no_answer():
    row = {"distribution": "B", "target": 97.5, "WE": "30", "WAFFLE": "12", "faster": QUICK}
    said = waffle.speed(pd.DataFrame([row]))
    assert said == "On B WAFFLE reaches 97.5 % in round 12, WE in round 30."


def test_claims_count_sentences_and_the_comparisons_behind_them():
    answers = pd.DataFrame({"here": ["yes (2 of 5 seeds)", "no", "undecided", "undecided"]})
    holds = ["yes", "yes", "no", "undecided"]
    behind = pd.DataFrame({"holds": holds, "paper": [0.5, 0.4, -1.0, 3.0]})
    assert waffle.claims(answers, behind) == (
        "Of 4 sentences about Table 1, 1 holds, 1 does not and 2 stay open; the 4 comparisons"
        " behind them: 2 yes, 1 no, 1 open (too close, too few seeds or not run). In 2 of them the"
        " paper's own difference is at most 0.4 points: runs that gave just its values would"
        " not confirm it by this rule."
    )
    level = behind.assign(**{"or level": ["", "yes", "yes", ""]})
    assert "In 0 of them the paper's own" in waffle.claims(answers, level)
    quick = pd.DataFrame({"here": ["no answer (quick profile)"]})
    assert waffle.claims(quick, behind).endswith("answers none of 1 sentences.")


def test_figure_1_counts_clients_above_level_and_below():
    def ends(we, fedavg):
        rows = [
            {"client": client, "method": method, "predicted rightly": value}
            for client, pair in enumerate(zip(we, fedavg, strict=True))
            for method, value in zip(("WE", "FedAvg"), pair, strict=True)
        ]
        return pd.DataFrame(rows)

    said = erosion.figure_1({"STRICT": ends([80, 70], [78, 70]), "SOME": ends([60, "?"], [61, 1])})
    told = "above FedAvg for 1, level for 1 and below for 1 of 3 cases, clients of 2 splits (+0.3"
    assert told in said


def test_penalties_leave_out_what_did_not_run():
    grid = pd.DataFrame(
        {
            "client": [0, 0, 0],
            "others": [0.5, 0.1, np.nan],
            "accuracy": [80.0, 82.0, np.nan],
            "status": ["ran", "ran", "not run"],
        }
    )
    said = erosion.penalties(grid)
    assert "falls from 0.50 to 0.10" in said and "between 80.0 and 82.0 %" in said
    assert erosion.penalties(grid.tail(1)).endswith("nothing was run.")


def test_claims_count_sentences_as_run_and_those_asked_done_right():
    answers = pd.DataFrame(
        {"as run": ["yes", "yes", "no"], "done right": ["the same", "no", "undecided"]}
    )
    assert erosion.claims(answers) == (
        "Of the paper's 3 sentences 2 hold as run by the authors; of the 2 about averages or"
        " accuracies 0 hold done right."
    )


def test_examples_say_whether_the_first_comes_out():
    first = pd.DataFrame({"loss": [9.0], "client 1": [0.2], "client 2": [0.4]})
    second = pd.DataFrame({"computed": [2.0], "formula": [2.0 + 1e-9]})
    third = pd.DataFrame({"client 1": [1.0, 1500.0]})
    said = erosion.examples(first, second, third)
    assert said.startswith("Example 1 comes out") and "1e-09" in said and "1,500" in said
    assert "does not come out" in erosion.examples(first + 1, second, third)
