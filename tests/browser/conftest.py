"""Headless Chromium for the tests of this folder, driven by playwright."""

import shutil

import pytest

PATIENCE = 600_000  # milliseconds: a machine may have much else to do
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MARKS = [
    # playwright's pipes are closed when its process has ended, which Python remarks on.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def browser():
    """One browser for a module's tests; as root it runs only without its sandbox.

    Not for the session's: while playwright runs, its thread has an event loop, and tests that
    start one of their own would fail.
    """
    reason = "needs playwright: extra [test]"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    if CHROMIUM is None:
        pytest.skip("needs Chromium: Debian's package chromium")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=options, timeout=PATIENCE)
        yield started
        started.close()


@pytest.fixture
def new_page(browser):
    """Opens pages, 1300 x 900, that wait long for what a test asks of them; closed afterwards."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.set_default_timeout(PATIENCE)
    yield context.new_page
    context.close()
