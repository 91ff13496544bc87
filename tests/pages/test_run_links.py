"""From the scorecard to the runs behind its numbers, where they are there."""

import pytest

from pfl_lib.display.table_format import run_place
from pfl_lib.pages import run_links


@pytest.fixture
def values(tmp_path):
    """The page of values in a folder of its own, with one number of each of two profiles."""
    file = tmp_path / "scorecard.html"
    numbers = [
        run_links.mark_runs("98.61", "t", profile, "m*-s1") for profile in ("paper", "small")
    ]
    file.write_text(" ".join(numbers))
    return file


def link(file) -> str:
    run_links.link_runs(file, lambda page, profile: f"{profile}/{page}.html")
    return file.read_text()


def test_a_number_leads_to_its_run_on_the_page_and_profile_that_have_it(values):
    place = run_place("m*-s1")
    (values.parent / "small").mkdir()
    (values.parent / "small" / "t.html").write_text(f'<th id="{place}">m*-s1</th>')
    linked = link(values)
    assert linked.count("href=") == 1 and linked.count("98.61") == 2
    assert f'href="small/t.html#{place}" data-page="t" data-profile="small"' in linked


def test_without_the_page_or_the_run_on_it_a_number_is_no_link_and_becomes_one_later(values):
    before, page = values.read_text(), values.parent / "paper" / "t.html"
    assert link(values) == before
    page.parent.mkdir()
    page.write_text('<th id="run-other-s1">other</th>')
    assert link(values) == before
    page.write_text(f'<th id="{run_place("m*-s1")}">m*-s1</th>')
    assert "href" in link(values) and link(values).count("href") == 1
    page.unlink()
    assert link(values) == before
