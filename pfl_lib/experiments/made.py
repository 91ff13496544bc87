"""What a run is made with, kept beside its result: which code, which machine."""

import functools
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

NO_RECORD = "not recorded"
"""For a word of `made_with` in results and checkpoints stored before it was recorded."""
ROOT = Path(__file__).resolve().parents[2]


def made_with(device: str) -> dict[str, str]:
    """Device, torch, code (`code_version`) and processor, each in words."""
    return {
        "device": device,
        "torch": str(torch.__version__),
        "code": code_at_start(),
        "processor": processor() if not device.startswith("cuda") else graphics_card(device),
    }


def code_version() -> str:
    """The package's version and, in a checkout, its commit: "0.1.0, commit 1a2b3c4" ("with changes"
    if files of the package differ from it).
    """
    try:
        version = metadata.version("pfl-lib")
    except metadata.PackageNotFoundError:
        version = "not installed"
    if not (ROOT / ".git").exists():
        return version
    commit = _said("git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD")
    if not commit:
        return version
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--", "pfl_lib")
    return f"{version}, commit {commit}" + (" with changes" if changed else "")


@functools.cache
def code_at_start() -> str:
    """`code_version` as it was at this process's first run; files that change later do not change
    it, though a module that was imported before may be older.
    """
    return code_version()


@functools.cache
def processor() -> str:
    """This machine's processor and the instructions that torch uses on it: "AMD EPYC 7B13,
    AVX2".
    """
    name = ""
    if sys.platform == "darwin":
        name = _said("sysctl", "-n", "machdep.cpu.brand_string")
    elif (described := Path("/proc/cpuinfo")).is_file():
        lines = described.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else ""
    name = name or platform.processor() or platform.machine() or "unknown"
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def graphics_card(device: str) -> str:
    """The name of a CUDA device; "unknown" where torch finds none."""
    try:
        return torch.cuda.get_device_name(device)
    except (RuntimeError, AssertionError):
        return "unknown"


def _said(*command: str) -> str:
    """What a command prints; nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
