"""Columns of any table to the inputs of a network; scikit-learn is imported where one is read."""

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


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
