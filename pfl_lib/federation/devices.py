"""The device a federation lives on, and the cores this process may use."""

import os

import torch

from pfl_lib.errors import BadInput, choose


def choose_device(name: str) -> torch.device:
    """ "auto" (a GPU where there is one), "cpu" or "cuda"; BadInput where "cuda" is asked for and
    there is none.
    """
    choose("device", name, DEVICES)
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise BadInput(
            "device 'cuda' is not available here: give device='cpu' (--device cpu), or install a"
            " build of torch that sees the GPU"
        )
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def cores() -> int:
    """Cores this process may use; joblib's LOKY_MAX_CPU_COUNT lowers their number where a container
    sees more cores than it is given.
    """
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    allowed = int(os.environ.get("LOKY_MAX_CPU_COUNT") or there or 1)
    return max(1, min(there or 1, allowed))


DEVICES = ("auto", "cpu", "cuda")
