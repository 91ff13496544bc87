"""The command line: `pfl-lib` or `python -m pfl_lib`.

Each command is a module with `add_parser(subparsers)`, whose `run(args)` returns the exit status: 0
all well, 1 something failed, 2 bad input, told in one line, 130 interrupted.
"""

import errno
import os
import sys
from collections.abc import Sequence

from pfl_lib import __version__
from pfl_lib.cli import compare, listing, reproduce, results
from pfl_lib.cli.arguments import OneLineParser
from pfl_lib.errors import BadInput
from pfl_lib.experiments.stopping import RESUMES

COMMANDS = (listing, reproduce, compare, results)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = OneLineParser(
        prog="pfl-lib", description="Personalised federated learning, reproduced."
    )
    parser.add_argument("--version", action="version", version=f"pfl_lib {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in COMMANDS:
        command.add_parser(subparsers)
    try:
        args = parser.parse_args(argv)
        return args.run(args)
    except SystemExit as leaving:  # argparse: help, or bad input already told
        return leaving.code
    except BadInput as error:
        print(f"pfl-lib: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\npfl-lib: interrupted; {RESUMES}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `pfl-lib list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" ({error.filename})" if error.filename else ""
        kept = "what is finished is kept, the same command goes on from there"
        print(f"pfl-lib: the disk is full{where}: make room; {kept}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
