"""Notebooks executed in batch: papermill, a fresh kernel of this very interpreter for each.

papermill writes the output up to a failing cell, so a failed notebook still has something to show;
nothing here decides what a page looks like.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from pfl_lib.pages.page import NotRun

START_TIMEOUT = 120  # seconds; a busy machine needs more than papermill's 60 to start a kernel


@dataclass(frozen=True)
class Job:
    """One notebook to execute: `source` with `parameters` put in, result written to `output`."""

    id: str
    source: Path
    output: Path
    parameters: dict[str, object]


@dataclass(frozen=True)
class Execution:
    """How a job ended: `error` is "", or one line that says what went wrong; `seconds` of
    wall-clock time; `not_run` where all that is wrong is that runs are missing (`NotRun`);
    `megabytes`: the most memory that its kernel held, 0 where the system does not tell.
    """

    job: Job
    error: str
    seconds: float
    not_run: bool = False
    megabytes: int = 0


def execute_all(jobs: Iterable[Job], at_once: int, done: Callable[[Execution], None]) -> None:
    """Execute all jobs, `at_once` side by side, and call `done` with each as it ends (in this
    thread).

    On KeyboardInterrupt the kernels are killed and the interrupt goes on to the caller.
    """
    import papermill  # noqa: F401  imported here once, not by two threads at the same moment

    kernels = _Kernels()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = [pool.submit(_in_thread, job, kernels) for job in jobs]
        try:
            for future in as_completed(futures):
                done(future.result())
        except BaseException:
            for future in futures:
                future.cancel()
            kernels.stop()
            raise


def _in_thread(job: Job, kernels: "_Kernels") -> Execution:
    # Kernel clients run in an event loop that jupyter makes for each thread and leaves open; closed
    # here, nothing is left behind.
    from jupyter_core.utils import ensure_event_loop

    loop = ensure_event_loop()
    try:
        return _execute(job, kernels)
    finally:
        loop.close()


def _execute(job: Job, kernels: "_Kernels") -> Execution:
    """Execute one notebook; never raises for what happens inside it.  A kernel that died (memory)
    is tried once more.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    began, error, not_run = time.monotonic(), "", False
    job.output.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        try:
            papermill.execute_notebook(
                str(job.source),
                str(job.output),
                parameters=job.parameters,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                start_timeout=START_TIMEOUT,
                kernel_manager_class=kernels.manager_class(job),
            )
            error = ""
        except DeadKernelError:
            error = "its kernel died, twice (out of memory?)"
            if not kernels.stopped:
                continue
        except papermill.PapermillExecutionError as failure:
            not_run = failure.ename == NotRun.__name__
            error = failure.evalue if not_run else f"{failure.ename}: {failure.evalue}"
        except Exception as failure:  # noqa: BLE001  a notebook that cannot even be read must not stop the others
            error = f"{type(failure).__name__}: {failure}"
        break
    seconds, megabytes = time.monotonic() - began, kernels.megabytes.get(job.id, 0)
    return Execution(job, "".join(error.splitlines()[:1]), seconds, not_run, megabytes)


class _Kernels:
    """The kernels of one batch, which can be stopped at once (Ctrl-C).  `megabytes`: the most
    memory that those of a job held.
    """

    def __init__(self) -> None:
        self._started: list[subprocess.Popen] = []
        self.stopped = False
        self.megabytes: dict[str, int] = {}

    def manager_class(self, job: Job) -> type:
        """A kernel manager that starts this interpreter, whatever kernels are installed under the
        name python3.
        """
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager
        from traitlets import default

        batch = self

        class ThisInterpreter(AsyncKernelManager):
            @default("kernel_spec_manager")
            def _own_kernel(self) -> KernelSpecManager:
                # No directories to search: what is left is ipykernel's own entry, which runs
                # sys.executable.
                return KernelSpecManager(kernel_dirs=[], ensure_native_kernel=True)

            async def _async_launch_kernel(self, kernel_cmd: list[str], **kw) -> None:
                # The log level hides ipykernel's remark that it talks over TCP, and others that end
                # up on the terminal.
                kw["env"] = {**kw.get("env", os.environ), **_environment()}
                kernel_cmd = [*kernel_cmd, "--IPKernelApp.log_level=CRITICAL"]
                await super()._async_launch_kernel(kernel_cmd, **kw)
                batch._started.append(self.provisioner.process)
                if batch.stopped:  # it was on its way when the others were killed
                    batch.stop()

            async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
                peak = _peak_memory(self.provisioner.process.pid)
                batch.megabytes[job.id] = max(peak, batch.megabytes.get(job.id, 0))
                await super().shutdown_kernel(now, restart)

        return ThisInterpreter

    def stop(self) -> None:
        """Kill what still runs; the threads that wait for it then end on their own."""
        self.stopped = True
        for process in self._started:
            if process.poll() is None:
                process.kill()


def _peak_memory(pid: int) -> int:
    """The most memory that a process held, in megabytes; 0 where /proc does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(round(int(line.split()[1]) / 1024) for line in lines if "VmHWM" in line)
    except (OSError, StopIteration, ValueError):
        return 0


def _environment() -> dict[str, str]:
    # One thread each, since kernels run beside each other; no bars, and no banner beside the page's
    # own; and the very package that started the notebooks, even where it is not installed.
    package = str(Path(__file__).resolve().parents[2])
    return {
        "PFL_HEADLESS": "1",
        "PFL_PAGE": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }
