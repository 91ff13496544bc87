"""Kernels with the imports done: on Linux they are forked from one process that has done them.

A kernel takes four seconds of a core to import torch, torchvision, scikit-learn and seaborn; most
notebooks' own cells take one to five.  The process that is forked runs nothing else and, with
OMP_NUM_THREADS=1 as pages have it, has one thread.  Run as a program, this module is that process:
it reads a line for each kernel, and the kernel that it forks answers with its number.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from pfl_lib.data.torchvision_fix import import_torchvision

IMPORTED = "ipykernel.kernelapp seaborn sklearn.metrics pfl_lib.api pfl_lib.pages.page".split()
INLINE = "module://matplotlib_inline.backend_inline"
LAUNCHER = "ipykernel_launcher"
READ = ("MPLBACKEND", "OMP_NUM_THREADS", "PYTHONPATH")  # of the environment, by imports
_asking = threading.Lock()


def fork_kernels() -> None:
    """Let this process fork the kernels that it starts, where the system allows it."""
    if sys.platform == "linux":
        factory, name = KernelProvisionerFactory.instance(), "forked"
        factory.provisioners[name] = EntryPoint(name, f"{__name__}:Forked", factory.GROUP_NAME)
        factory.default_provisioner_name = name


class Kernel:
    """A forked kernel, for what asks a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None while it runs, then 0: its exit status is its parent's to know."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    wait = poll  # asked of one that has ended

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forked(LocalProvisioner):
    """Forks the kernels of this interpreter, and starts any other as usual."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        if cmd[0] != sys.executable or LAUNCHER not in cmd:
            return await super().launch_kernel(cmd, **kwargs)
        env = {"MPLBACKEND": INLINE, **kwargs.get("env", os.environ)}
        given = {
            "argv": cmd[cmd.index(LAUNCHER) :],
            "cwd": os.path.abspath(kwargs.get("cwd") or "."),
            "env": env,
            "quiet": kwargs.get("stderr") is not None,
        }
        try:
            with _asking:
                server = _server(tuple((name, env[name]) for name in READ if name in env))
                print(json.dumps(given), file=server.stdin, flush=True)
                self.pid = self.pgid = int(server.stdout.readline())
        except (BrokenPipeError, ValueError):  # the process has ended
            _server.cache_clear()
            return await super().launch_kernel(cmd, **kwargs)
        self.process = Kernel(self.pid)
        return self.connection_info


@functools.lru_cache(maxsize=1)
def _server(read: tuple[tuple[str, str], ...]) -> subprocess.Popen:
    """The process that is forked, which ends with this one; another one where imports would `read`
    something else in the environment.
    """
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **dict(read)},
        text=True,
        start_new_session=True,  # Ctrl-C is for this process, which then ends the kernels
    )
    atexit.register(server.communicate)  # closes its input, at which it ends, and waits
    return server


def main() -> None:
    """Fork at each line; the kernel alone goes on, with what the line gives it."""
    for name in IMPORTED:
        importlib.import_module(name)
    with contextlib.suppress(Exception):  # told where a notebook needs it
        import_torchvision()
    gc.freeze()  # what is imported is never collected: no kernel needs to look at it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is gone at once
    for line in sys.stdin:
        if os.fork() == 0:
            given = json.loads(line)
            break
    else:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    print(os.getpid(), flush=True)  # the other side waits for it, also where what follows fails
    os.chdir(given["cwd"])
    os.environ.clear()
    os.environ.update(given["env"], JPY_PARENT_PID=str(os.getppid()))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, *([2] if given["quiet"] else [])):
        os.dup2(nowhere, stream)
    sys.path.insert(0, "")
    sys.argv = given["argv"]
    importlib.import_module("ipykernel.kernelapp").launch_new_instance()


if __name__ == "__main__":
    main()
