"""A user's CSV file as the clients of a federation."""

import functools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, check_alice, needs, path_of, whole
from pfl_lib.federation.clients import Clients, from_partition
from pfl_lib.partitions import ByColumn, by_column
from pfl_lib.partitions.validation import check_share, hold_out_validation
from pfl_lib.progress import tell

MOST_WORDS, MOST_TOLD = 50, 12
LARGEST = 1e150  # whose square is a float
PLAIN = {"keep_default_na": False, "skipinitialspace": True}
MISSING = ("", *"NA N/A n/a #N/A #NA <NA> NaN nan -NaN -nan NULL null - -- ? . *".split())
"""Marks of a missing value; "None", which pandas takes for one, is an answer as well."""
OTHER_NUMBER = (
    r"[-+\u2212]?[$€£¥]? ?[-+\u2212]?\d+(,\d+|([,.'\u00a0]\d{3})+([.,]\d+)?|[.,]\d+)? ?[%$€£¥]?"
)
"""Such as 1,5 and 1,000.50 and 5% and 1.000,50 and $12 and 12 €, with any minus."""


def from_csv(
    path: str | os.PathLike,
    label: str,
    split_by: str,
    bins: Sequence[float] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    alice: int | str | None = None,
    validation: float = 0.0,
    seed: int = 0,
) -> Clients:
    """The rows of a CSV file as clients: `Federation(from_csv(...), model, schedule, alice=...)`.

    `label`: the column to predict; its different values, in ascending or alphabetical order, are
    the classes 0, 1, ... `split_by`: with `bins=(20, 35)` three clients hold the rows up to
    20, above 20 up to 35, and above 35, and rows without a value are a fourth; without bins each
    different value is a client, in ascending order.  These are the clients' names.  `inputs`: the
    columns to predict from; by default all but the label, and without `bins` but `split_by`, of
    which a client has one value.  A first column without a name that counts the rows is left out.
    Numbers are standardised and their gaps filled with the median; words become one column each but
    for the first in alphabetical order, their gaps the most frequent one; both use all rows of the
    file.  A line on standard error says, once for each file, what every column became, and who the
    clients and which the classes are.

    Rows are shuffled by `seed`.  As in Weight Erosion, `alice` is tested on half of her rows (the
    first 1 + n // 2) and trains on the rest, while the others train on all of theirs; give the
    federation the same `alice`.  With None every client's rows are halved.  `validation`: the share
    of each client's training rows that is held out to validate on, as FedFomo needs.

    Raises `BadInput` for a file, a column, a label or a group that does not fit.
    """
    if isinstance(path, pd.DataFrame):
        cure = "write it by its to_csv(path, index=False) and give that path"
        raise BadInput(f"path is a DataFrame: {cure}")
    path = path_of("path", path)
    asked = inputs if isinstance(inputs, list | tuple) else ()
    names = [name.strip() for name in asked if isinstance(name, str)]
    if inputs is not None and not (asked and len({*names}) == len(inputs)):
        such = [inputs] if isinstance(inputs, str) else ["age", "weight"]
        raise BadInput(f"inputs {inputs!r}: give a list of columns, each once, such as {such}")
    for name, column in (("label", label), ("split_by", split_by)):
        if not isinstance(column, str):
            raise BadInput(f"{name} {column!r}: give the name of a column")
    label, split_by = label.strip(), split_by.strip()
    if label in names:
        raise BadInput(f"inputs {list(inputs)}: {label!r} is the label, which is to be predicted")
    if label == split_by and bins is None:
        raise BadInput(f"split_by {split_by!r} is the label: each client would have one class")
    whole("seed", seed, 0)
    check_share(validation)
    table = _read(path)
    for name in (label, split_by, *names):
        if name not in table:
            there = ", ".join(map(str, table.columns))
            raise BadInput(f"{path} lacks column {name!r}; it has {there}")
    for name in {label, split_by} if bins is None else {label}:
        table[name] = _identifiers(path, table[name])
    labels, classes = _classes(path, table, label)
    if pd.api.types.is_float_dtype(table[label]) and (table[label] % 1).any():
        tell(f"{label} holds fractions, a measurement? Its {len(classes)} values are the classes")
    clients, rows = _groups(path, table[split_by], bins, seed)
    called = tuple(map(str, clients))
    if len({name.casefold() for name in called}) < len(called):
        tell(f"clients by {split_by} differ in case alone: {_numbered(called)}")
    alice = check_alice(alice, len(rows), called)
    left_out = {label} if bins is not None else {label, split_by}
    names = names or [name for name in table if name not in left_out]
    _check_inputs(path, table, names)
    fitted = _fitted(table[names])
    x = torch.from_numpy(fitted.transform(table[names]).astype(np.float32))
    if not np.ptp(x.numpy(), axis=0).any():
        raise BadInput(f"{path}: each input ({', '.join(names)}) has one value in all rows")
    counted = [f"{name} ({n} rows)" for name, n in zip(classes, np.bincount(labels), strict=True)]
    tell(
        f"{path.name}, {len(table)} rows; inputs are {_became(table[names])}; clients by"
        f" {split_by}: {_numbered(clients)}; classes of {label}: {_numbered(counted)}"
    )
    y = torch.from_numpy(labels)
    dataset = Dataset(path.stem, x, y, x, y, len(classes), (0.0,), (1.0,), "")
    made = by_column.hold_out(split_by, rows, alice, called)
    made = hold_out_validation(made, validation, seed) if validation else made
    prepare = functools.partial(_prepared, fitted, names)
    told = {"class_names": tuple(map(str, classes)), "prepare": prepare}
    return replace(from_partition(dataset, made), names=called, **told)


