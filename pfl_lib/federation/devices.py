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
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


DEVICES = ("auto", "cpu", "cuda")
