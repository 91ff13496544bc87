"""Every page's run keys are those of `frozen.json`."""

import json

from tests.papers import freeze


def test_every_page_needs_the_runs_that_it_needed_and_published_results_are_found_by_their_keys():
    """After a change that is meant: `python tests/papers/freeze.py --write`."""
    assert freeze.keys() == json.loads(freeze.FROZEN.read_text(encoding="utf-8"))["keys"]
