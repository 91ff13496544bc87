"""Pages and explorers in a real browser: headless Chromium, driven by playwright."""

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pfl_lib import explore, run
from pfl_lib.__main__ import main
from tests.browser.conftest import MARKS

pytestmark = [*MARKS, pytest.mark.xdist_group("site")]  # drawn once


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder and its address: two pages from published runs, the index, explorers."""
    folder = tmp_path_factory.mktemp("pages")
    words = "reproduce --profile paper --plots-only --only waffle-fig8 waffle-table1 --reports-dir"
    assert main([*words.split(), str(folder)]) == 0
    settings = {"dataset": "digits", "model": "linear", "rounds": 6, "results_dir": folder / "r"}
    waffle = run("waffle", **settings)
    each = run("pfedla", **settings | {"alice": None, "model": "lenet5", "rounds": 2})
    pieces = [
        explore.weights(waffle, title="WAFFLE").to_html(),
        explore.weights(each, title="pFedLA").to_html(),
        explore.matrix(each, title="matrices").to_html(),
        explore.partition().to_html(),
        explore.methods({"WAFFLE": waffle, "Local": run("local", **settings)}).to_html(),
    ]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Explorers</title>'
    (folder / "explorers.html").write_text(f"{head}<body>{''.join(pieces)}</body></html>")
    (folder / "favicon.ico").touch()  # a browser asks every server for it, unasked by the page
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


TABLE = "paper/waffle-table1.html"
PAGES = ("index.html", "paper/waffle-fig8.html", TABLE, "explorers.html")


@pytest.fixture
def opened(new_page, site, request):
    """A page, open, with the requests it made and the errors of its scripts."""
    page = new_page()
    page.requests, page.errors = [], []
    page.on("request", lambda made: page.requests.append(made.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
    page.goto(f"{site[1]}/{request.param}")
    return page


def resize(page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width=>innerWidth===width", arg=width)


every_page = pytest.mark.parametrize("opened", PAGES, indirect=True)
explorers = pytest.mark.parametrize("opened", ["explorers.html"], indirect=True)


@every_page
def test_a_page_asks_for_nothing_has_words_for_its_pictures_and_fits_its_window(opened):
    """Its answer stands on the first screen, below its title."""
    opened.wait_for_load_state("networkidle")
    asked = [url for url in opened.requests if not url.startswith("data:")]
    assert set(asked) <= {opened.url} and opened.errors == []
    wordless = opened.evaluate(
        "[...document.querySelectorAll('img')].filter(i=>!(i.alt||'').trim()"
        "&&i.getAttribute('role')!=='presentation').length"
        "+[...document.querySelectorAll('svg[role=img]')].filter("
        "i=>!(i.getAttribute('aria-label')||'').trim()).length"
    )
    assert wordless == 0
    for width in (1300, 400):
        resize(opened, width)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        if "explorers" not in opened.url:
            box = opened.locator(".scorecard > .answer, .notebook .answer").first.bounding_box()
            assert box["height"] > 0 and box["y"] + box["height"] <= 900


CONTROLS = (
    "(()=>{const all=[...document.querySelectorAll('a[href],button,input,select,textarea,summary')]"
    ".filter(e=>!e.disabled&&e.checkVisibility({visibilityProperty:true})&&!SAME);"
    "all.forEach((e,i)=>e.dataset.k=i);"
    "return all.map(e=>(e.outerHTML.slice(0,90)));})()"
).replace(
    "SAME",  # a picture beside the link to the same page, which keyboard and reader pass over
    "(e.matches('a[tabindex=\\'-1\\'][aria-hidden=true]')"
    "&&e.parentNode.querySelector('h3 a').href===e.href)",
)


@every_page
def test_the_keyboard_alone_reaches_every_control(opened):
    wanted = opened.evaluate(CONTROLS)
    assert wanted
    reached = set()
    for _ in range(3 * len(wanted) + 60):  # boxes that scroll are reached too
        opened.keyboard.press("Tab")
        reached.add(opened.evaluate("document.activeElement.dataset.k||''"))
        if len(reached - {""}) == len(wanted):
            break
    assert [what for k, what in enumerate(wanted) if str(k) not in reached] == []


@explorers
def test_arrow_keys_move_a_slider_and_its_picture(opened):
    figure = opened.locator("figure.explorer").first
    slider, shown = figure.locator("input[type=range]"), figure.locator(".choice:visible .words")
    assert re.match("Round [2-6], Alice's model is ", shown.inner_text())
    for key, number in (("Home", 1), ("ArrowRight", 2), ("End", 6)):
        slider.press(key)
        figure.locator(".choice:visible", has_text=f"Round {number}, Alice's model is ").wait_for()
        assert figure.locator(".choice:visible").count() == 1


@explorers
def test_every_combination_of_controls_shows_its_picture(opened):
    figure = opened.locator("figure.explorer").nth(1)
    client, layer = figure.locator("select").all()
    for place in range(2):
        figure.locator("input").fill(str(place))
        for name in layer.locator("option").all_inner_texts()[:2]:
            layer.select_option(name)
            for who in client.locator("option").all_inner_texts()[:2]:
                client.select_option(who)
                (shown,) = figure.locator(".choice:visible").all()
                words = shown.locator(".words").inner_text()
                assert words.startswith(f"Round {place + 1}, {name}: {who}'s model is ")
                assert shown.locator("img").get_attribute("alt") == words


@explorers
def test_play_goes_through_all_rounds(opened):
    figure = opened.locator("figure.explorer").first
    figure.locator("input[type=range]").press("End")
    # The page notes each change itself: asked from here, it may have gone on in between.
    figure.locator("output").evaluate(
        "shown=>{window.seen=[];new MutationObserver(()=>seen.push(shown.textContent))"
        ".observe(shown,{childList:true,characterData:true,subtree:true});}"
    )
    figure.locator("button.play").press("Enter")  # from the first again
    opened.wait_for_function("seen.at(-1)==='6'")
    assert opened.evaluate("seen") == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("opened", [TABLE], indirect=True)
def test_on_a_telephone_a_wide_table_scrolls_in_a_box_that_the_keyboard_reaches(opened):
    """It has a caption and heads for those who hear it."""
    resize(opened, 400)
    boxes = opened.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e=>e.checkVisibility())"
        ".map(e=>[e.getBoundingClientRect().right,e.scrollWidth>e.clientWidth,e.tabIndex])"
    )
    assert boxes and all(right <= 400 for right, _, _ in boxes)
    assert any(wide for _, wide, _ in boxes) and all(tab == 0 for _, _, tab in boxes)
    table = opened.get_by_role("table", name="MNIST").first
    assert table.get_by_role("columnheader").count() >= 8
    assert table.get_by_role("row").count() >= 20
