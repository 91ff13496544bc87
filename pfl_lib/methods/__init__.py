"""The methods, one file each: frozen hyper-parameters and three pure functions over a state.

A method is a frozen dataclass with class attributes `name` and `title` and an integer `version`
(part of every result's key; raised by hand when results change), and

* `later`, where fields were added after results had been stored: the names of those fields, which
  enter the key only where they are not at their default, so that older results keep theirs; or
  {name: the value that older results had}, where that is no longer the default;
* `versions(schedule, statistics)`, where some settings' results have changed and others' not: their
  versions by name, in the key where not 1 (`statistics`: whether the model has running ones);
* where they are not the usual ones: `short`, the name in tables and legends (else `title`);
  `look`, colour, marker and line of its curves (else a spare one); `cost(passes, read)`, how many
  passes over the participants' data a round takes (else `passes`, one local training of each;
  `read` is the share of the clients whose model is read);
* `start(fed) -> state`: a flat mapping of names to tensors, enough to go on from;
* `round(fed, state, r) -> (state, log)`: one round, r from 1, which changes neither argument;
* `served(fed, state) -> rows`: the model each client would be given now, {"theta", "statistics"}:
  [P] and [S] when it is the same for all, else [N, P] and [N, S] (`rows.as_kept`: the state's).

`log` holds what figures need: "weights" [N], [N, N] (row i: client i's model) or [L, N, N] (by
layer), "matrices" (further ones by name, such as {"affinity": [N, N]}), "models_up" and
"models_down" (how many vectors of P numbers all clients together sent and received), and anything
else as one number per client [N].
"""

import inspect
from typing import ClassVar, Protocol

from pfl_lib.errors import BadInput, choose, likely
from pfl_lib.federation.federation import Federation
from pfl_lib.methods.apfl import APFL
from pfl_lib.methods.broken_global import BrokenGlobal
from pfl_lib.methods.cfl import CFL
from pfl_lib.methods.ditto import Ditto
from pfl_lib.methods.fedavg import FedAvg
from pfl_lib.methods.fedavg_data import FedAvgData
from pfl_lib.methods.fedbn import FedBN
from pfl_lib.methods.fedfomo import FedFomo
from pfl_lib.methods.fedfomo_ma import FedFomoMA
from pfl_lib.methods.fedprox import FedProx
from pfl_lib.methods.fedrep import FedRep
from pfl_lib.methods.finetuned import FineTuned
from pfl_lib.methods.lg_fedavg import LGFedAvg
from pfl_lib.methods.local import Local
from pfl_lib.methods.mocha import Mocha
from pfl_lib.methods.per_fedavg import PerFedAvg
from pfl_lib.methods.pfedhn import PFedHN
from pfl_lib.methods.pfedla import PFedLA
from pfl_lib.methods.pfedme import PFedMe
from pfl_lib.methods.scaffold import Scaffold
from pfl_lib.methods.similarity import Similarity
from pfl_lib.methods.waffle import Waffle
from pfl_lib.methods.weight_erosion import WeightErosion
from pfl_lib.rows import Rows


class Method(Protocol):
    """What `run` asks of a method, its own or a user's."""

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[int]

    def start(self, fed: Federation) -> Rows: ...
    def round(self, fed: Federation, state: Rows, r: int) -> tuple[Rows, dict]: ...
    def served(self, fed: Federation, state: Rows) -> Rows: ...


METHODS: dict[str, type] = {
    method.name: method
    for method in (
        *(Local, FedAvg, Scaffold, WeightErosion, Waffle, APFL, Ditto, FineTuned, BrokenGlobal),
        *(FedFomo, FedFomoMA, FedAvgData, Mocha, CFL, PerFedAvg, PFedMe),
        *(PFedLA, PFedHN, FedBN, FedRep, LGFedAvg, FedProx, Similarity),
    )
}


def short_name(method: type[Method] | Method) -> str:
    """The method's name in tables and legends; without one, what it is stored under."""
    names = (getattr(method, name, None) for name in ("short", "title", "name"))
    return next(name for name in names if isinstance(name, str) and name)


def make_method(name: str) -> Method:
    """The method of that name with its paper's hyper-parameters; BadInput for an unknown name."""
    return METHODS[choose("method", name, METHODS)]()


def check_method(method: Method) -> Method:
    """The method itself; BadInput for something without name, start, round and served."""
    hooks = {"start": "(fed)", "round": "(fed, state, r)", "served": "(fed, state)"}
    missing = ["name"] * (not hasattr(method, "name"))
    missing += [part for part in hooks if not callable(getattr(method, part, None))]
    if not missing and not isinstance(method.name, str):
        raise BadInput(f"method {method!r} has the name {method.name!r}: give it a text")
    if missing or isinstance(method, type):
        near = {part: likely(part, {*dir(method)} - {part}) for part in missing}
        meant = (
            f"{part}{hooks.get(part, '')}" + (f" (it has {has})" if has else "")
            for part, has in near.items()
        )
        what = f"an object with {', '.join(meant)}"
        if isinstance(method, type):
            what = "an instance, not the class itself"
        raise BadInput(f"method {method!r}: give {what}, or a name: {', '.join(METHODS)}")
    for part, takes in hooks.items():
        try:
            inspect.signature(getattr(method, part)).bind(*takes.strip("()").split(", "))
        except ValueError:  # a compiled function, which does not tell its arguments
            pass
        except TypeError as error:
            told = f"method {method.name!r}: its {part} is called as {part}{takes}"
            raise BadInput(f"{told}: {error}; its own first argument is self") from None
    return method
