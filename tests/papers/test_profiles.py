import dataclasses

import pytest

from pfl_lib.errors import BadInput
from pfl_lib.federation.schedule import Schedule
from pfl_lib.methods import Local
from pfl_lib.pages.registry import pages
from pfl_lib.papers.profiles import Profile, only, smaller
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.settings import Setting
from pfl_lib.papers.table import Column, Row, Table

SETTING = Setting("mnist", "C", "lenet5", Schedule(rounds=20))
PROFILE = Profile(
    "small",
    "MNIST, 10 images",
    seeds=(1,),
    paper_seeds=5,
    settings=(SETTING,),
    make=smaller(rounds=5, images=10),
    differs="Less.",
)


def test_the_banner_says_data_clients_rounds_seeds_and_what_differs():
    assert (
        PROFILE.banner
        == "Small profile: MNIST, 10 images, 10 clients, 5 rounds, seed 1 (the paper averages 5)."
        " The paper has 20 rounds and 60,000 training examples. Less."
    )


def test_with_as_many_seeds_as_the_paper_the_banner_does_not_mention_the_papers():
    assert "seeds 1 to 5." in PROFILE.with_seeds(5).banner


def test_where_the_papers_seeds_are_unknown_the_banner_names_none():
    assert ", seed 1. The" in dataclasses.replace(PROFILE, seeds_unknown=True).banner


def test_seeds_that_do_not_follow_each_other_are_listed():
    assert dataclasses.replace(PROFILE, seeds=(1, 4)).seed_words == "seeds 1, 4"


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_a_number_of_seeds_below_one_or_not_whole_is_refused(count):
    with pytest.raises(BadInput, match="seeds .*: give a whole number, 1 or more"):
        PROFILE.with_seeds(count)


def test_a_profile_makes_a_setting_smaller_and_never_larger():
    made = PROFILE.make(SETTING)
    assert (made.schedule.rounds, made.images) == (5, 10)
    assert smaller(rounds=50)(SETTING) == SETTING
    assert smaller(images=10)(dataclasses.replace(SETTING, images=4)).images == 4
    assert (PROFILE.rounds, PROFILE.dataset, PROFILE.clients) == (5, "mnist", 10)


def test_several_data_sets_client_counts_and_rounds_are_all_told_in_the_banner():
    many = dataclasses.replace(SETTING, dataset="digits", clients=100).scheduled(rounds=100)
    several = dataclasses.replace(PROFILE, settings=(SETTING, many), make=smaller(rounds=50))
    assert several.banner.startswith(
        "Small profile: MNIST, 10 images, 10 and 100 clients, 20 and 50 rounds, seed 1"
    )
    assert "The paper has 20 and 100 rounds." in several.banner
    with pytest.raises(BadInput, match="the small profile has several clients: ask a setting"):
        _ = several.clients
    assert several.datasets == ["mnist", "digits"]


def test_other_data_than_the_papers_say_that_they_answer_nothing():
    quick = dataclasses.replace(PROFILE, make=smaller(dataset="digits"), differs="")
    assert quick.banner.endswith(
        "The paper has 60,000 training examples. These numbers show that the code works, not"
        " whether the paper's hold."
    )


def test_a_setting_that_is_left_out_is_counted_in_the_banner_and_has_no_runs():
    other = dataclasses.replace(SETTING, partition="A")
    rows = (Row("MNIST", "C", SETTING), Row("MNIST", "A", other), Row("MNIST", "none"))
    table = Table("waffle", "table1", rows, (Column("Local", Local()),), values={})
    on_c = only(lambda setting: setting.partition == "C", PROFILE.make)
    profile = dataclasses.replace(PROFILE, settings=table.settings, make=on_c)
    assert "1 of its 2 settings are left out." in profile.banner
    assert [spec.partition for spec in table.runs(profile)] == ["C"]
    scaled = table.scaled(profile)
    assert [row.setting for row in scaled.rows if row.at] == ["C"]
    assert set(Runs((scaled,), lambda spec: None).values["status"]) == {"not run"}
    assert "left out" not in dataclasses.replace(profile, make=PROFILE.make).banner


def test_the_quick_profile_leaves_out_no_method_that_a_page_runs():
    quick, paper = (
        {run.method.name for page in pages().values() for run in page.needed(name).specs}
        for name in ("quick", "paper")
    )
    assert quick == paper
