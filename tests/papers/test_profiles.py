import dataclasses

import pytest

from pfl_lib.errors import BadInput
from pfl_lib.papers.profiles import Profile

PROFILE = Profile(
    "small",
    "mnist",
    "MNIST, 10 images",
    images=10,
    rounds=5,
    clients=10,
    seeds=(1,),
    paper_seeds=5,
    differs="Less.",
)


def test_the_banner_says_data_clients_rounds_seeds_and_what_differs():
    assert (
        PROFILE.banner
        == "Small profile: MNIST, 10 images, 10 clients, 5 rounds, seed 1 (the paper averages 5)."
        " Less."
    )


def test_with_as_many_seeds_as_the_paper_the_banner_does_not_mention_the_papers():
    assert "seeds 1 to 5." in PROFILE.with_seeds(5).banner


def test_seeds_that_do_not_follow_each_other_are_listed():
    assert dataclasses.replace(PROFILE, seeds=(1, 4)).seed_words == "seeds 1, 4"


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_a_number_of_seeds_below_one_or_not_whole_is_refused(count):
    with pytest.raises(BadInput, match="seeds .*: give a whole number, 1 or more"):
        PROFILE.with_seeds(count)
