"""What moving code must not change: every page's runs by key, and our numbers beside the papers'.

`python tests/papers/freeze.py --write` records them in `frozen.json`; without it, what differs from
the record is printed, and the exit status is 1.
"""

import json
import sys
from pathlib import Path

from pfl_lib.pages.registry import pages
from pfl_lib.papers import PRINTED, PROFILES, compare
from pfl_lib.papers.runs import Runs
from pfl_lib.results.store import Store

FROZEN = Path(__file__).with_name("frozen.json")
NUMBERS = ["printed", "printed std", "ours", "ours std", "last"]


def keys() -> dict[str, list[str]]:
    """Each page's run keys in each profile, their first twelve digits."""
    return {
        f"{id} {profile}": sorted(run.key[:12] for run in page.needed(profile).specs)
        for id, page in pages().items()
        for profile in PROFILES
    }


def numbers() -> dict[str, list]:
    """Each printed value of which a run is stored: the paper's numbers and ours, six digits."""
    store, told = Store("/nowhere"), {}
    for _, table, profiles in PRINTED:
        for profile in ("small", "paper"):
            compared = compare.beside(Runs((table.scaled(profiles[profile]),), store.find))
            for row in compared[compared["seeds"] > 0].to_dict("records"):
                place = (row[name] for name in ("dataset", "setting", "method", "metric"))
                name = " | ".join([table.paper, table.name, profile, *place])
                told[name] = [f"{row[one]:.6g}" for one in NUMBERS] + [row["seeds"]]
    return told


def main() -> int:
    found = {"keys": keys(), "numbers": numbers()}
    if "--write" in sys.argv:
        FROZEN.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    frozen = json.loads(FROZEN.read_text())
    apart = [
        f"{what} of {name}: {frozen[what].get(name)} became {found[what].get(name)}"[:300]
        for what in frozen
        for name in sorted(frozen[what].keys() | found[what].keys())
        if frozen[what].get(name) != found[what].get(name)
    ]
    print(
        "\n".join(apart)
        or f"{len(frozen['keys'])} lists of keys and {len(frozen['numbers'])} values as frozen"
    )
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
