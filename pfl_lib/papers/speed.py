"""How fast methods learn: best accuracies so far, and which method reaches the same one first."""

import pandas as pd

from pfl_lib.papers.runs import Runs

BELOW = 0.4  # points under the lower of two final accuracies: what both methods reach
CLEARLY = 2  # rounds: an evaluation is noisy from round to round
ENOUGH = 3  # seeds
TARGET = "target, %"
APART = ("rounds apart", "two standard errors")


def best_so_far(frame: pd.DataFrame, client: int = 0) -> pd.DataFrame:
    """The rows of `Runs.frame` of one client from round 1 on, with a column `best`: its best
    accuracy up to each round.

    From the round at which the first seed of a method diverged, its rows are left out: a mean over
    the others would be another curve.
    """
    of = frame[(frame["client"] == client) & (frame["round"] > 0)]
    of = of.sort_values("round", kind="stable")
    of = of.assign(best=of.groupby("run")["accuracy"].cummax())
    ended = of.groupby(["dataset", "setting", "method"])["diverged"].transform("min")
    return of[ended.isna() | (of["round"] < ended)].sort_index()


def curves(frame: pd.DataFrame, values: str = "best") -> pd.DataFrame:
    """Means of a column over seeds: a row for each round, a column for each (setting, method)."""
    means = frame.groupby(["round", "setting", "method"], sort=False)[values].mean()
    return means.unstack(["setting", "method"]).sort_index()


def lead(runs: Runs, faster: str, slower: str) -> pd.DataFrame:
    """Whether one method reaches an accuracy before another does: a row for each setting that the
    tables run.

    Columns dataset, setting, "target, %" (0.4 points below the lower of the two final mean best
    accuracies), a column for each of the two methods (the round in which its mean best accuracy,
    over the seeds that both have, reaches the target), seeds (how many these are), rounds apart
    (how much earlier the faster is there on these seeds, each with its own target, on average), two
    standard errors (of this mean) and earlier ("yes", "no", or "open" where they are
    less than two rounds or two standard errors apart, on fewer than three seeds, and where one
    diverged or was not run).
    """
    frame = best_so_far(runs.frame)
    lines = []
    for (dataset, setting), values in runs.values.groupby(["dataset", "setting"], sort=False):
        here = frame[(frame["dataset"] == dataset) & (frame["setting"] == setting)]
        found = _lead(values, here, faster, slower)
        lines.append({"dataset": dataset, "setting": setting, **found})
    names = ["dataset", "setting", TARGET, slower, faster, "seeds", *APART, "earlier"]
    kinds = {slower: "Int64", faster: "Int64"} | dict.fromkeys(APART, float)
    return pd.DataFrame(lines, columns=names).astype(kinds)


def _lead(values: pd.DataFrame, frame: pd.DataFrame, faster: str, slower: str) -> dict[str, object]:
    """One setting's numbers; `values` and `frame`: its rows of `Runs.values` and `best_so_far`."""
    both = values[values["method"].isin([faster, slower])]
    by_seed = frame.pivot_table(index="round", columns=["method", "seed"], values="best")
    ran = [set(by_seed[name]) if name in by_seed else set() for name in (faster, slower)]
    seeds = sorted(ran[0] & ran[1])
    if not seeds or both["diverged"].notna().any():
        return {"seeds": len(seeds), "earlier": "open"}
    mean = pd.DataFrame({name: by_seed[name][seeds].mean(axis=1) for name in (faster, slower)})
    target = mean.iloc[-1].min() - BELOW
    reached = (mean >= target).idxmax()
    one, other = (by_seed[name][seeds] for name in (faster, slower))
    goals = pd.concat([one.iloc[-1], other.iloc[-1]], axis=1).min(axis=1) - BELOW
    apart = (other >= goals).idxmax() - (one >= goals).idxmax()
    rounds, errors, earlier = apart.mean(), 2 * apart.sem(), "open"
    if len(seeds) >= ENOUGH and abs(rounds) >= max(CLEARLY, errors):
        earlier = "yes" if rounds > 0 else "no"
    found = {TARGET: target, **reached, "seeds": len(seeds), "earlier": earlier}
    return found | dict(zip(APART, (rounds, errors), strict=True))
