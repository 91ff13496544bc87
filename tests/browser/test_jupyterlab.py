"""JupyterLab in a real browser: what a reader does there with notebooks and explorers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.browser.conftest import MARKS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [*MARKS, pytest.mark.xdist_group("lab")]  # one server

# Edits of the quickstart that train three rounds
SHORTER = {
    '\\"rounds\\": 10': '\\"rounds\\": 3',
    ".make(waffle.MNIST)": ".make(waffle.MNIST).scheduled(rounds=3)",
}
# Every cell in the page, also those out of sight; no question whether to fetch news.
USER_SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """A JupyterLab on a copy of the notebooks, with all its own: a notebook's address by path."""
    pytest.importorskip("jupyterlab", reason="needs jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    quickstart = folder / "notebooks" / "01_quickstart.ipynb"
    text = quickstart.read_text()
    for long, short in SHORTER.items():
        assert long in text
        text = text.replace(long, short)
    quickstart.write_text(text)
    for name, values in USER_SETTINGS.items():
        file = folder / "JUPYTERLAB_SETTINGS_DIR" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    places = "JUPYTERLAB_SETTINGS_DIR JUPYTERLAB_WORKSPACES_DIR JUPYTER_CONFIG_DIR"
    places += " JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR IPYTHONDIR PFL_RESULTS_DIR"
    own = {
        **{name: folder / name for name in places.split()},
        "PFL_HEADLESS": "0",  # widgets, as for somebody who watches
        "PYTHONPATH": ROOT,
    }
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"),
        *("--ip=127.0.0.1", f"--ServerApp.root_dir={folder / 'notebooks'}"),
        "--LabApp.expose_app_in_browser=True",  # so that a test can ask it what a notebook holds
        # Where this process is killed before it can stop the server, it ends by itself.
        "--ServerApp.shutdown_no_activity_timeout=900",
        "--MappingKernelManager.cull_idle_timeout=900",
        "--MappingKernelManager.cull_connected=1",
    ]
    log = folder / "log.txt"
    with log.open("w") as written:
        server = subprocess.Popen(
            command,
            env=os.environ | {name: str(value) for name, value in own.items()},
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        url, token = address(server, folder / "JUPYTER_RUNTIME_DIR", log)
        yield lambda path: f"{url}lab/tree/{path}?reset&token={token}"
    finally:
        stop(server)


def address(server: subprocess.Popen, runtime: Path, log: Path) -> tuple[str, str]:
    """The server's address and token, once it answers."""
    file, deadline = runtime / f"jpserver-{server.pid}.json", time.monotonic() + 600
    while time.monotonic() < deadline and server.poll() is None:
        try:
            told = json.loads(file.read_text())
            urllib.request.urlopen(f"{told['url']}api", timeout=10).close()
            return told["url"], told["token"]
        except (OSError, ValueError):  # not there yet, half written, or not listening yet
            time.sleep(0.2)
    pytest.fail(f"JupyterLab does not answer: {log.read_text()[-2000:]}")


def stop(server: subprocess.Popen) -> None:
    """Asked to end, a server ends its kernels first; killed, it is missed by them, and they end."""
    server.terminate()
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


# Asked of the Lab itself: what the page shows as idle may be a notebook without a kernel, of which
# Run All Cells runs nothing.
OPEN = "jupyterapp.shell.currentWidget"
KERNEL = f"{OPEN}.sessionContext.session?.kernel"
IDLE = f"{KERNEL}?.connectionStatus==='connected'&&{KERNEL}.status==='idle'"
CODE = f"{OPEN}.content.model.toJSON().cells.filter(cell=>cell.cell_type==='code')"
ENDED = f"{CODE}.every(cell=>cell.execution_count)"
FAILED = f"{CODE}.some(cell=>cell.outputs.some(output=>output.output_type==='error'))"


def opened(path: str) -> str:
    """Asks whether the Lab shows this notebook."""
    return f"window.jupyterapp&&{OPEN}?.context?.path==='{path}'"


def test_run_all_ends_without_an_error_and_a_slider_moves_its_picture(new_page, lab):
    page, path = new_page(), "01_quickstart.ipynb"
    page.goto(lab(path))
    page.wait_for_function(f"{opened(path)}&&{IDLE}")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(f"{FAILED}||{ENDED}&&{IDLE}")
    cells = page.evaluate(CODE)
    errors = [out for cell in cells for out in cell["outputs"] if out["output_type"] == "error"]
    assert [(error["ename"], error["evalue"]) for error in errors] == []
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    shown = [out["data"] for cell in cells for out in cell["outputs"] if "data" in out]
    widgets = [of for of in shown if "application/vnd.jupyter.widget-view+json" in of]
    assert widgets and all("image/png" in of for of in widgets), "a bar is kept"

    explorer = page.locator(".jp-OutputArea-output", has=page.locator(".widget-slider"))
    picture = explorer.locator("img[alt]")
    picture.wait_for()
    drawn, words = picture.get_attribute("src"), explorer.locator("p").last
    assert words.inner_text() == picture.get_attribute("alt")
    assert re.match(r"Round [23], Alice's model is ", words.inner_text())
    explorer.get_by_role("slider").press("Home")
    explorer.get_by_text("Round 1, Alice's model is ").wait_for()
    assert words.inner_text() == picture.get_attribute("alt")
    assert picture.get_attribute("src") != drawn


def test_a_link_of_the_index_opens_its_notebook(new_page, lab):
    page = new_page()
    page.goto(lab("00_index.ipynb"))
    page.wait_for_function(opened("00_index.ipynb"))
    page.get_by_role("link", name="Figure 8: Ω").first.click()
    page.wait_for_function(opened("waffle/fig8_omega.ipynb"))
