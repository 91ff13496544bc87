"""What tests of several rooms share: how a call is refused, and a disk without room."""

import errno
import os
import re
from collections.abc import Callable

import pytest

from pfl_lib import BadInput


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


def no_room(*_) -> None:
    """In place of what writes: the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
