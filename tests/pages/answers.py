"""Collect what pages answer of the papers' sentences: `answers.py FOLDER` of executed notebooks
(`reports/build/executed`) writes `pfl_lib/papers/answers.csv`; with `--check` it says what differs
from it, and the exit status is 1.
"""

import csv
import json
import sys
from pathlib import Path

from pfl_lib.pages.page import ANSWER
from pfl_lib.pages.registry import pages
from pfl_lib.papers.scorecard import COLUMNS

FACTS = ("answer", "profile", "evidence")
FILE = Path(__file__).resolve().parents[2] / "pfl_lib" / "papers" / "answers.csv"


def collected(folder: Path) -> list[dict[str, str]]:
    """The answers of the executed notebooks below a folder, those of the exact setting before
    those of smaller runs.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for profile in ("paper", "small"):
        for path in sorted((folder / profile).glob("*.ipynb")):
            for told in _answers(path):
                if told["page"] != path.stem:  # a reader's copy of the page's notebook
                    continue
                paper = pages()[told["page"]].paper
                line = {name: told.get(name, "") for name in COLUMNS} | {"paper": paper}
                found.setdefault((told["page"], told["quote"]), line)
    order = list(pages())
    return sorted(found.values(), key=lambda line: order.index(line["page"]))


def _answers(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [output["data"][ANSWER] for output in outputs if ANSWER in output.get("data", {})]


def main() -> int:
    check, (folder,) = "--check" in sys.argv, [one for one in sys.argv[1:] if one != "--check"]
    found = collected(Path(folder))
    if not check:
        with FILE.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows(found)
        return 0
    known = list(csv.DictReader(FILE.open(encoding="utf-8", newline="")))
    now, before = (
        {(line["page"], line["quote"]): [line[name] for name in FACTS] for line in lines}
        for lines in (found, known)
    )
    apart = [place for place in now.keys() | before.keys() if now.get(place) != before.get(place)]
    for place in sorted(apart):
        print(f"{place}: {before.get(place)} became {now.get(place)}")
    print(f"{len(now)} answers of pages, {len(apart)} differ from {FILE.name}: make scorecard")
    return 1 if apart or not now else 0


if __name__ == "__main__":
    sys.exit(main())
