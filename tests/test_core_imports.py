"""The core needs torch, numpy, pandas and tqdm alone: it runs without notebooks and plots."""

import json
import textwrap
from contextlib import suppress
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.common import fresh

CORE = ("torch", "numpy", "pandas", "tqdm")

# Blocks the modules named in argv[1] as if they were not installed, then goes on.
BLOCK = """
    import importlib.abc, json, sys

    BLOCKED = set(json.loads(sys.argv[1]))

    class NotInstalled(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in BLOCKED:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, NotInstalled())
"""


def with_what_it_needs(names: tuple[str, ...]) -> set[str]:
    """Distributions, canonical names: these, what they require here, and so on; no extras."""
    found, waiting = set(), [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            with suppress(metadata.PackageNotFoundError):
                required = map(Requirement, metadata.requires(name) or [])
                here = [r for r in required if r.marker is None or r.marker.evaluate({"extra": ""})]
                waiting += [canonicalize_name(r.name) for r in here]
    return found


def everything_else(core: tuple[str, ...] = CORE) -> list[str]:
    """The modules that are installed here, but not where nothing but the core's packages are."""
    allowed = with_what_it_needs(core) | {"pfl-lib"}
    modules = metadata.packages_distributions()
    return sorted(
        m for m, owners in modules.items() if not allowed & set(map(canonicalize_name, owners))
    )


def run_with_the_core_alone(program: str, core: tuple[str, ...] = CORE) -> str:
    """What a fresh interpreter prints for which nothing but the core's packages is installed."""
    program = textwrap.dedent(BLOCK) + textwrap.dedent(program)
    return fresh(program, json.dumps(everything_else(core)), PYTHONWARNINGS="default").strip()


def test_the_packages_of_the_upper_rooms_are_blocked_here_and_the_cores_are_not():
    blocked = everything_else()
    upper = "papermill nbconvert seaborn matplotlib pydantic joblib sklearn platformdirs"
    assert set(upper.split()) <= set(blocked)
    assert not {"torch", "numpy", "pandas", "tqdm", "dateutil", "sympy", "pfl_lib"} & set(blocked)


def test_the_core_is_imported_every_method_trains_and_what_is_missing_is_named_when_needed():
    """A small federation: five clients with validation examples for FedFomo, a norm for FedBN, and
    rounds enough for pFedMe, whose shared model moves by eta lambda = 0.075 of the way at each
    batch.
    """
    program = """
        import importlib, pkgutil
        import torch
        import pfl_lib, pfl_lib.methods, pfl_lib.engine
        from pfl_lib.methods import METHODS

        core = "experiments.runner results.store partitions data models errors api".split()
        names = ["pfl_lib." + name for name in core]
        for package in (pfl_lib.methods, pfl_lib.engine):
            found = pkgutil.iter_modules(package.__path__, package.__name__ + ".")
            names += [module.name for module in found]
        for name in names:
            importlib.import_module(name)
        print("imported", len(names) > 15)
        try:
            import sklearn.datasets
        except ModuleNotFoundError as error:
            print(error)
        try:
            pfl_lib.run("fedavg", dataset="digits", rounds=1)
        except pfl_lib.BadInput as error:
            print(error)

        generator = torch.Generator().manual_seed(0)
        def part(n):
            x = torch.randn(n, 4, generator=generator)
            return x, (x[:, 0] > 0).long()

        parts = [part(n) for n in (20, 30, 25, 20, 25)]
        def network():
            return torch.nn.Sequential(
                torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2)
            )

        for name in METHODS:
            federation = pfl_lib.Federation.from_arrays(
                train=parts, test=parts, validation=parts, model=network,
                schedule=pfl_lib.Schedule(rounds=20, batch_size=8, lr=0.1), alice=0,
            )
            result = pfl_lib.run(name, federation=federation)
            assert len(result.metrics) == 20 and result.diverged is None, name
            assert 0.5 < result.last_accuracy <= 1, (name, result.last_accuracy)
        print("trained", len(METHODS) >= 6)
    """
    assert run_with_the_core_alone(program).splitlines() == [
        "imported True",
        "No module named 'sklearn'",
        "dataset 'digits' comes with scikit-learn, which is missing: pip install scikit-learn",
        "trained True",
    ]


def test_a_pages_run_is_trained_where_no_notebook_package_is_installed(tmp_path):
    program = f"""
        from pfl_lib.__main__ import main

        words = "--only fedfomo-fig7 --train-only --jobs 1 --results-dir".split()
        words.append({str(tmp_path)!r})
        assert main(["reproduce", *words]) == 0
    """
    printed = run_with_the_core_alone(program, (*CORE, "click", "scikit-learn"))
    assert "trained 1, failed 0" in printed and len(list((tmp_path / "cells").iterdir())) == 1
