"""Whom an average counts: aggregation weights [rounds, N] as shares, and when clients drop out."""

import numpy as np
import pandas as pd


def shares(weights: np.ndarray) -> np.ndarray:
    """Weights [..., N] as shares of each average: a row sums to 1, one without any weight to 0."""
    weights = np.asarray(weights, dtype=float)
    sums = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums != 0)


def vanishing(weights: np.ndarray) -> pd.Series:
    """For each client the round (from 1) from which its weight stays 0, NaN if it never does."""
    positive = np.asarray(weights) > 0
    rounds = len(positive)
    last = np.where(positive.any(axis=0), rounds - positive[::-1].argmax(axis=0), 0)
    gone = np.where(last < rounds, last + 1.0, np.nan)
    return pd.Series(gone, name="weight 0 from round").rename_axis("client")


def alone_from(weights: np.ndarray, alice: int = 0) -> float:
    """The round from which all weight stays on Alice, NaN if that never happens."""
    return float(vanishing(weights).drop(alice).max(skipna=False))
