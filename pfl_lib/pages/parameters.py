"""The parameters of a notebook, checked by the annotations of its parameter cell (`profile: str =
"quick"`): papermill only logs those that it does not know, and hands `-p flag true` over as text.
"""

import ast
import os
import types
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pydantic

from pfl_lib.errors import MOST_SEEDS, BadInput, choose
from pfl_lib.papers.profiles import PROFILES

# What papermill can inject; whatever else a namespace holds (modules, functions, IPython's own) is
# no parameter.
PLAIN = (str, int, float, bool, list, dict, tuple, types.NoneType)
INJECTED = "# Parameters\n"  # how papermill's cell of injected parameters begins


class Settings(pydantic.BaseModel):
    """The parameters of a notebook; its own are further fields with the types it declared.

    `seeds`: how many, 0 for the profile's own; `data_dir`, `results_dir`: "" for the default;
    `jobs`: processes, 0 for one per core; `plots_only`: draw what is stored, train nothing.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    profile: str
    seeds: int = pydantic.Field(ge=0, le=MOST_SEEDS)
    data_dir: str
    results_dir: str
    jobs: pydantic.NonNegativeInt
    device: Literal["auto", "cpu", "cuda"]
    plots_only: bool


def settings(namespace: Mapping[str, Any]) -> Settings:
    """Check the parameters of the notebook whose `globals()` are given, right after they are set.

    Raises `BadInput`, one line, for a name that the parameter cell does not declare, for a missing
    one, and for a value of another type or outside what is allowed.
    """
    declared = _declared(namespace)
    for name in Settings.model_fields:
        if name not in declared or name not in namespace:
            needed = ", ".join(Settings.model_fields)
            raise BadInput(f"the parameter cell does not declare {name!r}; it needs {needed}")
    # Run again in an open notebook, later cells have left names of their own; on a fresh kernel
    # there is nothing but parameters yet.
    values = [*namespace.values()]  # of a Page too, which holds them
    held = (one for value in values for one in (value, getattr(value, "settings", None)))
    again = any(isinstance(one, Settings) for one in held)
    for name, value in {} if again else namespace.items():
        # A name in capitals is a constant of the notebook's own, or imported.
        aside = name.startswith("_") or name in ("In", "Out") or name.isupper()
        if name not in declared and not aside and isinstance(value, PLAIN):
            raise BadInput(f"parameter {name!r} is not one of {', '.join(declared)}")
    given = {name: namespace[name] for name in declared if name in namespace}
    own = {n: (kind, ...) for n, kind in declared.items() if n not in Settings.model_fields}
    for name, (kind, _) in own.items():
        if kind is list and isinstance(given.get(name), str):
            given[name] = [given[name]]  # what papermill's -p makes of a list of one
    try:
        checked = pydantic.create_model("Settings", __base__=Settings, **own)(**given)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name, said = ".".join(map(str, first["loc"])), first["msg"]
        value = first.get("input")
        raise BadInput(f"parameter {name} = {value!r}: {said[0].lower()}{said[1:]}") from None
    choose("profile", checked.profile, PROFILES)
    if checked.data_dir and not Path(checked.data_dir).expanduser().is_dir():
        told = "is not a folder; leave it empty for the default"
        raise BadInput(f"data_dir {checked.data_dir!r} {told}")
    if any(str(source).startswith(INJECTED) for source in namespace.get("In", ())):
        # papermill put parameters in, so nobody watches this kernel: no bars, whose last state
        # would stay in the output.
        os.environ.setdefault("PFL_HEADLESS", "1")
    return checked


def _declared(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the names that a notebook's cells annotate.

    Python keeps them in `__annotations__`.  From 3.14 on `__annotate__` tells them instead, under
    IPython those of the statement that was executed last, so they are read in the cells themselves.
    """
    declared: dict[str, Any] = {}
    for cell in namespace.get("In", ()):  # a later one has the last word
        with suppress(SyntaxError, NameError):
            for line in ast.parse(cell).body:
                if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) in namespace:
                    kind = eval(ast.unparse(line.annotation), {**namespace})
                    declared[ast.unparse(line.target)] = kind
    declared |= namespace.get("__annotations__", {})
    if annotate := namespace.get("__annotate__"):
        declared |= annotate(1)  # as values
    return declared
