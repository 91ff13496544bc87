"""What DP-SGD protects, as (epsilon, delta), by Opacus' Renyi accountant, which is the paper's.

An epsilon here is one client's, against the server and all other clients, for adding or removing
one of its training examples: "local" in the paper's word, since the client adds the noise before
anything leaves it.  Nothing else that leaves is counted: the numbers of training examples, and
what a method makes of validation examples, such as FedFomo's weights.
"""

import functools
import math

import pandas as pd

from pfl_lib.errors import BadInput, needs, number, whole


def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """The epsilon of so many local steps, each of which draws every example with chance `rate` and
    adds noise of `noise` times the clipping bound; infinite without noise, 0 without steps.

    Raises BadInput for a delta outside (0, 1), a rate above 1, and where Opacus is not installed.
    """
    number("noise", noise, "a number 0 or more", lambda v: 0 <= v < math.inf)
    number("sampling rate", rate, "a chance above 0 and at most 1", lambda v: 0 < v <= 1)
    whole("steps", steps, 0)
    number("delta", delta, "a number above 0 and below 1", lambda v: 0 < v < 1)
    if not steps:
        return 0.0
    if not noise:
        return math.inf
    with needs("epsilon is computed by Opacus", "opacus"):
        return _spent(float(noise), float(rate), int(steps), float(delta))


@functools.lru_cache(4096)  # it may take half a second, and clients and runs share their steps
def _spent(noise: float, rate: float, steps: int, delta: float) -> float:
    from opacus.accountants import RDPAccountant

    made = RDPAccountant()
    made.history = [(noise, rate, steps)]
    return float(made.get_epsilon(delta=delta))


def epsilons(result, delta: float) -> pd.Series:
    """The epsilon of each client whose model is read (`alice=None`: of all) after the last round of
    a `Result`, from its run's noise, the local steps that the client took (`private_steps`) and its
    sampling rate; a series by client (by name, where they have any).

    Raises BadInput for all but one run by DP-SGD with Poisson batches, evaluated in every round.
    """
    such = "such as run(..., private=DPSGD(noise=1.0, max_norm=1.0))"
    if not hasattr(result, "config"):
        raise BadInput(f"{type(result).__name__}: give the Result of one run, {such}")
    measured, schedule = result.metrics, result.config["schedule"]
    if result.diverged:  # nothing is recorded of that round, its steps neither
        raise BadInput(f"the run diverged in round {result.diverged}: give one that did not")
    if missing := [name for name in ("private_steps", "sampling_rate") if name not in measured]:
        told = f"metrics without {' and '.join(missing)}: give a run by DP-SGD with Poisson batches"
        raise BadInput(f"{told}, {such}")
    rounds = measured[measured["round"] > 0].groupby("client")["round"].nunique()  # 0: untrained
    if (rounds < schedule["rounds"]).any():
        raise BadInput("metrics of some rounds are missing: give a run evaluated in every round")
    noise = schedule["private"]["noise"]
    of_client = measured.groupby("client").agg({"private_steps": "sum", "sampling_rate": "first"})
    kinds = of_client.itertuples(index=False, name=None)
    spent = [epsilon(noise, rate, int(steps), delta) for steps, rate in kinds]
    return pd.Series(spent, of_client.index, name="epsilon").rename(index=result.client_names)
