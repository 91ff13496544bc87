"""What the tutorials and a paper's notebook invite one to change can be changed: edited, each runs
to its end, twice, and says that nothing was compared with recorded numbers.
"""

import contextlib
import re
from pathlib import Path

import nbformat
import pytest

from pfl_lib.pages import collect
from tests.pages.common import run_cells

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
CSV = "site,dose,sex,outcome\n" + "".join(
    f"{'abc'[k % 3]},{k * 7 % 11},{'mf'[k % 2]},{'yes' if k * 7 % 11 > 5 else 'no'}\n"
    for k in range(90)
)

# Parts that agree with each other are tried at once, and runs are short.
EDITS = {
    "01_quickstart.ipynb": {
        "rounds, partition, clients, clinics and the method's body": {
            ".make(waffle.MNIST)": ".make(waffle.MNIST).scheduled(rounds=2)",
            '"rounds": 10': '"rounds": 2',
            "Schedule(rounds=15": "Schedule(rounds=3",
            "import pandas as pd\n": "import pandas as pd\nfrom pfl_lib import partitions\n",
            '"partition": "C"': '"partition": partitions.Dirichlet(0.3), "clients": 5',
            "(60, 150), (150, 300), (300, 469)": "(60, 150), (150, 469)",
            "weights = weights / weights.sum()": "weights = weights**2 / (weights**2).sum()",
            '"Alice\'s way", 1\n': '"Alice\'s way", 2\n',
        }
    },
    "03_your_method.ipynb": {
        "rounds, label skew, clients, further methods and the method's body": {
            '"rounds": 15': '"rounds": 2',
            '"partition": "C"': '"partition": Dirichlet(0.1), "clients": 5',
            '"Local": "local"': '"Local": "local", "Ditto": "ditto"',
            ', "FedAvg"  # whose': ', "Local"  # whose',
            "** self.power": "** (1 + self.power)",
            '"Same direction", 1\n': '"Same direction", 2\n',
        },
    },
    "04_your_data.ipynb": {
        "one's own file": {
            'file = beside("patients.csv")': 'file = "mine.csv"',
            'label="recovered", split_by="age", bins=(20, 35)': 'label="outcome", split_by="site"',
        },
        "bins, model, methods and the partition's body": {
            "bins=(20, 35)": "bins=(25,)",
            "rounds=30": "rounds=5",
            "alice=2": "alice=1",
            "lambda: nn.Linear(*clients.input_shape, clients.classes)": (
                "lambda: nn.Sequential(nn.Linear(*clients.input_shape, 8), nn.ReLU(),"
                " nn.Linear(8, clients.classes))"
            ),
            '"Ditto": "ditto"': '"APFL": "apfl", "FedProx": "fedprox"',
            ".argsort()": ".argsort(descending=True)",
            "1, 5\n": "2, 4\n",
        },
    },
    "waffle/table1_accuracy.ipynb": {
        "rounds, distributions and methods": {
            "page.scaled(waffle.TABLE1)": (
                'page.scaled(waffle.TABLE1).only(["C"], ["FedAvg", "Local"]).scheduled(rounds=1)'
            ),
        },
    },
    "waffle/tuning.ipynb": {
        "rate, clients and partition": {
            "page.scaled(grid)": (
                'page.scaled(grid.only(["C"])).scheduled(lr=0.05, rounds=2).clients(20)'
                '.with_setting(partition="B")'
            )
        }
    },
}


def edited(name: str, edit: str) -> list:
    """The code cells after an edit, each part of which is found in them."""
    cells = nbformat.read(FOLDER / name, as_version=4).cells
    cells = [cell for cell in cells if cell.cell_type == "code"]
    for old, new in EDITS[name][edit].items():
        found = [cell for cell in cells if old in cell.source]
        assert found, f"{name}: {old!r} is not there any more"
        for cell in found:
            cell.source = cell.source.replace(old, new)
    return cells


@pytest.mark.parametrize(("name", "edit"), [(name, edit) for name in EDITS for edit in EDITS[name]])
def test_an_edited_notebook_ends_and_compares_nothing(name, edit, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PFL_RESULTS_DIR", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    for file in ("patients.csv", "same_direction.py"):
        (tmp_path / file).write_bytes((FOLDER / file).read_bytes())
    (tmp_path / "mine.csv").write_text(CSV)
    run_cells(edited(name, edit), times=2, jobs=1)
    told = capsys.readouterr().out
    assert "not compared with" in told and "as recorded" not in told


PAGES = sorted(FOLDER.glob("*/*.ipynb"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_a_page_suggests_to_edit_leaves_rows_to_run_in_the_profile_it_opens_with(path):
    prose = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown"]
    suggested = re.findall(r"`(table\.\w+\(.*?\))`", "\n".join(prose))
    namespace: dict = {"__name__": "__main__", "__annotations__": {}}
    token = collect.collecting.set(collect.Needed("quick"))
    try:
        for code, _ in collect._cells(path) if suggested else ():
            with contextlib.suppress(collect.Collected):
                exec(code, namespace)
        for one in suggested:
            namespace.setdefault("table", namespace.get("tables", [None])[0])
            made = eval(one, namespace)
            assert made.columns and any(row.at is not None for row in made.rows), one
    finally:
        collect.collecting.reset(token)
