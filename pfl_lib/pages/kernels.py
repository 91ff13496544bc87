"""Kernels with the imports done: on Linux they are forked from one process that has done them.

A kernel takes three seconds of a core to import torch, pandas and seaborn, as long as it takes for
the rest of most notebooks.  The process that is forked is `multiprocessing`'s: it runs nothing else
and has no thread.
"""

import atexit
import contextlib
import importlib
import multiprocessing
import os
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

IMPORTED = ("ipykernel.kernelapp", "seaborn", "pfl_lib.api", "pfl_lib.pages.page")
INLINE = "module://matplotlib_inline.backend_inline"
LAUNCHER = "ipykernel_launcher"


def fork_kernels(environment: Mapping[str, str]) -> None:
    """Let this process fork the kernels that it starts, where the system allows it; their imports
    read `environment`.
    """
    if sys.platform != "linux":
        return
    from multiprocessing import forkserver

    factory, name = KernelProvisionerFactory.instance(), "forked"
    entry = EntryPoint(name, f"{__name__}:Forked", KernelProvisionerFactory.GROUP_NAME)
    factory.provisioners[name] = entry
    factory.default_provisioner_name = name
    multiprocessing.set_forkserver_preload([*IMPORTED])
    before = dict(os.environ)
    os.environ.update(environment, PYTHONSAFEPATH="1")
    forkserver.ensure_running()
    os.environ.clear()
    os.environ.update(before)


class Kernel:
    """A forked kernel, for what asks a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, process: multiprocessing.Process) -> None:
        self._process = process
        self.pid, self.kill, self.terminate = process.pid, process.kill, process.terminate

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self.poll()

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Forked(LocalProvisioner):
    """Forks the kernels of this interpreter, and starts any other as usual."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        if cmd[0] != sys.executable or LAUNCHER not in cmd:
            return await super().launch_kernel(cmd, **kwargs)
        environment = {"MPLBACKEND": INLINE, **kwargs.get("env", os.environ)}
        folder, quiet = os.path.abspath(kwargs.get("cwd") or "."), kwargs.get("stderr") is not None
        given = (cmd[cmd.index(LAUNCHER) :], folder, environment, quiet)
        process = multiprocessing.get_context("forkserver").Process(target=_run, args=given)
        process.start()
        self.process = Kernel(process)
        self.pid = self.pgid = process.pid
        return self.connection_info


def _run(argv: list[str], folder: str, environment: Mapping[str, str], quiet: bool) -> None:
    """What a kernel does until it ends."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, *([2] if quiet else [])):
        os.dup2(nowhere, stream)
    sys.path.insert(0, "")
    sys.argv = argv
    importlib.import_module("ipykernel.kernelapp").launch_new_instance()
    atexit._run_exitfuncs()  # multiprocessing ends without them
