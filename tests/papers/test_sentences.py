"""The papers' sentences over an edited table."""

from pfl_lib.papers import sentences, waffle
from pfl_lib.papers.runs import Runs


def test_over_rows_of_the_readers_own_a_sentence_is_not_run_and_has_no_printed_answer():
    edited = waffle.TABLE1.scaled(waffle.SMALL).scheduled(lr=0.05)
    found = sentences.answers(Runs((edited,), lambda spec: None), "waffle-table1")
    assert set(found["answer"]) == {"not run"}
    assert set(found["by the paper's numbers"]) == {"undecided"}
