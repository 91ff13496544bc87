"""The sentences that answer the pages: their numbers are those of the frames they are made from."""

import pandas as pd

from pfl_lib.papers.weight_erosion import sentences as erosion


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


def test_claims_count_sentences_as_run_and_those_asked_done_right():
    answers = pd.DataFrame(
        {"as run": ["yes", "yes", "no"], "done right": ["the same", "no", "undecided"]}
    )
    assert erosion.claims(answers) == (
        "Of the paper's 3 sentences 2 hold as run by the authors; of the 2 about averages or"
        " accuracies 0 hold done right."
    )
