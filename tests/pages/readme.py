"""Write the scorecard of the published results into the README: `make scorecard`."""

from pathlib import Path

from pfl_lib.pages.scores import update_readme
from pfl_lib.papers.scorecard import scorecard
from pfl_lib.results.store import Store

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    # A folder that does not exist: what is published alone, whatever is stored here.
    update_readme(ROOT, scorecard(Store(ROOT / "no results here")))
