"""The command line: `pfl-lib` or `python -m pfl_lib`.

Exit status: 0 all well, 1 something failed, 2 bad input, told in one line, 130 interrupted.
"""

import errno
import sys
from collections.abc import Sequence

import click

from pfl_lib import __version__
from pfl_lib.cli import compare, listing, reproduce, results
from pfl_lib.errors import BadInput
from pfl_lib.experiments.stopping import RESUMES


@click.group(
    commands=[listing.command, reproduce.command, compare.command, results.command],
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message=f"pfl_lib {__version__}")
def commands() -> None:
    """Personalised federated learning, reproduced."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    status = 2
    try:
        return commands.main(argv, "pfl-lib", standalone_mode=False) or 0
    except click.Abort:  # click has taken Ctrl-C
        told, status = f"interrupted; {RESUMES}", 130
    except click.ClickException as error:
        told = _with_help(error)
    except BadInput as error:
        told = str(error)
    except PermissionError as error:
        told = f"{error.filename} may not be read or written: give another folder"
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" ({error.filename})" if error.filename else ""
        kept = "what is finished is kept, the same command goes on from there"
        told = f"the disk is full{where}: make room; {kept}"
    print(f"pfl-lib: {told}", file=sys.stderr)
    return status


def _with_help(error: click.ClickException) -> str:
    """What click says, in one line, and what can be given instead or where that is told."""
    said = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    if context is None:
        return said
    if isinstance(context.command, click.Group):
        return f"{said} Give one of {', '.join(context.command.commands)}"
    return f"{said} (see {context.command_path} --help)"


if __name__ == "__main__":
    sys.exit(main())
