"""Columns of a table to the inputs of a network; scikit-learn is imported where a table is read."""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

MINOR = 17  # "adult or minor (aged 16 or less)"


def titanic(as_run: bool) -> ColumnTransformer:
    """The Titanic's nine inputs, in the order of `titanic.TITANIC_INPUTS`, from pclass and embarked
    (0, 1, 2), sex (1 female), age, fare, sibsp and parch; nan is missing.

    Fare and age are standardised over all passengers, age before its gaps get the
    median; a missing port becomes the most frequent one, Southampton.  `as_run`: see
    `titanic.read_titanic`.
    """
    one_hot = OneHotEncoder(categories=[[0, 1, 2]], drop=[2], sparse_output=False)
    unknown = FunctionTransformer(_share_of_gaps) if as_run else SimpleImputer(strategy="mean")
    scaled = FunctionTransformer(_standardised)
    steps = [
        ("fare", scaled, ["fare"]),
        ("sex", "passthrough", ["sex"]),
        ("embarked", make_pipeline(SimpleImputer(strategy="most_frequent"), one_hot), ["embarked"]),
        ("alone", FunctionTransformer(_alone), ["sibsp", "parch"]),
        ("pclass", one_hot, ["pclass"]),
        ("age", make_pipeline(scaled, SimpleImputer(strategy="median")), ["age"]),
        ("minor", make_pipeline(FunctionTransformer(_minor), unknown), ["age"]),
    ]
    return ColumnTransformer(steps)


def mixed(table: pd.DataFrame) -> ColumnTransformer:
    """Inputs from any table: numbers standardised, gaps filled with the median; words one-hot, gaps
    with the most frequent.

    Of a word with k values k - 1 columns are made: the first, in alphabetical order, is where all
    of them are 0.
    """
    numbers = list(table.select_dtypes(["number", "bool"]))
    words = [name for name in table if name not in numbers]
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    word = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first", sparse_output=False)
    )
    return ColumnTransformer([("numbers", number, numbers), ("words", word, words)])


def _standardised(column: pd.DataFrame) -> np.ndarray:
    """(x - mean) / std over the known values, with the sample standard deviation, as pandas and the
    authors have it; scikit-learn's StandardScaler divides by n instead of n - 1.
    """
    x = column.to_numpy(dtype=float)
    return (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)


def _share_of_gaps(x: np.ndarray) -> np.ndarray:
    gaps = np.isnan(x)
    return np.where(gaps, gaps.mean(), x)


def _alone(relatives: pd.DataFrame) -> np.ndarray:
    return (relatives.to_numpy().sum(axis=1, keepdims=True) == 0).astype(float)


def _minor(age: pd.DataFrame) -> np.ndarray:
    age = age.to_numpy()
    return np.where(np.isnan(age), np.nan, age < MINOR)
