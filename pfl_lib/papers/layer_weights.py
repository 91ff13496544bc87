"""What pFedLA's weights say of clients and layers, and what layers kept at home save.

The paper prints no numbers for its figures.  A sentence about weights holds where every weight that
should be larger is so by more than `FLOOR`, and does not where one is smaller by more.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from pfl_lib.engine.layout import Layout
from pfl_lib.errors import BadInput
from pfl_lib.models import build
from pfl_lib.papers.runs import IN_TABLE, Planned, Runs
from pfl_lib.results.result import Result

FLOOR = 0.01  # of a client's weight: the smallest difference between weights that answers
EQUAL = 1e-6  # weights are kept in single precision: closer ones are the same
CLASSES = 10  # of EMNIST too, by the size of its retained classifier, 84 x 10 + 10
ROUNDS = 600
SLIP = 8
"""The printed megabytes are an eighth of what 600 rounds of ten clients send at 4 bytes a number:
3,000 bytes for each parameter of one model up and one down.  Bits and bytes seem to be mixed up.
"""


def layers_of(model: str) -> list[str]:
    """The names of a network's layers, in the order of its weights [L, N, N]."""
    shape = (1, 28, 28) if model.startswith("lenet5") else (3, 32, 32)
    return [layer.name for layer in Layout.of(build(model, shape, CLASSES)).layers]


def by_layer(runs: Runs) -> pd.DataFrame:
    """The weights of every stored run that did not diverge and has them by client: a row for each
    layer, kept round and pair of clients.  BadInput where no run does.

    Columns dataset, setting, method, step (the hypernetwork's; NaN of other methods), place (these
    in words, and the data that are run in place of the paper's), seed, layer, norm (whether it is
    one: the paper counts norms to no layer), round, client, source and weight: how much of the
    source's layer the client is given.
    """
    of_pair = ["layer", "norm", "round", "client", "source", "weight"]
    columns = [*IN_TABLE, "step", "place", "seed", *of_pair]
    frames = []
    for run in runs.planned:
        result = runs.find(run.spec)
        if result is None or result.diverged is not None or np.ndim(result.weights) < 3:
            continue
        weights, layers = np.float64(result.weights), layers_of(run.spec.model)
        if weights.ndim == 3:  # whole models: the same weights in all layers
            weights = np.repeat(weights[:, None], len(layers), axis=1)
        clients = range(weights.shape[-1])
        axes = {"layer": layers, "round": result.weights_rounds}
        axes |= {"client": clients, "source": clients}
        frame = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
        frame["weight"] = weights.swapaxes(0, 1).ravel()
        step = getattr(run.spec.method, "step", np.nan)
        frame = frame.assign(**run.place, step=step, place=place_of(run), seed=run.spec.seed)
        frames.append(frame.assign(norm=frame["layer"].str.startswith("norm"))[columns])
    if not frames:
        raise BadInput("no run of this page has weights by client: lower lr if they diverged")
    return pd.concat(frames, ignore_index=True)


def place_of(run: Planned) -> str:
    """A run's data set, method (where its table has several) and step, in words."""
    ours = run.spec.dataset
    same = ours.replace("_", "") == run.row.dataset.lower()
    data = run.row.dataset + ("" if same else f" (run on {ours})")
    method = "" if len(run.table.columns) == 1 else f", {run.column.name}"
    step = getattr(run.spec.method, "step", None)
    return data + method + ("" if step is None else f", step {step:.3g}")


def larger(leads: Iterable[float]) -> bool | None:
    """True if all leads are above `FLOOR`, False if one is as far below zero, else None."""
    leads = list(leads)
    if any(lead < -FLOOR for lead in leads):
        return False
    return True if leads and all(lead > FLOOR for lead in leads) else None


def printed_megabytes(result: Result, protocol: str, over: str, model: str) -> float:
    """What a run sent, as the paper counts it: by round, times 600, divided by its slip of 8."""
    rounds = result.config["schedule"]["rounds"]
    return result.value("bytes") / rounds * ROUNDS / SLIP / 2**20
