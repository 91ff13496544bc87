"""The Titanic's passengers, checked by content: a result's key says what it was computed from."""

import hashlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfl_lib.data.source import Arrays
from pfl_lib.errors import BadInput, needs

TITANIC_FILES = ("titanic_tfds_1309.csv", "titanic3.csv")
TITANIC_COLUMNS = ("pclass", "sex", "age", "sibsp", "parch", "fare", "embarked", "survived")
TITANIC_CONTENT = "af9a5e18681f0968"
FIGURE_2 = (  # its words
    "Fare, Sex (1: female), Cherbourg, Queenstown, Travelling alone, First Class, Second Class,"
    " Age (standardized), Passenger is minor"
)
TITANIC_INPUTS = tuple(FIGURE_2.split(", "))
MINOR = 17  # "adult or minor (aged 16 or less)"


def read_titanic(root: Path, as_run: bool) -> Arrays:
    """The Titanic's 1,309 passengers, inputs [1309, 9] and labels (1: survived), as both pools.

    `<root>/titanic/` holds `titanic_tfds_1309.csv`, which has the rows in the order of the authors'
    runs, or `titanic3.csv` (the published table, OpenML's 40945).  Both hold the same passengers
    and are brought into the authors' order, of which their splits by age are made.

    They are prepared as in the authors' Titanic-preprocessing.ipynb: see `prepared`.
    """
    table = titanic_table(root)
    labels = torch.from_numpy(table["survived"].to_numpy().astype(np.int64))
    inputs = torch.from_numpy(prepared(table, as_run).to_numpy(dtype=np.float32)).contiguous()
    return inputs, labels, inputs, labels


def prepared(table: pd.DataFrame, as_run: bool) -> pd.DataFrame:
    """The columns `TITANIC_INPUTS` of a `titanic_table`.

    Fare and age are standardised over all passengers, age before its gaps get the median; the one
    missing fare stays -1, and counts in the mean.  A missing port becomes the most frequent one,
    Southampton.  Where the age is unknown, "minor" is the fraction of minors among the known ages;
    with `as_run` it is 0.2009, the fraction of unknown ages, by a slip of the authors' code.
    """
    fare, age, port, pclass = (table[name] for name in ("fare", "age", "embarked", "pclass"))
    scaled_age = (age - age.mean()) / age.std()  # pandas and the authors divide by n - 1
    minor = (age < MINOR).where(age.notna()).astype(float)
    columns = (
        (fare - fare.mean()) / fare.std(),
        table["sex"],
        *(port.fillna(port.mode()[0]) == code for code in (0, 1)),
        table["sibsp"] + table["parch"] == 0,
        *(pclass == code for code in (0, 1)),
        scaled_age.fillna(scaled_age.median()),
        minor.fillna(age.isna().mean() if as_run else minor.mean()),
    )
    return pd.DataFrame(dict(zip(TITANIC_INPUTS, columns, strict=True))).astype(float)


def titanic_age(root: Path) -> dict[str, Tensor]:
    """The column that splits the passengers: {"age": float64 [1309] in years, or nan}."""
    return {"age": torch.tensor(titanic_table(root)["age"].to_numpy())}


def titanic_table(root: Path) -> pd.DataFrame:
    """The passengers in the authors' order, as numbers; a missing age or port nan, fare -1."""
    path = next(path for name in TITANIC_FILES if (path := root / "titanic" / name).is_file())
    try:
        raw = pd.read_csv(path)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        why = " ".join(str(error).split())
        raise BadInput(f"{path} cannot be read ({why}): replace it by an intact copy") from None
    for name in TITANIC_COLUMNS:
        if name not in raw:
            raise BadInput(f"{path} lacks column {name!r}; it needs {', '.join(TITANIC_COLUMNS)}")
    coded = _coded(raw)
    # Values have at most four decimals: whole ten-thousandths are the same whatever wrote the file.
    exact = (coded.fillna(-9).to_numpy(dtype=float) * 10_000).round().astype("<i8")
    order = np.lexsort(exact.T)
    content = hashlib.sha256(exact[order].tobytes()).hexdigest()[:16]
    if content != TITANIC_CONTENT:
        raise BadInput(
            f"{path} is damaged or altered: {len(raw):,} passengers with fingerprint {content},"
            f" expected 1,309 with {TITANIC_CONTENT}; replace it by an intact copy"
        )
    # The place among the sorted rows of each of the authors' rows, in TensorFlow Datasets' order
    with files("pfl_lib.data").joinpath("titanic_order.csv").open(encoding="utf-8") as file:
        places = pd.read_csv(file)["row"].to_numpy()
    return coded.iloc[order[places]].reset_index(drop=True)


def download_titanic(root: Path) -> None:
    """Write OpenML's table 40945 to `<root>/titanic/titanic3.csv`, with scikit-learn."""
    with needs("the Titanic is downloaded by scikit-learn", "scikit-learn"):
        from sklearn.datasets import fetch_openml
    home = str(root / "openml")
    frame = fetch_openml(data_id=40945, as_frame=True, parser="auto", data_home=home).frame
    (root / "titanic").mkdir(parents=True, exist_ok=True)
    frame[list(TITANIC_COLUMNS)].to_csv(root / "titanic" / "titanic3.csv", index=False)


def _coded(raw: pd.DataFrame) -> pd.DataFrame:
    """Either file as the authors code it: pclass 0 to 2, sex 1 for female, ports C, Q, S 0 to 2."""
    table = raw[list(TITANIC_COLUMNS)].copy()
    if not pd.api.types.is_numeric_dtype(table["sex"]):
        table["pclass"] = pd.to_numeric(table["pclass"], errors="coerce") - 1
        table["sex"] = table["sex"].map({"male": 0, "female": 1})
        table["embarked"] = table["embarked"].map({"C": 0, "Q": 1, "S": 2})
    table = table.apply(pd.to_numeric, errors="coerce").astype(float)
    table["fare"] = table["fare"].fillna(-1)
    table["age"] = table["age"].where(table["age"] >= 0)
    table["embarked"] = table["embarked"].where(table["embarked"] <= 2)
    return table
