"""What tests of several rooms share: how a call is refused, a fresh interpreter, a full disk."""

import errno
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_lib import BadInput

ROOT = Path(__file__).resolve().parents[1]


def refusal(make: Callable, /, *args, **kwargs) -> str:
    """What a call is refused with, which is one line."""
    with pytest.raises(BadInput) as told:
        make(*args, **kwargs)
    assert "\n" not in str(told.value)
    return str(told.value)


def refused(words: str, make: Callable, /, *args, **kwargs) -> None:
    """Assert that a call is refused in one line that has these words, a regular expression."""
    line = refusal(make, *args, **kwargs)
    assert re.search(words, line), line


def fresh(program: str, *words: str, **environment: str) -> str:
    """What a program prints in an interpreter of its own, started in this repository."""
    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    given = {"cwd": ROOT, "env": os.environ | environment, "capture_output": True, "text": True}
    done = subprocess.run(command, **given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def no_room(*_) -> None:
    """In place of what writes: the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
