"""`pfl-lib bench`: how fast this machine trains, beside references timed in the same run.

A fixed set of workloads, each in fresh processes: one that times it in turn with its reference, A B
A B ..., and one that does nothing else and tells its peak memory.  On a shared machine the ratio is
what counts.
"""

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

from pfl_lib.bench.workloads import WORKLOADS
from pfl_lib.cli import arguments
from pfl_lib.errors import choose

PARTS = (*WORKLOADS, "cores", "cells", "server", "candidates", "pfl", "flwr")
"""What `--only` may name: the workloads, all cores beside one, what methods do besides training,
and LeNet-5's workload in other libraries.
"""

MINUTES = 60  # after which a part is given up


def add_parser(subparsers) -> None:
    """Add `bench` to the command line."""
    parser = subparsers.add_parser(
        "bench",
        help="speed and memory, beside references timed in the same run",
        description=(
            "Time fixed workloads beside references in the same run: a plain module-and-SGD loop,"
            " other libraries where they are installed (pip install 'pfl-lib[peers]'), and the"
            " floor that the rate of matrix products gives.  Run it on a quiet machine; takes about"
            " ten minutes."
        ),
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        metavar="NAME",
        help=f"these parts only: {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--repeats", type=arguments.at_least_one, default=7, metavar="N", help="timings of each (7)"
    )
    parser.add_argument(
        "--data-dir",
        type=arguments.folder,
        metavar="D",
        help="take MNIST's images from here instead of drawn ones",
    )
    parser.add_argument(
        "--format",
        choices=("table", "json"),
        default="table",
        help="for reading, or for programs (table)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure every part in processes of its own, then print the rows; 1 if a part failed."""
    parts = [choose("part of the bench", name, PARTS) for name in dict.fromkeys(args.only or PARTS)]
    if args.data_dir is not None:
        from pfl_lib import data

        data.load("mnist", args.data_dir)  # one clear line now rather than one for every part
    found, failures = {}, {}
    for name in parts:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            found[name] = measure(name, args.repeats, args.data_dir)
        except RuntimeError as error:
            failures[name] = str(error)
    # Tables of their own: what they measure is no rate of examples.
    apart = {name: found.pop(name, []) for name in ("server", "candidates")}
    rows = [row for rows in found.values() for row in rows]
    machine = {"python": platform.python_version(), "machine": platform.machine(), **_versions()}
    if args.format == "json":
        print(
            json.dumps(
                {
                    **machine,
                    "workloads": rows,
                    **apart,
                    "failed": failures,
                },
                indent=1,
            )
        )
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        _table(rows, "workload")
        _table(apart["server"], "method")
        _table(apart["candidates"], "workload")
        for name, message in failures.items():
            print(f"\n{name} failed: {message}")
    return 1 if failures else 0


def measure(name: str, repeats: int, data_dir: Path | None = None) -> list[dict[str, object]]:
    """The rows of one part, from processes of its own; RuntimeError with one line for a part that
    could not be measured.
    """
    settings = ["--repeats", str(repeats), *(["--data-dir", str(data_dir)] if data_dir else [])]
    rows = _fresh_process(name, *settings)
    if name in (*WORKLOADS, "candidates"):
        rows[0]["peak MiB"] = _fresh_process(name, "--memory", *settings) / 2**20
    return rows


def _fresh_process(*words: str):
    command = [sys.executable, "-m", "pfl_lib.bench", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"gave up after {MINUTES} minutes") from None
    if done.returncode:
        raise RuntimeError(
            (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        )
    return json.loads(
        done.stdout.strip().splitlines()[-1]
    )  # other libraries print lines of their own before it


def _versions() -> dict[str, object]:
    import torch

    from pfl_lib.federation.devices import cores

    return {"torch": torch.__version__, "cores": cores()}


def _table(rows: list[dict[str, object]], index: str) -> None:
    if not rows:
        return
    import pandas as pd

    order = (
        "examples/s",
        "s/round",
        "peak MiB",
        "% of floor",
        "reference",
        "reference examples/s",
        "ratio",
    )
    table = pd.DataFrame(rows).set_index(index).rename_axis(None)
    columns = [c for c in order if c in table] + [c for c in table if c not in order]
    print("\n" + table[columns].to_string(float_format=_number, na_rep=""))


def _number(value: float) -> str:
    return (
        f"{value:,.3f}"
        if abs(value) < 10
        else f"{value:,.1f}"
        if abs(value) < 100
        else f"{value:,.0f}"
    )