def _read(path: Path) -> pd.DataFrame:
    try:
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, **PLAIN).iloc[0].str.strip()
        for mark, name in ((";", "semicolons"), ("\t", "tabs")):
            if all(mark in cell for cell in header):
                raise BadInput(f"{path} has {name} between its cells: write commas")
        if (twice := header[header.duplicated() & (header != "")]).any():
            raise BadInput(f"{path} has two columns {twice.iloc[0]!r}: give each a name of its own")
        # Whole columns at once: numbers and words in one column are words.
        table = pd.read_csv(path, na_values=list(MISSING), low_memory=False, **PLAIN)
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # pandas' errors of parsing and of UTF-8 are ValueErrors
        why = " ".join(str(error).split())
        told = f"{path} cannot be read as a CSV file in UTF-8 with a header line ({why})"
        raise BadInput(told) from None
    if not isinstance(table.index, pd.RangeIndex):
        raise BadInput(f"{path} has rows of more cells than its header line names: mend it")
    if table.empty:
        raise BadInput(f"{path} has a header line but no rows")
    numbers = table.iloc[:, 0].tolist()
    if not header.iloc[0] and numbers in ([*range(len(table))], [*range(1, len(table) + 1)]):
        table = table.iloc[:, 1:]  # to_csv writes row numbers there
    table.columns = table.columns.str.strip()
    return table.apply(_without_blanks)


def _identifiers(path: Path, column: pd.Series) -> pd.Series:
    """The column as texts where one of its cells begins with zeros, as "007": another than "7"; and
    where it holds whole numbers of more digits than fractions have.
    """
    its = {"usecols": lambda name: name.strip() == column.name, "dtype": str}
    text = pd.read_csv(path, **its, **PLAIN).iloc[:, 0].str.strip()
    long = pd.api.types.is_float_dtype(column) and text.str.fullmatch(r"[-+]?\d{16,}").any()
    found = long or text.str.fullmatch(r"0\d+").any()
    return text.mask(text.isin(MISSING)) if found else column


def _without_blanks(column: pd.Series) -> pd.Series:
    """The column without blanks around its words; numbers, where nothing else is left of it."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    words = column.map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
    words = words.mask(words.isin(MISSING))
    numbers = pd.to_numeric(words, errors="coerce")
    return words if (numbers.isna() & words.notna()).any() else numbers


def _classes(path: Path, table: pd.DataFrame, label: str) -> tuple[np.ndarray, list]:
    """Each row's class, and what the classes are."""
    column, where = table[label], f"column {label!r} of {path}"
    if gaps := int(column.isna().sum()):
        raise BadInput(f"{where} is empty in {gaps} rows: every row needs a label")
    values = sorted(column.unique())
    if not 2 <= len(values) <= MOST_WORDS:
        some = ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")
        different = f"{len(values)} different value{'' if len(values) == 1 else 's'} ({some})"
        raise BadInput(f"{where} has {different}: a label has 2 to {MOST_WORDS} classes")
    return np.searchsorted(values, column.to_numpy()).astype(np.int64), values


def _groups(
    path: Path, column: pd.Series, bins: Sequence[float] | None, seed: int
) -> tuple[list, list[by_column.Rows]]:
    """What makes a row each client's, and the clients' rows."""
    where, numeric = f"column {column.name!r} of {path}", pd.api.types.is_numeric_dtype(column)
    if bins is None:
        if gaps := int(column.isna().sum()):
            raise BadInput(f"{where} is empty in {gaps} rows: whose are they? fill or drop them")
        if column.nunique() > MOST_WORDS and numeric:
            found = f"{column.nunique()} different numbers, each a client"
            raise BadInput(f"{where} has {found}: group them with bins=(..., ...)")
        return sorted(column.unique()), by_column.by_value(column.tolist(), seed)
    if not numeric:
        raise BadInput(f"{where} holds words, which bins cannot split: leave bins out")
    bins = ByColumn(column.name, bins).bins
    _check_finite(where, column)
    rows = by_column.by_bins(column.to_numpy(dtype=float), bins, seed)
    clients = [*by_column.names(bins), "unknown"][: len(rows)]
    for words, group in zip(clients, rows, strict=True):
        if not group:
            raise BadInput(f"no row of {path} has {column.name} {words}: choose other bins")
    return clients, rows


