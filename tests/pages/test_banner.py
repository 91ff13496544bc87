"""The banner of a page: one line of words, of which a telephone folds the longer part."""

import re

from pfl_lib.pages.banner import banner_line


def test_a_long_banner_can_fold_all_but_its_first_sentence_and_the_stored_runs():
    more = "The paper has 2.5 times as many. " + "Five epochs in place of ten. " * 4
    line = banner_line("small", f"Small: 3.4 < 5, seed 1. {more}Stored: 3 of 5 runs.")
    shown = re.sub(r"<label>.*?</label>", "", line)
    assert re.sub(r"<[^>]*>", "", shown).split() == (
        f"Small: 3.4 &lt; 5, seed 1. {more}Stored: 3 of 5 runs.".split()
    )
    (folded,) = re.findall(r'<span class="more">(.*?)</span>', line)
    assert folded.strip() == more.strip() and '<input type="checkbox">' in line
    for short in (
        "Paper: all images. Stored: 3 of 5 runs.",
        "Not run",
        "Failed: a.b is bad.\nWhy?",
    ):
        assert "<label>" not in banner_line("paper", short)
