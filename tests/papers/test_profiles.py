import dataclasses

import pytest

from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Local
from pfl_lib.pages.registry import pages
from pfl_lib.papers.profiles import Profile, only, smaller
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table
from tests.common import refused

SETTING = Setting("mnist", "C", "lenet5", Schedule(rounds=20))
PROFILE = Profile("small", (SETTING,), (1,), 5, make=smaller(rounds=5, images=10), note="Less.")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_a_number_of_seeds_below_one_or_not_whole_is_refused(count):
    refused("seeds .*: give a whole number, 1 or more", PROFILE.with_seeds, count)


def test_the_banner_names_the_seeds():
    for seeds, told in (((4,), "seed 4 ("), ((2, 3), "seeds 2 to 3 ("), ((1, 4), "seeds 1, 4 (")):
        assert told in dataclasses.replace(PROFILE, seeds=seeds).banner


def test_a_profile_makes_a_setting_smaller_and_never_larger():
    made = PROFILE.make(SETTING)
    assert (made.schedule.rounds, made.images) == (5, 10)
    assert smaller(rounds=50)(SETTING) == SETTING
    assert smaller(images=10)(dataclasses.replace(SETTING, images=4)).images == 4


def test_a_setting_that_is_left_out_is_counted_in_the_banner_and_has_no_runs():
    """Of other data than the paper's the banner says that they answer nothing."""
    other = dataclasses.replace(SETTING, partition="A", clients=100)
    rows = (Row("MNIST", "C", SETTING), Row("MNIST", "A", other), Row("MNIST", "none"))
    table = Table("waffle", "table1", rows, (Column("Local", Local()),), values={})
    on_c = only(lambda setting: setting.partition == "C", smaller(dataset="digits"))
    profile = dataclasses.replace(PROFILE, settings=table.settings, make=on_c)
    assert "dataset digits in place of mnist, training examples 1,438" in profile.banner
    assert "1 of 2 settings left out. These numbers show that the code works" in profile.banner
    assert [spec.partition for spec in table.runs(profile)] == ["C"]
    scaled = table.scaled(profile)
    assert [row.setting for row in scaled.rows if row.at] == ["C"]
    assert set(Runs((scaled,), lambda spec: None).values["status"]) == {"not run"}
    refused("its rows are left out", scaled.only(["A"]).description)


def test_the_quick_profile_leaves_out_no_method_that_a_page_runs():
    quick, paper = (
        {run.method.name for page in pages().values() for run in page.needed(name).specs}
        for name in ("quick", "paper")
    )
    assert quick == paper