def _check_inputs(path: Path, table: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        words, where = table[name].nunique(), f"column {name!r} of {path}"
        if not words:
            raise BadInput(f"{where} is empty: leave it out of inputs")
        if pd.api.types.is_numeric_dtype(table[name]):
            _check_finite(where, table[name])
            if (largest := table[name].abs().max()) > LARGEST:
                what = f"{largest:g}, too large to be standardised"
                raise BadInput(f"{where} holds {what}: mend it or leave it empty")
            continue
        known = table[name].dropna()
        no_numbers = known[pd.to_numeric(known, errors="coerce").isna()]
        if 0 < len(no_numbers) < len(known) / 2:
            told = f"{where} holds numbers but for {len(no_numbers)} rows"
            raise BadInput(f"{told}, such as {no_numbers.iloc[0]!r}: mend them or leave them empty")
        odd = no_numbers[no_numbers.astype(str).str.fullmatch(OTHER_NUMBER)]
        if len(odd) > len(known) / 2:
            told = f"{where} holds numbers with a comma or a sign, such as {odd.iloc[0]!r}"
            raise BadInput(f"{told}, which would count as words: write digits and a point alone")
        if words == len(table) > 2 or words > MOST_WORDS:
            told = f"{where} holds {words} different words in {len(table)} rows"
            most = f"at most {MOST_WORDS}, and not another in each row, can be an input"
            raise BadInput(f"{told}; {most}: name the columns to use with inputs=[...]")
    if not names:
        raise BadInput(f"{path} has no column to predict from: give one, or inputs=[...]")


def _prepared(fitted, names: list[str], rows: str | os.PathLike | pd.DataFrame) -> torch.Tensor:
    """Rows of a frame, or of another file, as the network takes them, float32 [n, inputs]; BadInput
    for a column that is missing, or holds what the first file's does not.
    """
    if isinstance(rows, pd.DataFrame):
        rows = rows.rename(columns=lambda name: str(name).strip()).apply(_without_blanks)
    else:
        rows = _read(path_of("rows", rows))
    if lacking := [name for name in names if name not in rows]:
        raise BadInput(f"the rows lack column {lacking[0]!r}: give {', '.join(names)}")
    if rows[names].shape[1] > len(names):
        raise BadInput(f"the rows have a column twice: give each of {', '.join(names)} once")
    (_, _, numbers), (_, words, of_words), *_ = fitted.transformers_
    for name in numbers:
        of = pd.to_numeric(rows[name], errors="coerce")
        if len(odd := rows[name][of.isna()].dropna()):
            raise BadInput(f"column {name!r} of the rows holds {odd.iloc[0]!r}: give numbers")
        _check_finite(f"column {name!r} of the rows", of)
    for name, known in zip(of_words, words[-1].categories_ if of_words else (), strict=True):
        rows[name] = of = rows[name].astype(object).map(str, na_action="ignore")
        if len(odd := of[~of.isin(known)].dropna()):
            told = f"column {name!r} of the rows holds {odd.iloc[0]!r}, unknown to the first file"
            raise BadInput(f"{told}: give {', '.join(map(str, known))}")
    try:
        return torch.from_numpy(fitted.transform(rows[names]).astype(np.float32))
    except ValueError as error:
        raise BadInput(f"the rows are not like the file's: {error}") from None


def _fitted(table: pd.DataFrame):
    """What prepares columns: numbers standardised, gaps filled with the median; words one-hot, gaps
    with the most frequent.  The first of a word's values, in alphabetical order, is where all
    columns are 0.
    """
    with needs("tables are prepared by scikit-learn", "scikit-learn"):
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler
    numbers = list(table.select_dtypes(["number", "bool"]))
    words = [name for name in table if name not in numbers]
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    one_hot = OneHotEncoder(drop="first", sparse_output=False)
    word = make_pipeline(SimpleImputer(strategy="most_frequent"), one_hot)
    return ColumnTransformer([("numbers", number, numbers), ("words", word, words)]).fit(table)


def _check_finite(where: str, column: pd.Series) -> None:
    if np.isinf(column.to_numpy(dtype=float)).any():
        raise BadInput(f"{where} holds an infinite number: mend it or leave it empty")


def _became(table: pd.DataFrame) -> str:
    """What each column became, in a line; a mark at whole numbers that differ in every row."""
    told = []
    for name in table:
        column, gaps = table[name], int(table[name].isna().sum())
        words = f"{name}: {column.nunique()} words"
        if pd.api.types.is_numeric_dtype(column):
            words = f"{name}: a number"
            if pd.api.types.is_integer_dtype(column) and column.is_unique and len(column) > 2:
                words += " (another in each row: an identifier? leave it out with inputs=[...])"
        told.append(words + (f" ({gaps} missing)" if gaps else ""))
    return "; ".join(told)


def _numbered(names: Sequence) -> str:
    """ "0 north, 1 south", the first of them."""
    told = [f"{k} {name}" for k, name in enumerate(names[:MOST_TOLD])]
    return ", ".join([*told, "..."] if len(names) > MOST_TOLD else told)
