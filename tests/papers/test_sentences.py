"""The papers' sentences, over an edited table and by the paper's own numbers."""

from pfl_lib.papers import fedfomo, sentences, waffle
from pfl_lib.papers.runs import Runs


def test_over_rows_of_the_readers_own_a_sentence_is_not_run_and_has_no_printed_answer():
    edited = waffle.TABLE1.scaled(waffle.SMALL).scheduled(lr=0.05)
    found = sentences.answers(Runs((edited,), lambda spec: None), "waffle-table1")
    assert set(found["answer"]) == {"not run"}
    assert set(found["by the paper's numbers"]) == {"undecided"}


def test_by_the_papers_own_table_2_mocha_is_ahead_of_fedfomo_on_two_distributions():
    """83.79 against 77.82 and 79.59: the sentence about MOCHA and LG-FedAvg does not hold there."""
    table = fedfomo.TABLE2.scaled(fedfomo.profiles(fedfomo.TABLE2)["paper"])
    told = sentences.answers(Runs((table,), lambda spec: None), "fedfomo-table2")
    words = dict(zip(told["quote"].str[:30], told["by the paper's numbers"], strict=True))
    assert words["FedFomo also outperforms perso"] == "no"
    assert words["[FedFomo] outperforms both [lo"] == "yes"
    assert words["[in the most extreme non-IID c"] == "yes"
