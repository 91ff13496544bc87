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
    """Cores this process may use; joblib's LOKY_MAX_CPU_COUNT lowers their number where a container
    sees more cores than it is given.  Raises BadInput where that is no whole number, 1 or more.
    """
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    most = os.environ.get("LOKY_MAX_CPU_COUNT") or str(there or 1)
    if not most.isdecimal() or int(most) < 1:
        raise BadInput(f"LOKY_MAX_CPU_COUNT is {most!r}: give a whole number, 1 or more")
    return min(there or 1, int(most))
