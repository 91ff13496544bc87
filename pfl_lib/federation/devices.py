"""The device a federation lives on, and the cores this process may use."""

import os

import torch

from pfl_lib.errors import BadInput, choose

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """The device "cpu", "cuda" or "auto" (a GPU where there is one); BadInput for a missing GPU."""
    choose("device", name, DEVICES)
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        told = "device 'cuda' is not available here: give device='cpu' (--device cpu)"
        raise BadInput(f"{told}, or install a build of torch that sees the GPU")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def cores() -> int:
    """Cores this process may use, as joblib counts them: its affinity's, at most a container's
    quota and LOKY_MAX_CPU_COUNT.  Raises BadInput where that is no whole number, 1 or more.
    """
    from joblib import cpu_count  # takes a fifth of a second to import

    most = os.environ.get("LOKY_MAX_CPU_COUNT", "1")
    if not most.isdecimal() or int(most) < 1:
        raise BadInput(f"LOKY_MAX_CPU_COUNT is {most!r}: give a whole number, 1 or more")
    return cpu_count()
