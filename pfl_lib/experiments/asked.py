"""A method, asked for its first state, a round and the model that it serves.

BadInput, in one line, where it gives what a run could not go on with.
"""

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from pfl_lib.errors import BadInput
from pfl_lib.experiments.own import named
from pfl_lib.experiments.spec import built_in
from pfl_lib.federation.federation import Federation
from pfl_lib.methods import Method
from pfl_lib.randomness import seeded
from pfl_lib.rows import Rows, model


def refuse(method: Method, part: str, given: str, wanted: str) -> NoReturn:
    """Tell what a part of a method gives, and what it should give."""
    told = f"method {method.name!r}: its {part} gives {given}; it should give {wanted}"
    raise BadInput(told) from None


def start(method: Method, fed: Federation) -> Rows:
    """The state before round 1."""
    with _repeatable(method, "start", {}):
        state = method.start(fed)
    if not isinstance(state, Mapping):
        refuse(method, "start", type(state).__name__, "a dict, the state")
    _check_rows(method, "start", state)
    return state


def next_round(method: Method, fed: Federation, state: Rows, r: int) -> tuple[Rows, Mapping]:
    """The state after round r and the round's log."""
    before = {name: (list(row.shape), row.dtype) for name, row in state.items()}
    with _repeatable(method, "round", state):
        given = method.round(fed, state, r)
    parts = given if isinstance(given, tuple) else (given,)
    if len(parts) != 2 or not all(isinstance(part, Mapping) for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts)
        refuse(method, "round", kinds, "a pair of dicts, (state, log)")
    after, log = parts
    if lost := before.keys() - after.keys():
        kept = f"a state without {', '.join(sorted(lost))}"
        refuse(method, "round", kept, "all rows that start gives")
    _check_rows(method, "round", after)
    for name, kind in before.items():
        if (now := (list(after[name].shape), after[name].dtype)) != kind:
            given, wanted = (f"{name} {shape} of {dtype}" for shape, dtype in (now, kind))
            refuse(method, "round", given, f"{wanted} as before")
    return after, log


def served(method: Method, fed: Federation, state: Rows) -> Rows:
    """The model for all clients, rows as wide as the network, or one for each client."""
    with _repeatable(method, "served", state):
        rows = method.served(fed, state)
    n, layout = len(fed), fed.layout
    if not isinstance(rows, Mapping):
        refuse(method, "served", type(rows).__name__, "a dict of theta and statistics")
    given = rows.get("theta"), rows.get("statistics")
    shapes = [list(row.shape) if isinstance(row, Tensor) else None for row in given]
    fitting = [[layout.P], [layout.S]], [[n, layout.P], [n, layout.S]]
    if shapes not in fitting:
        shown, *wanted = ("theta {}, statistics {}".format(*of) for of in (shapes, *fitting))
        refuse(method, "served", shown, " or ".join(wanted))
    return model(rows)  # without a method's further rows, where it serves its whole state


@contextlib.contextmanager
def _repeatable(method: Method, part: str, state: Rows) -> Iterator[None]:
    """BadInput where a part of a method leaves something outside the new state, which a resumed run
    or another seed's would not have, or would have from this one: by writing into the rows it is
    given, by changing the method, by drawing from a stream of random numbers that all share.
    """
    rows = {name: (row, row._version) for name, row in state.items() if not row.is_inference()}
    own = _told(method)
    try:
        with seeded(f"method {method.name!r}: its {part}", not built_in(method)):
            yield
    except RuntimeError as error:
        if "a single memory location" not in str(error):
            raise
        does = "writes into rows that are one and the same for several clients"
        raise BadInput(f"method {method.name!r}: its {part} {does}: clone() them first") from None
    changed = next((name for name, (row, was) in rows.items() if row._version != was), None)
    if changed is not None:
        does, cure = f"writes into {changed!r}, which it is given", f"{changed}.clone() first"
    elif _told(method) != own:
        does, cure = "changes the method itself", "keep what the next round needs in the state"
        cure += ", and draw from pfl_lib.randomness.generator(seed, 'mine', r)"
    else:
        return
    raise BadInput(f"method {method.name!r}: its {part} {does}: {cure}")


def _told(method: Method) -> tuple:
    """What the method holds, in words (one with slots has no `__dict__`, and tells its fields), and
    what these do not tell: where generators stand that it or its classes hold, and those that a
    user's own names in its module, and how often tensors were written into.
    """
    held = getattr(method, "__dict__", method)
    every = [held] if isinstance(held, dict) else []
    every += [vars(one) for one in type(method).__mro__]
    every += [] if built_in(method) else [named(type(method))]
    return repr(held), [*filter(None, (_place(value) for of in every for value in of.values()))]


def _place(value: object) -> object:
    """Where a generator stands, how often a tensor was written into; None of anything else."""
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state())
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    return value._version if isinstance(value, Tensor) and not value.is_inference() else None


def _check_rows(method: Method, part: str, state: Mapping[str, Tensor]) -> None:
    """BadInput unless a checkpoint could hold the state and a resumed run go on from it."""
    odd = [n for n, row in state.items() if not (isinstance(n, str) and isinstance(row, Tensor))]
    if odd or not state:
        given = f"a state with {odd[0]!r}: {type(state[odd[0]]).__name__}" if odd else "no rows"
        refuse(method, part, given, "a flat dict of tensors by name")
