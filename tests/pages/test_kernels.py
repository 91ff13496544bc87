"""Forked kernels: what a kernel that starts by itself would have, and no other one's variables."""

import os
import signal
import subprocess
import sys
import time

import pytest
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory

from pfl_lib.pages import kernels
from pfl_lib.pages.kernels import Forked, fork_kernels

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Start a kernel; returns it, and a function that says what a cell prints or raises."""
    factory, started = KernelProvisionerFactory.instance(), []
    monkeypatch.setattr(factory, "default_provisioner_name", factory.default_provisioner_name)
    monkeypatch.setenv("MARK", "here")
    monkeypatch.delenv("MPLBACKEND")
    fork_kernels()

    def one(**settings):
        manager = KernelManager(**settings)
        log = ["--IPKernelApp.log_level=CRITICAL"]
        manager.start_kernel(cwd=str(tmp_path), extra_arguments=log, stderr=subprocess.DEVNULL)
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=120)
        started.append((manager, client))

        def cell(code: str) -> str:
            said = []
            client.execute_interactive(code, output_hook=lambda out: said.append(out["content"]))
            return "".join(part.get("text", "") or part.get("ename", "") for part in said).strip()

        return manager, client, cell

    yield one
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_kernel_has_its_imports_folder_and_environment_and_no_others_names(start, tmp_path):
    for _ in range(2):
        manager, _, cell = start()
        assert isinstance(manager.provisioner, Forked)
        assert cell("import sys; print('torch' in sys.modules, sys.path[0] == '')") == "True True"
        assert cell("import os; print(os.getcwd(), os.environ['MARK'])") == f"{tmp_path} here"
        assert cell("print('mine' in dir())") == "False"
        backend = cell("import matplotlib; mine = 1; print(matplotlib.get_backend())")
        assert backend.endswith("inline")
        assert cell("import subprocess; print(subprocess.call(['false']))") == "1"


@pytest.mark.timeout(120)
def test_a_kernel_whose_folder_is_gone_ends_and_the_next_one_starts(start):
    gone = KernelManager()
    gone.start_kernel(cwd="/gone", stderr=subprocess.DEVNULL)
    try:
        assert start()[2]("print(1)") == "1"
    finally:
        gone.shutdown_kernel(now=True)


def test_kernels_start_also_where_the_process_that_is_forked_has_ended(start):
    manager, _, cell = start()
    assert isinstance(manager.provisioner.process, kernels.Kernel)
    os.kill(int(cell("import os; print(os.getppid())")), signal.SIGKILL)
    kinds = [type(start()[0].provisioner.process) for _ in range(2)]
    assert kinds == [subprocess.Popen, kernels.Kernel]  # the second is forked by a new one


def test_a_kernel_is_interrupted_and_one_that_is_killed_is_told_dead(start):
    manager, client, cell = start()
    code = "import time; print('begun', flush=True); time.sleep(600)"
    waiting = client.execute(code, stop_on_error=False)  # else what comes next may be left out
    while client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
        pass
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != waiting:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert cell("print(2)") == "2" and manager.is_alive()
    os.kill(manager.provisioner.pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while manager.is_alive() and time.monotonic() < until:
        time.sleep(0.05)
    assert not manager.is_alive()
