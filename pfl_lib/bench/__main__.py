"""`python -m pfl_lib.bench NAME`: measure one part in this process and print its rows, or its peak
memory, as a line of JSON.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pfl_lib.bench import PARTS, candidates, peers, server, speed
from pfl_lib.bench.workloads import WORKLOADS
from pfl_lib.errors import BadInput


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pfl_lib.bench")
    parser.add_argument("name", choices=PARTS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args(argv)
    print(json.dumps(_measured(args)))
    return 0


def _measured(args: argparse.Namespace) -> object:
    if args.memory and args.name == "candidates":
        return candidates.memory()
    if args.memory:
        return speed.memory(WORKLOADS[args.name], args.data_dir)
    match args.name:
        case "cores":
            return [speed.threads(args.repeats)]
        case "cells":
            return [speed.cells(args.repeats)]
        case "server":
            return server.server(args.repeats)
        case "candidates":
            return candidates.candidates(args.repeats)
        case "pfl" | "flwr":
            return [peers.peer(args.name, args.repeats, args.data_dir)]
        case name:
            return [speed.training(WORKLOADS[name], args.repeats, args.data_dir)]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        print(error, file=sys.stderr)
        sys.exit(2)
