"""`python -m benchmarks`: each part in a fresh process, timed in turn with its reference, A B A B
...; peak memory in a process of its own.  On a shared machine the ratio is what counts.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd
import torch

from benchmarks import candidates, parts, peers
from benchmarks.parts import Row
from benchmarks.timing import in_fresh_process
from benchmarks.workloads import WORKLOADS
from pfl_lib.federation.devices import cores

PARTS: dict[str, Callable[[int], list[Row]]] = {
    **{name: partial(parts.training, of) for name, of in WORKLOADS.items()},
    "cores": parts.all_cores,
    "candidates": candidates.candidates,
    "pfl": partial(peers.peer, "pfl"),
    "flwr": partial(peers.peer, "flwr"),
}
"""What `--only` may name: a function from repeats to rows."""

MEMORY: dict[str, Callable[[], int]] = {
    **{name: partial(parts.memory, of) for name, of in WORKLOADS.items()},
    "candidates": candidates.memory,
}
"""Peak memory, in bytes, of a process that does nothing else."""


def at_least_one(text: str) -> int:
    """A whole number, 1 or more; argparse tells what is none."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table or JSON; 1 if a part failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time fixed workloads beside references in the same run.  On a quiet machine"
        " all of them take about ten minutes.",
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=list(PARTS))
    parser.add_argument("--repeats", type=at_least_one, default=7, help="timings of each (7)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args(argv)
    found: dict[str, list[Row]] = {}
    failed: dict[str, str] = {}
    for name in dict.fromkeys(args.only):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            found[name] = measure(name, args.repeats)
        except Exception as error:  # noqa: BLE001
            failed[name] = f"{type(error).__name__}: {error}"
    tables = {"candidates": found.pop("candidates", [])}  # in seconds, not examples a second
    tables["workloads"] = [row for rows in found.values() for row in rows]
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    machine |= {"torch": torch.__version__, "cores": cores()}
    if args.format == "json":
        print(json.dumps({**machine, **tables, "failed": failed}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        for rows in filter(None, tables.values()):
            print("\n" + pd.DataFrame(rows).to_string(index=False, float_format="{:,.4g}".format))
        for name, message in failed.items():
            print(f"\n{name} failed: {message}")
    return 1 if failed else 0


def measure(name: str, repeats: int) -> list[Row]:
    """The rows of one part."""
    rows = in_fresh_process(partial(PARTS[name], repeats))
    if name in MEMORY:
        rows[0]["peak MiB"] = in_fresh_process(MEMORY[name]) / 2**20
    return rows


if __name__ == "__main__":
    sys.exit(main())
