"""What a run is made with, kept beside its result: which code, which machine."""

import functools
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

NO_RECORD = "not recorded"
"""For a word of `made_with` in results and checkpoints stored before it was recorded."""
ROOT = Path(__file__).resolve().parents[2]


def made_with(device: str) -> dict[str, str]:
    """Device, torch, code and processor, each in words."""
    return {
        "device": device,
        "torch": str(torch.__version__),
        "code": code_at_start(),
        "processor": torch.cuda.get_device_name(device) if "cuda" in device else processor(),
    }


def code_version() -> str:
    """The version and, in a checkout, commit: "0.1.0, commit 1a2b3c4" (or "... with changes")."""
    try:
        version = metadata.version("pfl-lib")
    except metadata.PackageNotFoundError:
        version = "not installed"
    git = ("git", "-C", str(ROOT))
    commit = _said(*git, "rev-parse", "--short=7", "HEAD") if (ROOT / ".git").exists() else ""
    if not commit:
        return version
    changed = _said(*git, "status", "--porcelain", "--", "pfl_lib")
    return f"{version}, commit {commit}" + (" with changes" if changed else "")


code_at_start = functools.cache(code_version)
"""`code_version` as it was at this process's first run, though files change later."""


@functools.cache
def processor() -> str:
    """This machine's processor and its instructions that torch uses: "AMD EPYC 7B13, AVX2"."""
    name, described = "", Path("/proc/cpuinfo")
    if sys.platform == "darwin":
        name = _said("sysctl", "-n", "machdep.cpu.brand_string")
    elif described.is_file():
        words = described.read_text(encoding="utf-8", errors="replace")
        name = "".join(re.findall(r"^model name\s*: *(.*)", words, re.MULTILINE)[:1]).strip()
    name = name or platform.processor() or platform.machine() or "unknown"
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _said(*command: str) -> str:
    """What a command prints; nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
