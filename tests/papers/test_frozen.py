"""Every page's run keys are those of `frozen.json`."""

import json
import runpy
from pathlib import Path

FREEZE = runpy.run_path(str(Path(__file__).with_name("freeze.py")))
FROZEN = json.loads(FREEZE["FROZEN"].read_text(encoding="utf-8"))


def test_every_page_needs_the_runs_that_it_needed_and_published_results_are_found_by_their_keys():
    """After a change that is meant: `python tests/papers/freeze.py --write`."""
    assert FREEZE["keys"]() == FROZEN["keys"]
