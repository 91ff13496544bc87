"""Notebooks executed in batch: papermill, a fresh kernel of this very interpreter for each.

papermill writes the output up to a failing cell, so a failed notebook still has something to show.
"""

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import papermill
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from nbclient.exceptions import DeadKernelError
from traitlets import default

from pfl_lib.pages.kernels import INLINE, Kernel, fork_kernels
from pfl_lib.pages.page import NotRun

START_TIMEOUT = 120  # seconds; a busy machine needs more than papermill's 60 to start a kernel
PACKAGE = Path(__file__).resolve().parents[2]
ALONE = {"PFL_HEADLESS": "1", "PFL_PAGE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": INLINE}


@dataclass
class Job:
    """One notebook to execute, `source` with `parameters` put in, result written to `output`; and
    how that ended: `error` is "", or one line that says what went wrong; `not_run` where all that
    is wrong is that runs are missing (`NotRun`); `seconds` of wall-clock time; `megabytes`: the
    most memory that its kernel held, 0 where the system does not tell.
    """

    id: str
    source: Path
    output: Path
    parameters: dict[str, object]
    error: str = ""
    not_run: bool = False
    seconds: float = 0.0
    megabytes: int = 0
    kernel: subprocess.Popen | Kernel | None = None  # its process, while it runs


def execute_all(jobs: Sequence[Job], at_once: int, done: Callable[[Job], None]) -> None:
    """Execute all jobs, `at_once` side by side, and call `done` with each as it ends (in this
    thread).

    On KeyboardInterrupt the kernels are killed and the interrupt goes on to the caller.
    """
    fork_kernels()
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = [pool.submit(_execute, job, stopped) for job in jobs]
        try:
            for future in as_completed(futures):
                done(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stopped.set()
            for kernel in filter(None, [job.kernel for job in jobs]):
                kernel.kill()  # the thread that waits for it then ends on its own
            raise


def _execute(job: Job, stopped: threading.Event) -> Job:
    """Execute one notebook, once more if its kernel died; never raises for what happens in it."""
    # Kernel clients run in an event loop that jupyter makes for each thread and leaves open; closed
    # here, nothing is left behind.
    loop, began = ensure_event_loop(), time.monotonic()
    job.output.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        error = ""
        try:
            papermill.execute_notebook(
                str(job.source),
                str(job.output),
                parameters=job.parameters,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                start_timeout=START_TIMEOUT,
                kernel_manager_class=_kernel_manager(job, stopped),
            )
        except DeadKernelError:
            error = "its kernel died, twice (out of memory?)"
            if not stopped.is_set():
                continue
        except papermill.PapermillExecutionError as failure:
            job.not_run = failure.ename == NotRun.__name__
            error = failure.evalue if job.not_run else f"{failure.ename}: {failure.evalue}"
        except Exception as failure:  # noqa: BLE001  a notebook that cannot even be read must not stop the others
            error = f"{type(failure).__name__}: {failure}"
        break
    loop.close()
    job.error, job.seconds = "".join(error.splitlines()[:1]), time.monotonic() - began
    return job


def _kernel_manager(job: Job, stopped: threading.Event) -> type:
    """A class of kernel managers that start this interpreter, whatever python3 is installed."""

    class ThisInterpreter(AsyncKernelManager):
        @default("kernel_spec_manager")
        def _own_kernel(self) -> KernelSpecManager:
            # No directories to search: ipykernel's own entry is left, which runs sys.executable.
            return KernelSpecManager(kernel_dirs=[], ensure_native_kernel=True)

        async def _async_launch_kernel(self, kernel_cmd: list[str], **kw) -> None:
            # One thread each, since kernels run beside each other; no bars, no banner beside the
            # page's own; the package that started the notebooks, even where it is not installed.
            path = filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")])
            kw["env"] = {**kw.get("env", os.environ), **ALONE, "PYTHONPATH": os.pathsep.join(path)}
            # ipykernel remarks that it talks over TCP, and more, which ends up on the terminal.
            kernel_cmd = [*kernel_cmd, "--IPKernelApp.log_level=CRITICAL"]
            await super()._async_launch_kernel(kernel_cmd, **kw)
            job.kernel = self.provisioner.process
            if stopped.is_set():  # it was on its way when the others were killed
                job.kernel.kill()

        async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
            with contextlib.suppress(OSError):  # not every system has it
                status = Path(f"/proc/{job.kernel.pid}/status").read_text()
                held = re.findall(r"VmHWM:\s*(\d+) kB", status)
                job.megabytes = max([job.megabytes, *(round(int(kb) / 1024) for kb in held)])
            await super().shutdown_kernel(now, restart)
            job.kernel = None  # its number may soon be another process's

    return ThisInterpreter
