"""A user's CSV file as the clients of a federation."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pfl_lib.data.source import Dataset
from pfl_lib.errors import BadInput, whole
from pfl_lib.federation.clients import Clients, from_partition
from pfl_lib.partitions import groups

MOST_WORDS = 50


def from_csv(
    path: str | os.PathLike,
    label: str,
    split_by: str,
    bins: Sequence[float] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    alice: int | None = None,
    seed: int = 0,
) -> Clients:
    """The rows of a CSV file as clients: `Federation(from_csv(...), model, schedule,
    alice=...)`.

    `label`: the column to predict, with exactly two different values; the higher one, or the later
    in the alphabet, is class 1. `split_by`: with `bins=(20, 35)` three clients hold the rows up to
    20, above 20 up to 35, and above 35, and rows without a value are a fourth; without bins each
    different value is a client, in ascending order.  `inputs`: the columns to predict from; by
    default all but the label, and but `split_by` where every client has but one value of it.
    Numbers are standardised and their gaps filled with the median; words become one column each
    (see `preprocessing.mixed`); both use all rows of the file.

    Rows are shuffled by `seed`.  As in Weight Erosion, `alice` is tested on half of her rows (the
    first 1 + n // 2) and trains on the rest, while the others train on all of theirs; give the
    federation the same `alice`.  With None every client's rows are halved.

    Raises `BadInput` for a file, a column, a label or a group that does not fit.
    """
    path = Path(path)
    if isinstance(inputs, str):
        raise BadInput(f"inputs {inputs!r}: give a list of columns, such as inputs=[{inputs!r}]")
    if label in (inputs or ()):
        raise BadInput(f"inputs {list(inputs)}: {label!r} is the label, which is to be predicted")
    whole("seed", seed)
    table = _read(path)
    for name in (label, split_by, *(inputs or ())):
        if name not in table:
            there = ", ".join(map(str, table.columns))
            raise BadInput(f"{path} lacks column {name!r}; it has {there}")
    labels = _two_classes(path, table, label)
    rows = _groups(path, table[split_by], bins, seed)
    if alice is not None and not (isinstance(alice, int) and 0 <= alice < len(rows)):
        raise BadInput(
            f"alice {alice!r} is not one of the clients 0 to {len(rows) - 1} that {split_by} makes"
        )
    left_out = {label} if bins is not None else {label, split_by}
    names = [name for name in table if name not in left_out] if inputs is None else list(inputs)
    x = torch.from_numpy(_inputs(path, table, names))
    y = torch.from_numpy(labels)
    dataset = Dataset(path.stem, x, y, x, y, 2, (0.0,), (1.0,), "")
    return from_partition(dataset, groups.hold_out(split_by, rows, alice))


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror or error}): give the path of a CSV file"
        ) from None
    except ValueError as error:  # pandas' errors of parsing and decoding are ValueErrors
        raise BadInput(
            f"{path} is no CSV file with a header line ({' '.join(str(error).split())})"
        ) from None
    if table.empty:
        raise BadInput(f"{path} has a header line but no rows")
    return table


def _two_classes(path: Path, table: pd.DataFrame, label: str) -> np.ndarray:
    column = table[label]
    if column.isna().any():
        raise BadInput(
            f"column {label!r} of {path} is empty in {int(column.isna().sum())} rows: every row"
            " needs a label"
        )
    values = sorted(column.unique())
    if len(values) != 2:
        some = ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")
        raise BadInput(
            f"column {label!r} of {path} has {len(values)} different"
            f" value{'' if len(values) == 1 else 's'} ({some}): a label has exactly two classes"
        )
    return (column == values[1]).to_numpy().astype(np.int64)


def _groups(
    path: Path, column: pd.Series, bins: Sequence[float] | None, seed: int
) -> list[groups.Rows]:
    if bins is None:
        if column.isna().any():
            raise BadInput(
                f"column {column.name!r} of {path} is empty in {int(column.isna().sum())} rows:"
                " whose are they?"
            )
        return groups.by_value(column.tolist(), seed)
    if not pd.api.types.is_numeric_dtype(column):
        raise BadInput(
            f"column {column.name!r} of {path} holds words, which bins cannot split: leave bins out"
        )
    bins = list(bins)
    if not bins or sorted(set(bins)) != bins:
        raise BadInput(f"bins {bins}: give one number or more, in ascending order")
    rows = groups.by_bins(column.to_numpy(dtype=float), bins, seed)
    where = [f"up to {bins[0]}", *(f"above {a} up to {b}" for a, b in itertools.pairwise(bins))]
    for words, group in zip([*where, f"above {bins[-1]}"], rows, strict=False):
        if not group:
            raise BadInput(f"no row of {path} has {column.name} {words}: choose other bins")
    return rows


def _inputs(path: Path, table: pd.DataFrame, names: list[str]) -> np.ndarray:
    try:
        from pfl_lib.data import preprocessing
    except ImportError:
        raise BadInput(
            "tables are prepared by scikit-learn, which is missing: pip install scikit-learn"
        ) from None
    for name in names:
        words = table[name].nunique()
        if not words:
            raise BadInput(f"column {name!r} of {path} is empty: leave it out of inputs")
        if pd.api.types.is_numeric_dtype(table[name]):
            continue
        if words == len(table) > 2:
            raise BadInput(
                f"column {name!r} of {path} holds another word in each row, from which nothing is"
                " learned: name the columns to use with inputs=[...]"
            )
        if words > MOST_WORDS:
            raise BadInput(
                f"column {name!r} of {path} holds {words} different words, at most {MOST_WORDS} can"
                " be an input: name the columns to use with inputs=[...]"
            )
    if not names:
        raise BadInput(
            f"{path} has no column to predict from: give it one beside the label, or name it with"
            " inputs=[...]"
        )
    return preprocessing.mixed(table[names]).fit_transform(table[names]).astype(np.float32)
